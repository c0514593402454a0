/**
 * The shape of a policy file: one row a job class, every column required, no key that is not known (CX-01), no entry
 * that allows everything (CX-03). Human units become numbers here, and nowhere else.
 */
import { amount, list, named, oneOf, text, yesOrNo } from './cells.ts';
import { type Grant, type GrantLifetime, type GrantLimits, type Tier, tiers } from './grant.ts';
import {
  isClassName,
  isEnvironmentSmall,
  isEnvName,
  isEnvPattern,
  isEnvValue,
  isImageName,
  isWorkdir,
} from './names.ts';
import { network } from './network-schema.ts';
import { cell, row, seen } from './problems.ts';
import { artifactQuantities, fileQuantities, lifetimeQuantities, limitQuantities, showAmount } from './quantities.ts';

/** The image of the tier `process`: the host's own read-only /usr. */
export const hostImage = 'host';

/** One row of the matrix: the ceiling of every sandbox of this class. */
export interface JobClass {
  readonly name: string;
  readonly isolation: {
    /** The tier a request gets that asks for none. */
    readonly tier: Tier;
    /** The weakest tier a request may ask for. */
    readonly atLeast: Tier;
    /** Whether root inside the sandbox is to be had. */
    readonly root: boolean;
  };
  /** `default` is allowed without being listed in `allow`. */
  readonly image: { readonly default: string; readonly allow: readonly string[] };
  readonly files: Grant['files'];
  readonly network: Grant['network'];
  readonly packages: Grant['packages'];
  readonly secrets: Grant['secrets'];
  readonly limits: GrantLimits;
  readonly env: {
    readonly set: Readonly<Record<string, string>>;
    /** Names, or prefixes that end in `_*`, which a request may set. */
    readonly allow: readonly string[];
  };
  readonly artifacts: Grant['artifacts'];
  readonly tools: readonly string[];
  readonly lifetime: GrantLifetime;
}

type ClassRow = Omit<JobClass, 'name'>;

export function tierRank(tier: Tier): number {
  return tiers.indexOf(tier);
}

/** A column that this release knows only the closed form of. */
function closed(what: string) {
  return cell(`none (this release has no ${what} to open; a sandbox has none)`, (value) =>
    value === 'none' ? ({ mode: 'none' } as const) : undefined,
  );
}

const tier = oneOf(tiers);
const imageName = text('the name of an image: small letters, digits, ".", "_" and "-"', isImageName);
const classNameRule = 'a small letter, then at most 31 small letters, digits and "-"';
const envNameRule = 'a letter or "_", then letters, digits and "_"';
const envPatternRule = `${envNameRule}; or such a prefix that ends in "_*"; "*" alone would allow everything`;

const limits = row({
  cpuShares: amount(limitQuantities.cpuShares),
  cpuMillis: amount(limitQuantities.cpuMillis),
  memory: amount(limitQuantities.memoryBytes),
  pids: amount(limitQuantities.pids),
  openFiles: amount(limitQuantities.openFiles),
  disk: amount(limitQuantities.diskBytes),
  inodes: amount(limitQuantities.inodes),
  exec: amount(limitQuantities.execMs),
  output: amount(limitQuantities.outputBytes),
}).transform(
  (cells): GrantLimits => ({
    cpuShares: cells.cpuShares,
    cpuMillis: cells.cpuMillis,
    memoryBytes: cells.memory,
    pids: cells.pids,
    openFiles: cells.openFiles,
    diskBytes: cells.disk,
    inodes: cells.inodes,
    execMs: cells.exec,
    outputBytes: cells.output,
  }),
);

const lifetime = row({ wall: amount(lifetimeQuantities.wallMs), idle: amount(lifetimeQuantities.idleMs) }).transform(
  ({ wall, idle }): GrantLifetime => ({ wallMs: wall, idleMs: idle }),
);

const environment = named(
  'variables and their values',
  envNameRule,
  isEnvName,
  text('text without NUL, at most 128KiB', isEnvValue),
).refine(isEnvironmentSmall, { error: 'more than 256KiB of names and values together; allowed: at most 256KiB' });

const classRow = row({
  isolation: row({ tier, atLeast: tier, root: yesOrNo }),
  image: row({ default: imageName, allow: list(imageName) }),
  files: row({
    workdir: text(
      'an absolute path below / without "." or "..", not in /usr, /etc, /proc, /sys, /dev or /inputs',
      isWorkdir,
    ),
    inputBytes: amount(fileQuantities.inputBytes),
    inputFiles: amount(fileQuantities.inputFiles),
  }),
  network,
  packages: closed('package endpoints'),
  secrets: closed('secret bindings'),
  limits,
  env: row({ set: environment, allow: list(text(envPatternRule, isEnvPattern)) }),
  artifacts: row({ bytes: amount(artifactQuantities.bytes), files: amount(artifactQuantities.files) }),
  tools: cell('[] (this release has no tool gateway)', (value) =>
    Array.isArray(value) && value.length === 0 ? ([] as readonly string[]) : undefined,
  ),
  lifetime,
}).superRefine((job, context) => {
  for (const rule of classRules) {
    const problem = rule(job);
    if (problem !== undefined) context.addIssue({ code: 'custom', path: [...problem.path], message: problem.message });
  }
});

/** The policy file as it is written, and as the object that {@link JobClass} is made from. */
export const policySchema = row({
  version: cell('1', (value) => (value === 1 ? (1 as const) : undefined)),
  classes: named('one row a job class', classNameRule, isClassName, classRow).refine(
    (classes) => Object.keys(classes).length > 0,
    { error: 'no class; allowed: at least one job class' },
  ),
});

type RuleProblem = { readonly path: readonly string[]; readonly message: string };
type ClassRule = (job: ClassRow) => RuleProblem | undefined;

/** What must hold between the columns of one class. */
const classRules: readonly ClassRule[] = [
  (job) => {
    const { tier, atLeast } = job.isolation;
    if (tierRank(atLeast) <= tierRank(tier)) return undefined;
    return { path: ['isolation', 'atLeast'], message: `saw "${atLeast}"; allowed: not stronger than tier "${tier}"` };
  },
  (job) => {
    const isProcess = job.isolation.tier === 'process';
    if (isProcess === (job.image.default === hostImage)) return undefined;
    const allowed = isProcess ? `"${hostImage}", the only image of tier process` : 'an image of tier container';
    return { path: ['image', 'default'], message: `${seen(job.image.default)}; allowed: ${allowed}` };
  },
  (job) => {
    if (!job.image.allow.includes(hostImage)) return undefined;
    const allowed = 'images of tier container; tier process always runs on "host"';
    return { path: ['image', 'allow'], message: `saw "${hostImage}"; allowed: ${allowed}` };
  },
  (job) => notLonger(job, ['limits', 'exec'], job.limits.execMs),
  (job) => notLonger(job, ['lifetime', 'idle'], job.lifetime.idleMs),
];

function notLonger(job: ClassRow, path: readonly string[], ms: number): RuleProblem | undefined {
  const { wallMs } = job.lifetime;
  if (ms <= wallMs) return undefined;
  const show = (value: number) => showAmount(value, lifetimeQuantities.wallMs);
  return { path, message: `saw ${show(ms)}; allowed: at most lifetime.wall, ${show(wallMs)}` };
}
