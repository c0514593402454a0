/**
 * Which rule lets an attempt pass, and how its bytes are handled.
 *
 * Rules that allow add up; the most specific of those that allow gives its name: an exact host before a wildcard, a longer
 * suffix or prefix before a shorter one, then the order of the file. How the connection is handled follows from all of
 * them together:
 * 1. A `tcp` rule lets it pass as it is, before a byte was seen, unless a rule denies anything on that port.
 * 2. Otherwise TLS is opened when a rule has to see requests: one that allows (methods, paths, websocket, a budget of
 *    requests, inspect: always) or one that denies some of them.
 * 3. A rule that allows it sealed (`tls`, inspect: never) keeps it sealed against the wish of those that allow, and gives
 *    its name; against a rule that denies requests it allows nothing.
 * A request that nobody sees is not judged: sealed connections are allowed or denied as a whole.
 */
import type { Handling } from '../types.ts';
import type { CompiledRule } from './compile.ts';
import { hasPort, isInPhase, type Scope, takes } from './scope.ts';
import { allowsRequest, helloShortfall } from './shortfall.ts';
import { concerns, firstWay, isFree, looksAtRequests, requestDenier, type Way } from './ways.ts';

export interface Pass {
  /** Null: no rule, in mode `observe`. */
  readonly rule: CompiledRule | null;
  readonly handling: Handling;
}

/** Whether the request's narrowing of its class counts, or is asked past. */
export type Narrowing = 'binding' | 'ignored';

export function passByRule(scope: Scope, narrowing: Narrowing = 'binding'): Pass | undefined {
  const usable = usableRules(scope, narrowing);
  if (usable.length === 0) return undefined;
  const { port, content } = scope;
  if (port === undefined) return openPass(scope, usable);
  const raw = usable.find((rule) => rule.rule.protocol === 'tcp' && isFree(scope, rule, { port, kind: 'raw' }));
  if (raw !== undefined) return { rule: raw, handling: 'splice' };
  if (content === undefined) return openPass(scope, usable);
  if (content.protocol === 'raw') return undefined;
  const way = { port, kind: content.protocol };
  return content.protocol === 'http' ? httpPass(scope, usable, way) : tlsPass(scope, usable, way);
}

/** What mode `observe` lets pass without a rule: all that no rule denies. */
export function passUnruled(scope: Scope): Pass | undefined {
  const { port, content, request } = scope;
  const way = firstWay(scope, null);
  if (way === undefined || port === undefined || content === undefined || content.protocol === 'raw') {
    return way && { rule: null, handling: 'splice' };
  }
  if (content.protocol === 'http') return isDenied(scope, way) ? undefined : { rule: null, handling: 'http' };
  const { handling } = sealedPass(scope, tlsRules(scope, usableRules(scope), way), way) ?? {
    handling: unruledTls(scope, way),
  };
  if (request !== undefined && handling === 'open' && isDenied(scope, way)) return undefined;
  return { rule: null, handling };
}

function usableRules(scope: Scope, narrowing: Narrowing = 'binding'): readonly CompiledRule[] {
  const { allow, phase, port, isWithinHosts } = scope;
  const isBinding = narrowing === 'binding';
  if (isBinding && !isWithinHosts) return [];
  return allow.filter(
    (rule) => (rule.isKept || !isBinding) && isInPhase(rule, phase) && (port === undefined || hasPort(rule, port)),
  );
}

/** Before the first bytes: the first rule that one way is left to. */
function openPass(scope: Scope, usable: readonly CompiledRule[]): Pass | undefined {
  for (const rule of usable) {
    const way = firstWay(scope, rule);
    if (way?.kind === 'tls') return sealedPass(scope, tlsRules(scope, usable, way), way);
    if (way !== undefined) return { rule, handling: way.kind === 'http' ? 'http' : 'splice' };
  }
  return undefined;
}

function httpPass(scope: Scope, usable: readonly CompiledRule[], way: Way): Pass | undefined {
  if (isDenied(scope, way)) return undefined;
  const rule = usable.find(
    (candidate) =>
      takes(candidate.rule.protocol, 'http') && isFree(scope, candidate, way) && allowsRequest(candidate, scope),
  );
  return rule && { rule, handling: 'http' };
}

function tlsPass(scope: Scope, usable: readonly CompiledRule[], way: Way): Pass | undefined {
  const candidates = tlsRules(scope, usable, way);
  const pass = sealedPass(scope, candidates, way);
  if (pass === undefined || pass.handling === 'splice' || scope.request === undefined) return pass;
  if (isDenied(scope, way)) return undefined;
  const rule = candidates.find((candidate) => allowsRequest(candidate, scope));
  return rule && { rule, handling: 'open' };
}

/** Those that allow the TLS connection as far as it is known. */
function tlsRules(scope: Scope, usable: readonly CompiledRule[], way: Way): CompiledRule[] {
  return usable.filter(
    (rule) => concerns(rule, way) && helloShortfall(rule, scope) === undefined && isFree(scope, rule, way),
  );
}

/** The connection as such, whatever request may come over it. */
function sealedPass(scope: Scope, candidates: readonly CompiledRule[], way: Way): Pass | undefined {
  const [first] = candidates;
  if (first === undefined) return undefined;
  if (mustOpen(scope, way)) return { rule: first, handling: 'open' };
  if (!candidates.some(({ sight }) => sight === 'seen')) return { rule: first, handling: 'splice' };
  const sealed = candidates.find(({ sight }) => sight === 'sealed');
  return sealed === undefined ? { rule: first, handling: 'open' } : { rule: sealed, handling: 'splice' };
}

function mustOpen({ deny }: Scope, way: Way): boolean {
  return deny.some((rule) => looksAtRequests(rule) && concerns(rule, way));
}

function unruledTls(scope: Scope, way: Way): Handling {
  return mustOpen(scope, way) ? 'open' : 'splice';
}

function isDenied(scope: Scope, way: Way): boolean {
  return scope.request !== undefined && requestDenier(scope, way, scope.request) !== undefined;
}
