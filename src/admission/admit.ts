/**
 * The admission decision: (policy, request, facts) to one immutable, stamped Grant, or a refusal with its rule and
 * reason. Pure: it reads nothing, so explain, dry-run and tests are this same function.
 */
import { digestOf } from '../digest/digest.ts';
import { SallyportError } from '../errors/error.ts';
import { deepFreeze } from './freeze.ts';
import type { Grant, GrantLifetime, GrantLimits, SandboxRequest, StampedGrant, Tier } from './grant.ts';
import { imageOf, type Violation, violationsOf } from './narrow.ts';
import { narrowed } from './narrow-network.ts';
import { findClass, type JobClass, type Policy } from './policy.ts';
import { type Problem, problemsOf, showProblem } from './problems.ts';
import { requestSchema } from './request-schema.ts';

/** What the host has, found out before the decision. */
export interface AdmissionFacts {
  /** Image names and their digests. */
  readonly images: ReadonlyMap<string, string>;
  /** Tiers that were exercised and work; left out where that is found out at the start. */
  readonly availableTiers?: ReadonlySet<Tier>;
}

type DenialCode = 'class_unknown' | 'request_widens' | 'invalid_request' | 'image_missing' | 'tier_unavailable';

export interface Denial {
  readonly verdict: 'denied';
  readonly code: DenialCode;
  /** The cell of the matrix or the field of the request that refuses. */
  readonly rule: string;
  /** One sentence with everything that stands in the way. */
  readonly reason: string;
}

export type Admission = { readonly verdict: 'granted'; readonly stamped: StampedGrant } | Denial;

/**
 * @example
 * const admission = admit(policy, { class: 'analysis', limits: { memoryBytes: 268_435_456 } }, { images });
 * if (admission.verdict === 'denied') console.error(admission.rule, admission.reason);
 */
export function admit(policy: Policy, request: SandboxRequest, facts: AdmissionFacts): Admission {
  // Checked here too, whoever parsed it: NaN is not more than any ceiling.
  const parsed = requestSchema.safeParse(request);
  if (!parsed.success) return malformed(problemsOf(parsed.error));
  const contradicted = contradictions(request);
  if (contradicted.length > 0) return malformed(contradicted);
  const job = findClass(policy, parsed.data.class);
  if (job === undefined) return unknownClass(policy, parsed.data.class);
  return widened(job, violationsOf(job, parsed.data)) ?? grantOf(policy, job, parsed.data, facts);
}

/** As {@link admit}, for callers that treat a refusal as an error. @throws SallyportError with the denial's code and reason */
export function grantOrThrow(policy: Policy, request: SandboxRequest, facts: AdmissionFacts): StampedGrant {
  const admission = admit(policy, request, facts);
  if (admission.verdict === 'granted') return admission.stamped;
  throw new SallyportError(admission.code, admission.reason);
}

function denied(code: DenialCode, rule: string, reason: string): Denial {
  return { verdict: 'denied', code, rule, reason };
}

function malformed(problems: readonly Problem[]): Denial {
  const path = problems[0]?.path ?? '';
  const rule = path === '' ? 'request' : `request.${path}`;
  return denied('invalid_request', rule, `Cannot read the sandbox request: ${problems.map(showProblem).join('; ')}`);
}

/** What no single field of the request shows; its shape has been checked. */
function contradictions(request: SandboxRequest): Problem[] {
  const wallMs = request.lifetime?.wallMs ?? Number.POSITIVE_INFINITY;
  const asked = [
    { path: 'limits.execMs', ms: request.limits?.execMs },
    { path: 'lifetime.idleMs', ms: request.lifetime?.idleMs },
  ];
  const longer = asked.filter(({ ms }) => ms !== undefined && ms > wallMs);
  const problems = longer.map(({ path, ms }) => ({
    path,
    message: `saw ${ms}; allowed: at most lifetime.wallMs, ${wallMs}`,
  }));
  // zod's record steps over this key without a word.
  if (!Object.hasOwn(request.env ?? {}, '__proto__')) return problems;
  return [...problems, { path: 'env', message: 'name "__proto__" is not allowed' }];
}

function unknownClass(policy: Policy, name: string): Denial {
  const known = policy.classes.map((job) => job.name).join(', ');
  return denied(
    'class_unknown',
    'classes',
    `Cannot create sandbox: no class ${JSON.stringify(name)}; the policy has ${known}`,
  );
}

function widened(job: JobClass, violations: readonly Violation[]): Denial | undefined {
  const [first] = violations;
  if (first === undefined) return undefined;
  const reasons = violations.map((violation) => violation.reason).join('; ');
  return denied('request_widens', first.rule, `Cannot create sandbox of class ${job.name}: ${reasons}`);
}

function grantOf(policy: Policy, job: JobClass, request: SandboxRequest, facts: AdmissionFacts): Admission {
  const tier = request.tier ?? job.isolation.tier;
  const prefix = `Cannot create sandbox of class ${job.name}`;
  if (facts.availableTiers?.has(tier) === false) {
    const rule = `classes.${job.name}.isolation.tier`;
    return denied('tier_unavailable', rule, `${prefix}: tier ${tier} does not work on this host`);
  }
  const name = imageOf(job, request) ?? '';
  const digest = facts.images.get(name);
  if (digest === undefined) {
    const reason = `${prefix}: image ${JSON.stringify(name)} of tier ${tier} is not on this host`;
    return denied('image_missing', `classes.${job.name}.image`, reason);
  }
  return { verdict: 'granted', stamped: stamp(buildGrant(policy, job, request, tier, { name, digest })) };
}

function buildGrant(policy: Policy, job: JobClass, request: SandboxRequest, tier: Tier, image: Grant['image']): Grant {
  const lifetime = withinWall({ ...job.lifetime, ...request.lifetime });
  return {
    version: 1,
    class: job.name,
    policySha256: policy.sha256,
    isolation: { tier, root: job.isolation.root && request.root !== false },
    image,
    files: job.files,
    network: narrowed(job.network, request.network),
    packages: job.packages,
    secrets: job.secrets,
    limits: execWithinWall({ ...job.limits, ...request.limits }, lifetime.wallMs),
    env: { ...job.env.set, ...request.env },
    artifacts: job.artifacts,
    tools: job.tools,
    lifetime,
  };
}

/** A shorter wall shortens what the request left to the class: nothing may last longer than the sandbox. */
function withinWall(lifetime: GrantLifetime): GrantLifetime {
  return { ...lifetime, idleMs: Math.min(lifetime.idleMs, lifetime.wallMs) };
}

function execWithinWall(limits: GrantLimits, wallMs: number): GrantLimits {
  return { ...limits, execMs: Math.min(limits.execMs, wallMs) };
}

function stamp(grant: Grant): StampedGrant {
  return deepFreeze({ grant, digest: digestOf(grant) });
}
