/**
 * Where a request asks for more than its class allows: one function a column, each a pure list of violations. The
 * class is the ceiling; a request may only narrow it (invariant 4).
 */
import type { GrantLifetime, GrantLimits, SandboxRequest } from './grant.ts';
import { isEnvAllowed } from './names.ts';
import { reasonsAgainst } from './narrow-network.ts';
import { hostImage, type JobClass, tierRank } from './policy-schema.ts';
import { enumerate } from './problems.ts';
import { lifetimeQuantities, limitQuantities, type Quantity, showAmount } from './quantities.ts';

export interface Violation {
  /** The cell of the matrix that refuses: "classes.analysis.limits.memory". */
  readonly rule: string;
  /** What was asked and what is allowed. */
  readonly reason: string;
}

/** Every violation, in the order of the columns. */
export function violationsOf(job: JobClass, request: SandboxRequest): Violation[] {
  return [
    ...tierViolations(job, request),
    ...imageViolations(job, request),
    ...amountViolations(job, 'limits', limitQuantities, job.limits, request.limits ?? {}),
    ...networkViolations(job, request),
    ...envViolations(job, request),
    ...amountViolations(job, 'lifetime', lifetimeQuantities, job.lifetime, request.lifetime ?? {}),
  ];
}

/** The image a request gets: process runs on the host's /usr, anything else on the class's image unless it names one. */
export function imageOf(job: JobClass, request: SandboxRequest): string | undefined {
  if (request.image !== undefined) return request.image;
  if ((request.tier ?? job.isolation.tier) === 'process') return hostImage;
  return job.image.default === hostImage ? job.image.allow[0] : job.image.default;
}

function tierViolations(job: JobClass, request: SandboxRequest): Violation[] {
  const { atLeast, root } = job.isolation;
  const rule = `classes.${job.name}.isolation`;
  const violations: Violation[] = [];
  if (request.tier !== undefined && tierRank(request.tier) < tierRank(atLeast)) {
    violations.push({ rule: `${rule}.atLeast`, reason: `tier ${request.tier} is weaker than ${atLeast}` });
  }
  if (request.root === true && !root) violations.push({ rule: `${rule}.root`, reason: 'root is not allowed' });
  return violations;
}

function imageViolations(job: JobClass, request: SandboxRequest): Violation[] {
  const tier = request.tier ?? job.isolation.tier;
  const image = imageOf(job, request);
  const images = [job.image.default, ...job.image.allow].filter((name) => name !== hostImage);
  const allowed = tier === 'process' ? [hostImage] : images;
  if (image !== undefined && allowed.includes(image)) return [];
  const rule = `classes.${job.name}.image`;
  if (image === undefined) return [{ rule, reason: `the class has no image for tier ${tier}` }];
  const names = allowed.length === 0 ? 'no image' : allowed.join(', ');
  return [{ rule, reason: `image ${JSON.stringify(image)}: in tier ${tier} the class allows ${names}` }];
}

function amountViolations<Amounts extends GrantLimits | GrantLifetime>(
  job: JobClass,
  column: 'limits' | 'lifetime',
  quantities: Readonly<Record<keyof Amounts & string, Quantity>>,
  allowed: Amounts,
  asked: Partial<Amounts>,
): Violation[] {
  return typedKeys(quantities).flatMap((key) => {
    const quantity = quantities[key];
    const [most, wanted] = [Number(allowed[key]), asked[key]];
    if (wanted === undefined || Number(wanted) <= most) return [];
    const shown = `${showAmount(Number(wanted), quantity)} is more than ${showAmount(most, quantity)}`;
    return [{ rule: `classes.${job.name}.${column}.${quantity.key}`, reason: `${column}.${key} ${shown}` }];
  });
}

function typedKeys<Key extends string>(table: Readonly<Record<Key, unknown>>): Key[] {
  return Object.keys(table) as Key[];
}

function networkViolations(job: JobClass, request: SandboxRequest): Violation[] {
  const reasons = request.network === undefined ? [] : reasonsAgainst(job.network, request.network);
  return reasons.map((reason) => ({ rule: `classes.${job.name}.network`, reason }));
}

function envViolations(job: JobClass, request: SandboxRequest): Violation[] {
  const refused = Object.keys(request.env ?? {}).filter((name) => !isEnvAllowed(name, job.env.allow));
  if (refused.length === 0) return [];
  const allowed = job.env.allow.length === 0 ? 'the class allows none' : `the class allows ${job.env.allow.join(', ')}`;
  return [{ rule: `classes.${job.name}.env.allow`, reason: `env ${enumerate(refused.sort())}: ${allowed}` }];
}
