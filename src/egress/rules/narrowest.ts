/**
 * The narrowest change that makes an attempt allowed: what the request cut off, one key of a rule that is for this host
 * alone, or else a new rule for this host, port, method and path. Each proposal is tried on the rules themselves, so that
 * none is made that does not do it, and none touches another host.
 */
import type { NetworkGrant, NetworkProtocol, NetworkRule } from '../../admission/network.ts';
import { globOfPath } from '../../network/path-glob.ts';
import { isSpecial } from '../../network/special-ranges.ts';
import type { Attempt, Denial, DenialCode } from '../types.ts';
import { applyChange, type KeyChange, type NetworkChange, type OpenKey } from './change.ts';
import { compileRules } from './compile.ts';
import { decide } from './decide.ts';
import { blocksOf, freshId, joinedRanges, ruleOf } from './draft.ts';
import { requestOf } from './scope.ts';

/** Nothing is proposed against them: what they stop is stopped on purpose, or has no safe form. */
const unchangeable: ReadonlySet<DenialCode> = new Set([
  'rule_denies',
  'ambiguous_request',
  'host_mismatch',
  'server_name_mismatch',
]);

export function narrowestChange(
  grant: NetworkGrant,
  phase: string | undefined,
  attempt: Attempt,
  denial: Denial,
): NetworkChange | undefined {
  if (unchangeable.has(denial.code)) return undefined;
  const doesIt = (change: NetworkChange): boolean => {
    const decision = decide(compileRules(applyChange(grant, change)), phase, attempt);
    return decision.verdict === 'allow' && decision.wouldDeny === undefined;
  };
  return proposals(grant, phase, attempt, denial).find(doesIt);
}

function proposals(grant: NetworkGrant, phase: string | undefined, attempt: Attempt, denial: Denial): NetworkChange[] {
  const rule = soleRule(grant, attempt, denial);
  const added = newRule(grant, phase, attempt);
  const kept = keptHost(grant, attempt);
  const keepNone = kept === undefined ? {} : { keep: kept };
  const keepOne = rule === undefined ? keepNone : { keep: { ...kept, rule: rule.id } };
  const sets = rule === undefined ? [] : keyChanges(rule, phase, attempt, denial.code);
  return [
    ...(kept === undefined ? [] : [keepNone]),
    ...(denial.code === 'narrowed_away' && rule !== undefined ? [keepOne] : []),
    ...sets.flatMap((set) => [
      { set, ...keepNone },
      { set, ...keepOne },
    ]),
    { add: added, ...keepNone },
    { add: added, keep: { ...kept, rule: added.id } },
  ];
}

/** The nearest rule, if it is for the attempt's host and no other: only then is a change of it one of this host's. */
function soleRule(grant: NetworkGrant, { target }: Attempt, { rule: id }: Denial): NetworkRule | undefined {
  const rule = grant.mode === 'deny' ? undefined : grant.rules.find((candidate) => candidate.id === id);
  if (rule === undefined || target.kind !== 'host' || rule.cidrs.length > 0) return undefined;
  return rule.hosts.length === 1 && rule.hosts[0] === target.host ? rule : undefined;
}

function keptHost(grant: NetworkGrant, { target }: Attempt): { readonly host: string } | undefined {
  const hosts = grant.mode === 'deny' ? undefined : grant.narrowing?.hosts;
  if (hosts === undefined || target.kind !== 'host' || hosts.includes(target.host)) return undefined;
  return { host: target.host };
}

function keyChanges(rule: NetworkRule, phase: string | undefined, { port }: Attempt, code: DenialCode): KeyChange[] {
  const set = (key: OpenKey, to: KeyChange['to']): KeyChange[] => [{ rule: rule.id, key, to }];
  if (code === 'wrong_port' && port !== undefined) {
    return set('ports', joinedRanges([...rule.ports, { from: port, to: port }]));
  }
  // what is set for one port would be set for the others too
  if (!isForOnePort(rule)) return [];
  if (code === 'wrong_phase' && phase !== undefined) return set('phases', [...(rule.phases ?? []), phase]);
  if (code === 'server_name_missing') return set('noSni', true);
  if (code === 'server_name_encrypted') return isSealedOrFree(rule) ? set('ech', true) : [];
  return code === 'websocket_not_allowed' ? set('websocket', true) : [];
}

function isForOnePort({ ports }: NetworkRule): boolean {
  const [first] = ports;
  return ports.length === 1 && first?.from === first?.to;
}

/** Where requests are to be seen, the name that TLS is opened under must be seen too. */
function isSealedOrFree({ methods, paths, websocket, budget, inspect }: NetworkRule): boolean {
  const isSeen = methods !== undefined || paths !== undefined || websocket || budget?.requests !== undefined;
  return !isSeen && inspect !== 'always';
}

/** For this and nothing else; of what is not known yet the usual: HTTPS, but on port 80. */
function newRule(grant: NetworkGrant, phase: string | undefined, attempt: Attempt): NetworkRule {
  const { target, content, port = 443 } = attempt;
  const taken = new Set(grant.mode === 'deny' ? [] : grant.rules.map(({ id }) => id));
  const isPhased = grant.mode !== 'deny' && grant.phases.length > 0 && phase !== undefined;
  const protocol = protocolOf(attempt, port);
  const isNameless = content?.protocol === 'tls' ? content.serverName === undefined : target.kind === 'address';
  return ruleOf({
    id: freshId(target, taken),
    ...placesOf(attempt),
    protocol,
    ports: [port],
    ...requestColumns(attempt),
    noSni: protocol === 'https' && isNameless,
    ech: content?.protocol === 'tls' && content.encryptedHello,
    ...(isPhased ? { phases: [phase] } : {}),
  });
}

function placesOf({ target }: Attempt): Pick<NetworkRule, 'hosts'> | Pick<NetworkRule, 'cidrs' | 'private'> {
  if (target.kind === 'host') return { hosts: [target.host] };
  return { cidrs: blocksOf(target.address), private: isSpecial(target.address) !== undefined };
}

function protocolOf({ content }: Attempt, port: number): NetworkProtocol {
  if (content === undefined) return port === 80 ? 'http' : 'https';
  return ({ raw: 'tcp', tls: 'https', http: 'http' } as const)[content.protocol];
}

/** Only where requests will be seen: not of addresses' TLS, and not where the name of the host is hidden. */
function requestColumns({
  target,
  content,
}: Attempt): Pick<Parameters<typeof ruleOf>[0], 'methods' | 'paths' | 'websocket'> {
  const request = content === undefined ? undefined : requestOf(content);
  if (request === undefined) return {};
  const isHidden = content?.protocol === 'tls' && (content.encryptedHello || content.serverName === undefined);
  if (content?.protocol === 'tls' && (target.kind === 'address' || isHidden)) return {};
  const path = globOfPath(request.path);
  return { methods: [request.method], paths: path === undefined ? undefined : [path], websocket: request.websocket };
}
