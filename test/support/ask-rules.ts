/** Questions about rules, short enough to be read in a row: an attempt on the left, what is told on the right. */
import type { NetworkGrant, NetworkRule } from '../../src/admission/network.ts';
import { compileRules } from '../../src/egress/rules/compile.ts';
import { decide } from '../../src/egress/rules/decide.ts';
import type { Attempt, AttemptContent, Decision, HttpRequest, Target } from '../../src/egress/types.ts';
import { aGrant, hostOf, toHost } from './arbitrary-rules.ts';

export const ask = (grant: NetworkGrant | readonly NetworkRule[], attempt: Attempt, phase?: string): Decision =>
  decide(compileRules('mode' in grant ? grant : aGrant(grant)), phase, attempt);
/** "allow web splice", "deny no_rule null". */
export const told = (...question: Parameters<typeof ask>): string => {
  const decision = ask(...question);
  if (decision.verdict === 'deny') return `deny ${decision.code} ${decision.rule}`;
  return `allow ${decision.rule} ${decision.handling}${decision.wouldDeny ? ` ${decision.wouldDeny.code}` : ''}`;
};

export const a = toHost('a.example');
export const port = (number: number): NetworkRule['ports'] => [{ from: number, to: number }];
export const raw: AttemptContent = { protocol: 'raw' };
export const hello = (
  serverName?: string,
  keys: { encryptedHello?: boolean; request?: HttpRequest } = {},
): AttemptContent => ({
  protocol: 'tls',
  encryptedHello: false,
  ...(serverName === undefined ? {} : { serverName: hostOf(serverName) }),
  ...keys,
});
export const aRequest = (keys: Partial<HttpRequest> = {}): HttpRequest => ({
  host: hostOf('a.example'),
  method: 'GET',
  path: '/',
  websocket: false,
  ...keys,
});
export const http = (keys: Partial<HttpRequest> = {}): AttemptContent => ({
  protocol: 'http',
  request: aRequest(keys),
});
export const opened = (keys: Partial<HttpRequest> = {}): AttemptContent =>
  hello('a.example', { request: aRequest(keys) });
export const to = (target: Target, number?: number, content?: AttemptContent): Attempt => ({
  target,
  ...(number === undefined ? {} : { port: number }),
  ...(content === undefined ? {} : { content }),
});
