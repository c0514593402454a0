/**
 * What must hold between the keys of one network rule, and what is too wide for any: one function a kind. A rule that could not
 * do what it says is refused here, not carried along.
 */
import { type Cidr, parseCidr } from '../network/cidr.ts';
import { parseHostPattern } from '../network/host-pattern.ts';
import { isMetadataHost } from '../network/metadata.ts';
import type { NetworkProtocol } from './network.ts';
import { isMetadataBlock, specialRangeOf } from './network-blocks.ts';
import { seen } from './problems.ts';
import { protocolOf, type WrittenRule } from './written-rule.ts';

interface RuleProblem {
  readonly path: (string | number)[];
  readonly message: string;
}

type Key = keyof WrittenRule;

export function problemsOfRule(rule: WrittenRule): RuleProblem[] {
  const checks = rule.verdict === 'deny' ? denyChecks : allowChecks;
  return checks.flatMap((check) => check(rule));
}

function targetProblems({ hosts, cidrs }: WrittenRule): RuleProblem[] {
  if ((hosts === undefined) !== (cidrs === undefined)) return [];
  const saw = hosts === undefined ? 'neither hosts nor cidrs' : 'hosts and cidrs';
  return [{ path: [], message: `${saw}; allowed: one of the two` }];
}

const keysOfDeny: ReadonlySet<string> = new Set<Key>(['id', 'verdict', 'hosts', 'cidrs', 'ports', 'protocol']);

function denyProblems(rule: WrittenRule): RuleProblem[] {
  const others = Object.keys(rule).filter((key) => !keysOfDeny.has(key));
  return others.map((key) => ({
    path: [key],
    message: 'not for a rule that denies; allowed there: id, verdict, hosts, cidrs, ports, protocol',
  }));
}

/** Where a key means anything. */
const protocolsOf: readonly (readonly [key: Key, protocols: readonly NetworkProtocol[]])[] = [
  ['methods', ['https', 'http']],
  ['paths', ['https', 'http']],
  ['websocket', ['https', 'http']],
  ['inspect', ['https']],
  ['noSni', ['https', 'tls']],
  ['ech', ['https', 'tls']],
];

function protocolProblems(rule: WrittenRule): RuleProblem[] {
  const protocol = protocolOf(rule);
  const allowed = (protocols: readonly NetworkProtocol[]) =>
    `not for protocol ${protocol}; allowed: with ${protocols.join(' or ')}`;
  const problems = protocolsOf.flatMap(([key, protocols]): RuleProblem[] =>
    rule[key] === undefined || protocols.includes(protocol) ? [] : [{ path: [key], message: allowed(protocols) }],
  );
  if (rule.budget?.requests === undefined || protocol === 'https' || protocol === 'http') return problems;
  return [...problems, { path: ['budget', 'requests'], message: allowed(['https', 'http']) }];
}

function portProblems(rule: WrittenRule): RuleProblem[] {
  if (rule.ports !== undefined || protocolOf(rule) !== 'tcp') return [];
  return [{ path: ['ports'], message: 'missing; allowed: at least one port, protocol tcp has no usual one' }];
}

/** The keys for which requests must be seen, and so TLS opened. */
function seeingKeys({ methods, paths, websocket, budget }: WrittenRule): string[] {
  return [
    ...(methods === undefined ? [] : ['methods']),
    ...(paths === undefined ? [] : ['paths']),
    ...(websocket === true ? ['websocket'] : []),
    ...(budget?.requests === undefined ? [] : ['budget.requests']),
  ];
}

function inspectProblems(rule: WrittenRule): RuleProblem[] {
  const keys = seeingKeys(rule).join(', ');
  if (rule.inspect !== 'never' || keys === '') return [];
  return [{ path: ['inspect'], message: `saw "never" with ${keys}; allowed: auto or always, they need TLS opened` }];
}

function encryptedHelloProblems(rule: WrittenRule): RuleProblem[] {
  const keys = openingKeys(rule);
  if (rule.ech !== true || protocolOf(rule) !== 'https' || keys === '') return [];
  return [{ path: ['ech'], message: `saw true with ${keys}; allowed: only where TLS is not opened` }];
}

/** TLS to an address: it names no server, and there is no name that a certificate of ours could be for. */
function addressProblems(rule: WrittenRule): RuleProblem[] {
  const protocol = protocolOf(rule);
  if (rule.cidrs === undefined || (protocol !== 'https' && protocol !== 'tls')) return [];
  const keys = protocol === 'https' ? openingKeys(rule) : '';
  if (keys !== '')
    return [{ path: ['cidrs'], message: `with ${keys}; allowed: hosts, TLS to an address is not opened` }];
  if (rule.noSni === true || rule.ech === true) return [];
  return [{ path: ['noSni'], message: `${seen(rule.noSni)}; allowed: true, TLS to an address names no server` }];
}

function openingKeys(rule: WrittenRule): string {
  return [...seeingKeys(rule), ...(rule.inspect === 'always' ? ['inspect: always'] : [])].join(', ');
}

function hostProblems({ hosts = [] }: WrittenRule): RuleProblem[] {
  return hosts.flatMap((text, index) => {
    const pattern = parseHostPattern(text);
    if (pattern === undefined || !isMetadataHost(pattern.name)) return [];
    return [{ path: ['hosts', index], message: `${seen(text)}; allowed: no metadata service, in any rule` }];
  });
}

function privateProblems(rule: WrittenRule): RuleProblem[] {
  if (rule.private === undefined || rule.cidrs !== undefined) return [];
  return [{ path: ['private'], message: 'not for hosts; allowed: with cidrs, which name what is private' }];
}

function blockProblems({ cidrs = [], private: isPrivate = false }: WrittenRule): RuleProblem[] {
  return cidrs.flatMap((text, index) => {
    const block = parseCidr(text);
    const problem = block === undefined ? undefined : problemOfBlock(block, isPrivate);
    return problem === undefined ? [] : [{ path: ['cidrs', index], message: `${seen(text)}; allowed: ${problem}` }];
  });
}

const fewestPrefixBits = { 4: 8, 6: 16 } as const;

function problemOfBlock(block: Cidr, isPrivate: boolean): string | undefined {
  const fewest = fewestPrefixBits[block.family];
  if (block.prefixBits < fewest) return `/${fewest} or longer for IPv${block.family}, a wider block is half the world`;
  if (isMetadataBlock(block)) return 'no address of a metadata service, in any rule';
  const range = isPrivate ? undefined : specialRangeOf(block);
  return range === undefined ? undefined : `only with "private: true", for it is ${range.name} (${range.block})`;
}

type RuleCheck = (rule: WrittenRule) => RuleProblem[];

const denyChecks: readonly RuleCheck[] = [targetProblems, denyProblems];
const allowChecks: readonly RuleCheck[] = [
  targetProblems,
  protocolProblems,
  portProblems,
  inspectProblems,
  encryptedHelloProblems,
  addressProblems,
  hostProblems,
  privateProblems,
  blockProblems,
];
