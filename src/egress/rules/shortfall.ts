/**
 * What of an attempt a rule that allows does not allow. The questions have an order, and the nearest rule is the one that
 * answers most of them with yes: port, protocol, server name, host of the request, method, path, WebSocket, and the phase
 * last, because a rule that would allow all of it in another phase is nearer than any.
 */
import { matchesPath } from '../../network/path-glob.ts';
import type { DenialCode } from '../types.ts';
import type { CompiledRule } from './compile.ts';
import { hasPort, isInPhase, type Scope, takes } from './scope.ts';

type Question = (rule: CompiledRule, scope: Scope) => DenialCode | undefined;

const questions: readonly Question[] = [
  (rule, { port }) => (port === undefined || hasPort(rule, port) ? undefined : 'wrong_port'),
  ({ rule }, { content }) =>
    content === undefined || takes(rule.protocol, content.protocol) ? undefined : 'wrong_protocol',
  helloShortfall,
  hostShortfall,
  methodShortfall,
  pathShortfall,
  websocketShortfall,
  (rule, { phase }) => (isInPhase(rule, phase) ? undefined : 'wrong_phase'),
];

export interface Shortfall {
  readonly rule: CompiledRule;
  readonly code: DenialCode;
  /** How many questions were answered with yes. */
  readonly nearness: number;
}

/** The rule that comes nearest: of equally near ones the most specific, then the first of the file. */
export function nearest(scope: Scope): Shortfall | undefined {
  let best: Shortfall | undefined;
  for (const rule of scope.allow) {
    const shortfall = shortfallOf(rule, scope);
    if (shortfall !== undefined && shortfall.nearness > (best?.nearness ?? -1)) best = shortfall;
  }
  return best;
}

function shortfallOf(rule: CompiledRule, scope: Scope): Shortfall | undefined {
  for (const [nearness, question] of questions.entries()) {
    const code = question(rule, scope);
    if (code !== undefined) return { rule, code, nearness };
  }
  return undefined;
}

/** Whether a TLS connection says where it goes, and says the truth (NX-17, NX-18). */
export function helloShortfall({ rule }: CompiledRule, { content, target }: Scope): DenialCode | undefined {
  if (rule.protocol === 'tcp' || rule.protocol === 'http') return undefined;
  if (content === undefined)
    return target.kind === 'host' || rule.noSni || rule.ech ? undefined : 'server_name_missing';
  if (content.protocol !== 'tls') return undefined;
  // the outer name is that of whoever opens the inner one: a rule with ech has to do without
  if (content.encryptedHello) return rule.ech ? undefined : 'server_name_encrypted';
  if (content.serverName === undefined) return rule.noSni ? undefined : 'server_name_missing';
  // an address has no name, so that no name is right (RFC 6066 section 3: none is sent)
  return target.kind === 'host' && content.serverName === target.host ? undefined : 'server_name_mismatch';
}

/** Whether the rule allows the request, which is seen. */
export function allowsRequest(rule: CompiledRule, scope: Scope): boolean {
  return requestQuestions.every((question) => question(rule, scope) === undefined);
}

const requestQuestions: readonly Question[] = [hostShortfall, methodShortfall, pathShortfall, websocketShortfall];

/** Rules that let bytes pass as they are have nothing to say about requests. */
function judgesRequests({ rule, sight }: CompiledRule): boolean {
  return rule.protocol === 'http' || (rule.protocol === 'https' && sight !== 'sealed');
}

function hostShortfall(rule: CompiledRule, { request, target, port }: Scope): DenialCode | undefined {
  if (request === undefined || !judgesRequests(rule)) return undefined;
  const isSame = request.host === (target.kind === 'host' ? target.host : undefined);
  return isSame && (request.port === undefined || request.port === port) ? undefined : 'host_mismatch';
}

function methodShortfall(rule: CompiledRule, { request }: Scope): DenialCode | undefined {
  if (request === undefined || !judgesRequests(rule)) return undefined;
  return rule.methods?.has(request.method) === false ? 'method_not_allowed' : undefined;
}

function pathShortfall(rule: CompiledRule, { request, path }: Scope): DenialCode | undefined {
  if (rule.paths === undefined || request === undefined || path === undefined) return undefined;
  if ('ambiguous' in path) return 'ambiguous_request';
  return rule.paths.some((glob) => matchesPath(glob, path.path)) ? undefined : 'path_not_allowed';
}

function websocketShortfall(rule: CompiledRule, { request }: Scope): DenialCode | undefined {
  if (request?.websocket !== true || !judgesRequests(rule)) return undefined;
  return rule.rule.websocket ? undefined : 'websocket_not_allowed';
}
