/**
 * A request for less of the network than there is: what is asked for more is told, what is left of the rules becomes part of
 * the Grant. The rules themselves are never touched, so nothing that was denied is allowed by asking.
 */
import { SallyportError } from '../errors/error.ts';
import { type HostPattern, parseHostPattern } from '../network/host-pattern.ts';
import type { NetworkGrant, NetworkNarrowing, NetworkRequest, NetworkRule } from './network.ts';
import { enumerate } from './problems.ts';

type OpenNetwork = Exclude<NetworkGrant, { readonly mode: 'deny' }>;

/** The Grant of a running sandbox, with less left. @throws SallyportError `request_widens` */
export function narrowNetwork(network: NetworkGrant, request: NetworkRequest): NetworkGrant {
  const reasons = reasonsAgainst(network, request);
  if (reasons.length === 0) return narrowed(network, request);
  throw new SallyportError('request_widens', `Cannot narrow the network: ${reasons.join('; ')}`);
}

/** Where the request asks for what the network has not; empty: nowhere. */
export function reasonsAgainst(network: NetworkGrant, request: NetworkRequest): string[] {
  if (request === 'deny') return [];
  if (network.mode === 'deny') return reasonsAgainstNone(request);
  const kept = keptRules(network);
  const asked = request.rules === undefined ? undefined : new Set(request.rules);
  const rules = kept.filter(({ id }) => asked?.has(id) ?? true);
  return [...ruleReasons(kept, request.rules ?? []), ...hostReasons(network, rules, request.hosts ?? [])];
}

/** @param request one that has no {@link reasonsAgainst} it */
export function narrowed(network: NetworkGrant, request: NetworkRequest | undefined): NetworkGrant {
  if (network.mode === 'deny' || request === undefined) return network;
  if (request === 'deny') return { mode: 'deny' };
  const rules = request.rules ?? network.narrowing?.rules;
  const hosts = request.hosts ?? network.narrowing?.hosts;
  if (rules === undefined && hosts === undefined) return network;
  const narrowing: NetworkNarrowing = {
    ...(rules === undefined ? {} : { rules: sorted([...rules, ...idsThatDeny(network)]) }),
    ...(hosts === undefined ? {} : { hosts: sorted(hosts.map(canonical)) }),
  };
  return { ...network, narrowing };
}

function reasonsAgainstNone({ rules = [], hosts = [] }: NetworkNarrowing): string[] {
  const names = [...rules, ...hosts];
  return names.length === 0 ? [] : [`network ${enumerate(names)}: the class allows no network`];
}

function keptRules({ rules, narrowing }: OpenNetwork): NetworkRule[] {
  const kept = narrowing?.rules === undefined ? undefined : new Set(narrowing.rules);
  return rules.filter(({ id }) => kept?.has(id) ?? true);
}

function ruleReasons(rules: readonly NetworkRule[], asked: readonly string[]): string[] {
  const known = new Set(rules.map(({ id }) => id));
  const unknown = asked.filter((id) => !known.has(id));
  if (unknown.length === 0) return [];
  const allowed = known.size === 0 ? 'the class has none' : `the class has ${enumerate([...known])}`;
  return [`network rule ${enumerate(unknown)}: ${allowed}`];
}

function hostReasons(network: OpenNetwork, rules: readonly NetworkRule[], asked: readonly string[]): string[] {
  const allowed = new Set(rules.flatMap(({ verdict, hosts }) => (verdict === 'allow' ? hosts : [])));
  const earlier = network.narrowing?.hosts === undefined ? undefined : new Set(network.narrowing.hosts);
  const isAllowed = (text: string) => isCovered(text, allowed) && (earlier === undefined || isCovered(text, earlier));
  const refused = asked.filter((text) => !isAllowed(text));
  if (refused.length === 0) return [];
  const names = [...(earlier ?? allowed)];
  const allowedHosts = names.length === 0 ? 'no host is allowed' : `allowed are ${enumerate(names)}`;
  return [`network host ${enumerate(refused)}: ${allowedHosts}`];
}

/** `coversPattern` by one of many, in as many steps as the name has labels. */
function isCovered(text: string, patterns: ReadonlySet<string>): boolean {
  const inner = parseHostPattern(text);
  if (inner === undefined) return false;
  return patterns.has(inner.text) || namesAbove(inner).some((name) => patterns.has(`*.${name}`));
}

function namesAbove({ name }: HostPattern): string[] {
  const labels = name.split('.');
  return labels.slice(1).map((_label, index) => labels.slice(index + 1).join('.'));
}

/** Kept whatever was asked: no request leaves out what its class denies. */
function idsThatDeny({ rules }: OpenNetwork): string[] {
  return rules.flatMap(({ id, verdict }) => (verdict === 'deny' ? [id] : []));
}

function canonical(text: string): string {
  return parseHostPattern(text)?.text ?? text;
}

function sorted(texts: readonly string[]): string[] {
  return [...new Set(texts)].sort();
}
