/**
 * From what was observed, the rules that would have allowed it: exact hosts, ports, methods and paths, with targets that need
 * the same in one rule. All that was observed is allowed by them, but for what no rule should open, which is told; nothing
 * else is, unless an option generalises. A connection whose requests were not seen has no method: then any is allowed there.
 */
import type { NetworkRule } from '../../admission/network.ts';
import { isMetadata, isMetadataHost } from '../../network/metadata.ts';
import { ambiguousTarget } from '../../network/request-path.ts';
import { isSpecial } from '../../network/special-ranges.ts';
import type { Attempt, AttemptContent, HttpRequest, Target } from '../types.ts';
import { compileRules } from './compile.ts';
import { decide } from './decide.ts';
import { blocksOf, freshId, type RuleDraft, ruleOf } from './draft.ts';
import { wildcardHosts } from './generalise.ts';
import { chunksOf, distinct } from './grouping.ts';
import { type Need, needsOf } from './needs.ts';
import { shown } from './words.ts';

/** One entry of a flow log, as far as rules care. Of an opened connection give the requests, not the connection as well. */
export interface ObservedFlow {
  readonly target: Target;
  readonly port: number;
  readonly protocol: AttemptContent['protocol'];
  readonly method?: string;
  /** Without the query. */
  readonly path?: string;
  readonly websocket?: boolean;
  /** Its ClientHello named no server, or hid the name. */
  readonly noSni?: boolean;
  readonly ech?: boolean;
}

export interface SuggestOptions {
  /** `*.parent` for three names and more right below one parent of two labels and more that need the same. */
  readonly wildcards?: boolean;
  /** `siblings`: `*` for a last segment that three paths and more differ in; `any`: methods only. Default `exact`. */
  readonly paths?: 'exact' | 'siblings' | 'any';
}

export interface SuggestedRule {
  readonly rule: NetworkRule;
  readonly flows: readonly ObservedFlow[];
}

export interface UncoveredFlow {
  readonly flow: ObservedFlow;
  /** Why no rule is suggested for it. */
  readonly reason: string;
}

export interface Suggestion {
  readonly rules: readonly SuggestedRule[];
  readonly uncovered: readonly UncoveredFlow[];
}

/** Of admission: a longer list is two rules. */
const mostEntries = 64;

export function suggestRules(flows: readonly ObservedFlow[], options: SuggestOptions = {}): Suggestion {
  const judged = flows.map((flow) => ({ flow, reason: reasonAgainst(flow) }));
  const uncovered = judged.flatMap(({ flow, reason }) => (reason === undefined ? [] : [{ flow, reason }]));
  const covered = judged.flatMap(({ flow, reason }) => (reason === undefined ? [flow] : []));
  const taken = new Set<string>();
  const rules = needsOf(covered, options.paths ?? 'exact').flatMap((need) => rulesOf(need, options, taken));
  return { rules, uncovered };
}

function reasonAgainst({ target, protocol, method, path }: ObservedFlow): string | undefined {
  const isService = target.kind === 'host' ? isMetadataHost(target.host) : isMetadata(target.address);
  if (isService) return 'a metadata service; no rule opens those';
  const special = target.kind === 'address' ? isSpecial(target.address) : undefined;
  if (special !== undefined) return `${special.name}; who means it writes a rule with "private: true"`;
  if (protocol === 'raw') return undefined;
  if (method === 'CONNECT') return 'CONNECT asks for a proxy, and there is none';
  const ambiguity = method === undefined || path === undefined ? undefined : ambiguousTarget(path);
  return ambiguity === undefined ? undefined : `the path ${shown(path ?? '')} has more than one reading: ${ambiguity}`;
}

/** One rule, or as many as its lists take. */
function rulesOf(need: Need, options: SuggestOptions, taken: Set<string>): SuggestedRule[] {
  const drafts = draftsOf(need, options);
  return drafts.map((draft) => {
    const [first] = need.targets;
    const id = freshId(first ?? 'rule', taken);
    taken.add(id);
    const rule = ruleOf({ ...draft, id });
    return { rule, flows: drafts.length === 1 ? need.flows : coveredBy(rule, need.flows) };
  });
}

function draftsOf(need: Need, { wildcards = false }: SuggestOptions): Omit<RuleDraft, 'id'>[] {
  const { targets, flows: _flows, ...rest } = need;
  const hosts = distinct(targets.flatMap((target) => (target.kind === 'host' ? [target.host] : [])));
  const cidrs = distinct(targets.flatMap((target) => (target.kind === 'address' ? blocksOf(target.address) : [])));
  const places = [
    ...chunksOf(wildcards ? wildcardHosts(hosts) : hosts, mostEntries).map((part) => ({ hosts: part })),
    ...chunksOf(cidrs, mostEntries).map((part) => ({ cidrs: part })),
  ];
  const paths = need.paths === undefined ? [undefined] : chunksOf(need.paths, mostEntries);
  return places.flatMap((place) =>
    chunksOf(need.ports, mostEntries).flatMap((ports) =>
      paths.map((part) => ({ ...rest, ...place, ports, paths: part })),
    ),
  );
}

function coveredBy(rule: NetworkRule, flows: readonly ObservedFlow[]): ObservedFlow[] {
  const rules = compileRules({ mode: 'allow', rules: [rule], phases: [] });
  return flows.filter((flow) => decide(rules, undefined, attemptOf(flow)).verdict === 'allow');
}

/** What was attempted, as far as it was seen. */
export function attemptOf(flow: ObservedFlow): Attempt {
  const { target, port, protocol, noSni, ech } = flow;
  if (protocol === 'raw') return { target, port, content: { protocol } };
  const request = requestOf(flow);
  if (protocol === 'http')
    return { target, port, ...(request === undefined ? {} : { content: { protocol, request } }) };
  const isNamed = noSni !== true && target.kind === 'host';
  const hello = { protocol, encryptedHello: ech === true, ...(isNamed ? { serverName: target.host } : {}) };
  return { target, port, content: { ...hello, ...(request === undefined ? {} : { request }) } };
}

function requestOf({ target, port, method, path = '/', websocket = false }: ObservedFlow): HttpRequest | undefined {
  if (method === undefined) return undefined;
  return { ...(target.kind === 'host' ? { host: target.host } : {}), port, method, path, websocket };
}
