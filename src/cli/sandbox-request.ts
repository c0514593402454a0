/** The options of a sandbox request, parsed once. The class itself is judged by admission, not here. */
import type { GrantLimits, SandboxRequest, Tier } from '../admission/grant.ts';
import type { NetworkRequest } from '../admission/network.ts';
import { SallyportError } from '../errors/error.ts';
import { parseBytes } from '../units/bytes.ts';
import { parseDuration } from '../units/duration.ts';
import type { Options } from './options.ts';
import { parseArgument, parsePairs, UsageError } from './usage-error.ts';

/** @throws UsageError */
export function sandboxRequestOf(options: Options): SandboxRequest {
  const job = options.text('class');
  if (job === undefined) throw new UsageError('--class is missing; "sallyport matrix show" lists the classes');
  const [tier, image, env] = [options.text('tier'), options.text('image'), options.list('env')];
  const [limits, network] = [limitsOf(options), networkRequestOf(options)];
  return {
    class: job,
    ...(tier === undefined ? {} : { tier: tier as Tier }), // one of the choices that commander let pass
    ...(image === undefined ? {} : { image }),
    ...(network === undefined ? {} : { network }),
    ...(env.length === 0 ? {} : { env: parsePairs('--env', env) }),
    ...(Object.keys(limits).length === 0 ? {} : { limits }),
  };
}

/** What is left of the network; undefined: all of it. @throws UsageError */
export function networkRequestOf(options: Options): NetworkRequest | undefined {
  const isDenied = options.text('network') === 'deny';
  const [rules, hosts] = [options.list('networkRule'), options.list('allowHost')];
  if (isDenied && rules.length + hosts.length > 0) {
    throw new UsageError('--network deny leaves nothing that --allow-host or --network-rule could name');
  }
  if (isDenied) return 'deny';
  if (rules.length + hosts.length === 0) return undefined;
  return { ...(rules.length === 0 ? {} : { rules }), ...(hosts.length === 0 ? {} : { hosts }) };
}

const limitOptions: readonly (readonly [option: string, limit: keyof GrantLimits, parse: (text: string) => number])[] =
  [
    ['memory', 'memoryBytes', parseBytes],
    ['cpu', 'cpuMillis', parseCpus],
    ['pids', 'pids', parseCount],
    ['disk', 'diskBytes', parseBytes],
    ['timeout', 'execMs', parseDuration],
  ];

function limitsOf(options: Options): Partial<GrantLimits> {
  const given = limitOptions.flatMap(([option, limit, parse]): [string, number][] => {
    const text = options.text(option);
    return text === undefined ? [] : [[limit, parseArgument(`--${option}`, text, parse)]];
  });
  return Object.fromEntries(given);
}

/** "1.5" CPUs as thousandths, by its digits: no rounding decides about a limit. */
function parseCpus(text: string): number {
  const [, whole, fraction = ''] = /^(\d{1,5})(?:\.(\d{1,3}))?$/.exec(text) ?? [];
  if (whole !== undefined) return Number(whole) * 1000 + Number(fraction.padEnd(3, '0'));
  throw new SallyportError(
    'invalid_request',
    `Cannot read CPUs ${JSON.stringify(text)}: allowed is a number such as 1.5`,
  );
}

function parseCount(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new SallyportError('invalid_request', `Cannot read count ${JSON.stringify(text)}: allowed is a whole number`);
}
