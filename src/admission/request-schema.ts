/**
 * What a caller may send, in base units, with the field names of {@link SandboxRequest}. Server and CLI parse outside
 * text with it once. It has no transforms, so OpenAPI can describe it; values of `env` never appear in its messages.
 */
import { z } from 'zod';
import { parseHostPattern } from '../network/host-pattern.ts';
import { type SandboxRequest, tiers } from './grant.ts';
import { isEnvironmentSmall, isEnvName, isEnvValue, isNetworkName, networkNameRule } from './names.ts';
import type { NetworkRequest } from './network.ts';
import { hostsAllowed } from './network-entries.ts';
import { row, seen, showPath, showProblem } from './problems.ts';
import { lifetimeQuantities, limitQuantities, type Quantity } from './quantities.ts';

const baseUnits = { count: '', bytes: ' of bytes', ms: ' of milliseconds' } as const;

/** Only the floor: what is more than the class allows is admission's to refuse, by rule. */
function amount(quantity: Quantity) {
  const allowed = `a whole number${baseUnits[quantity.unit]}, at least ${quantity.min}`;
  const error = (issue: { readonly input?: unknown }) => `${seen(issue.input)}; allowed: ${allowed}`;
  return z.int({ error }).min(quantity.min, { error }).exactOptional();
}

function name(what: string) {
  const error = (issue: { readonly input?: unknown }) => `${seen(issue.input)}; allowed: ${what}`;
  return z.string({ error }).min(1, { error }).max(64, { error });
}

const limits = row({
  cpuShares: amount(limitQuantities.cpuShares),
  cpuMillis: amount(limitQuantities.cpuMillis),
  memoryBytes: amount(limitQuantities.memoryBytes),
  pids: amount(limitQuantities.pids),
  openFiles: amount(limitQuantities.openFiles),
  diskBytes: amount(limitQuantities.diskBytes),
  inodes: amount(limitQuantities.inodes),
  execMs: amount(limitQuantities.execMs),
  outputBytes: amount(limitQuantities.outputBytes),
});

const lifetime = row({ wallMs: amount(lifetimeQuantities.wallMs), idleMs: amount(lifetimeQuantities.idleMs) });

const env = z
  .record(
    z.string().refine(isEnvName, { error: 'name not allowed; allowed: a letter or "_", then letters, digits and "_"' }),
    z
      .string({ error: 'not text; allowed: text' })
      .refine(isEnvValue, { error: 'value not shown; allowed: text without NUL, at most 128KiB' }),
    { error: (issue) => `${seen(issue.input)}; allowed: an object of names and values` },
  )
  .refine(isEnvironmentSmall, { error: 'more than 256KiB of names and values together; allowed: at most 256KiB' });

/** A class may have a thousand rules; more hosts than these are a class of their own. */
const [mostRules, mostHosts] = [1000, 256];
const networkForms = '"deny", or an object with rules, hosts or both';

function names(most: number, accepts: (name: string) => boolean, allowed: (name: string) => string) {
  const error = (issue: { readonly input?: unknown }) =>
    `${seen(issue.input)}; allowed: ${allowed(typeof issue.input === 'string' ? issue.input : '')}`;
  return z
    .array(z.string({ error }).refine(accepts, { error }), {
      error: (issue) => `${seen(issue.input)}; allowed: a list`,
    })
    .max(most, { error: `more than ${most} entries; allowed: at most ${most}` });
}

/** Also for a sandbox that runs, to tighten it. */
export const networkRequestSchema = z.union(
  [
    z.literal('deny'),
    row({
      rules: names(mostRules, isNetworkName, () => `the id of a rule: ${networkNameRule}`).exactOptional(),
      hosts: names(mostHosts, (text) => parseHostPattern(text) !== undefined, hostsAllowed).exactOptional(),
    }),
  ],
  { error: networkError },
) satisfies z.ZodType<NetworkRequest>;

/** zod says of a union only that no branch fits: the branch that was meant says why. */
function networkError(issue: z.core.$ZodRawIssue): string {
  const first = issue.code === 'invalid_union' ? issue.errors[1]?.[0] : undefined;
  if (first === undefined || typeof issue.input !== 'object' || issue.input === null || Array.isArray(issue.input)) {
    return `${seen(issue.input)}; allowed: ${networkForms}`;
  }
  return showProblem({ path: showPath(first.path), message: first.message });
}

export const requestSchema = row({
  class: name('the name of a job class'),
  tier: z.enum(tiers, { error: (issue) => `${seen(issue.input)}; allowed: ${tiers.join(' or ')}` }).exactOptional(),
  root: z.boolean({ error: (issue) => `${seen(issue.input)}; allowed: true or false` }).exactOptional(),
  image: name('the name of an image').exactOptional(),
  limits: limits.exactOptional(),
  lifetime: lifetime.exactOptional(),
  network: networkRequestSchema.exactOptional(),
  env: env.exactOptional(),
}) satisfies z.ZodType<SandboxRequest>;
