/**
 * A Grant's rules, made ready to be asked: parsed once, and found by host or address without looking at the others. A rule
 * that could never allow what it says (no port, a method list without a method, columns that need to see what its protocol
 * seals) allows nothing; admission refuses such rules with a sentence.
 */
import type { NetworkGrant, NetworkRule, PortRange } from '../../admission/network.ts';
import { SallyportError } from '../../errors/error.ts';
import { type Cidr, parseCidr } from '../../network/cidr.ts';
import { type HostPattern, parseHostPattern } from '../../network/host-pattern.ts';
import { matchesAll, type PathGlob, parsePathGlob } from '../../network/path-glob.ts';
import { RuleIndex } from './rule-index.ts';

export interface CompiledRule {
  readonly id: string;
  readonly rule: NetworkRule;
  readonly ports: readonly PortRange[];
  readonly methods: ReadonlySet<string> | undefined;
  readonly paths: readonly PathGlob[] | undefined;
  readonly phases: ReadonlySet<string> | undefined;
  readonly cidrs: readonly Cidr[];
  /** Whether the request's narrowing keeps it; asked of rules that allow only, as no request leaves out what its class denies. */
  readonly isKept: boolean;
  /**
   * What its TLS connections need: `sealed` ones pass as they are, those of a `seen` rule are opened, and an `either` rule
   * does not mind.
   */
  readonly sight: 'sealed' | 'either' | 'seen';
}

export interface CompiledRules {
  readonly grant: NetworkGrant;
  readonly allow: RuleIndex;
  readonly deny: RuleIndex;
  /** The request's narrowing; absent: every host. */
  readonly hosts?: readonly HostPattern[];
  /** Whether the request's narrowing names rules; then nothing passes without one. */
  readonly isNarrowedToRules: boolean;
}

/** @throws SallyportError `internal` for what admission lets through to nobody */
export function compileRules(grant: NetworkGrant): CompiledRules {
  const [allow, deny] = [new RuleIndex(), new RuleIndex()];
  if (grant.mode === 'deny') return { grant, allow, deny, isNarrowedToRules: false };
  const { narrowing } = grant;
  const kept = narrowing?.rules === undefined ? undefined : new Set(narrowing.rules);
  for (const rule of grant.rules) {
    const compiled = compileRule(rule, kept?.has(rule.id) ?? true);
    if (isIdle(compiled)) continue;
    addRule(rule.verdict === 'deny' ? deny : allow, compiled);
  }
  const hosts = narrowing?.hosts?.map((text) => parsed(parseHostPattern, text, 'host pattern'));
  return { grant, allow, deny, isNarrowedToRules: kept !== undefined, ...(hosts === undefined ? {} : { hosts }) };
}

function compileRule(rule: NetworkRule, isKept: boolean): CompiledRule {
  const isDeny = rule.verdict === 'deny';
  const paths = rule.paths?.map((text) => parsed(parsePathGlob, text, 'path glob'));
  const methods = rule.methods?.filter((method) => isDeny || method !== 'CONNECT');
  return {
    id: rule.id,
    rule,
    ports: rule.ports,
    methods: methods === undefined ? undefined : new Set(methods),
    // a rule that denies every path has no need to see one; one that allows every path refuses those with two readings
    paths: isDeny && paths?.some(matchesAll) === true ? undefined : paths,
    phases: rule.phases === undefined ? undefined : new Set(rule.phases),
    cidrs: rule.cidrs.map((text) => parsed(parseCidr, text, 'block')),
    isKept,
    sight: sightOf(rule),
  };
}

export function sightOf(rule: NetworkRule): CompiledRule['sight'] {
  if (rule.protocol === 'tls' || rule.protocol === 'tcp') return 'sealed';
  if (mustBeSeen(rule)) return 'seen';
  if (rule.inspect === 'never') return 'sealed';
  return rule.websocket ? 'seen' : 'either';
}

function mustBeSeen({ methods, paths, budget, inspect }: NetworkRule): boolean {
  return methods !== undefined || paths !== undefined || budget?.requests !== undefined || inspect === 'always';
}

function isIdle({ rule, ports, methods, paths, phases }: CompiledRule): boolean {
  if (ports.length === 0 || methods?.size === 0 || paths?.length === 0 || phases?.size === 0) return true;
  if (rule.verdict === 'deny' || (rule.protocol !== 'tls' && rule.protocol !== 'tcp')) return false;
  return rule.methods !== undefined || rule.paths !== undefined || rule.budget?.requests !== undefined;
}

function addRule(index: RuleIndex, compiled: CompiledRule): void {
  const { rule, cidrs } = compiled;
  for (const text of rule.hosts) index.addHost(parsed(parseHostPattern, text, 'host pattern'), compiled);
  if (cidrs.length === 0) return;
  const forAddresses = sealedForAddresses(compiled);
  for (const cidr of forAddresses === undefined ? [] : cidrs) index.addBlock(cidr, forAddresses ?? compiled);
}

/** TLS to a raw address is never opened: there is no name that a certificate of ours could be for. */
function sealedForAddresses(compiled: CompiledRule): CompiledRule | undefined {
  const { rule, sight } = compiled;
  if (rule.verdict === 'deny' || rule.protocol !== 'https' || sight !== 'seen') return compiled;
  return mustBeSeen(rule) ? undefined : { ...compiled, sight: 'either' };
}

function parsed<Value>(parse: (text: string) => Value | undefined, text: string, what: string): Value {
  const value = parse(text);
  if (value !== undefined) return value;
  throw new SallyportError('internal', `Cannot read the network rules: ${JSON.stringify(text)} is no ${what}`);
}
