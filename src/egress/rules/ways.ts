/**
 * How an attempt that is not known whole may go on, and which of the ways a rule that denies has closed. An attempt that
 * knows less is allowed as long as one way is left, so that nobody resolves a name that cannot be reached, and nobody is
 * refused a name that can. One thing is not looked ahead to: whether path globs that deny cover those that allow.
 */
import type { PortRange } from '../../admission/network.ts';
import { matchesPath } from '../../network/path-glob.ts';
import type { AttemptContent, HttpRequest } from '../types.ts';
import type { CompiledRule } from './compile.ts';
import { hasPort, type Scope, takes } from './scope.ts';
import { helloShortfall } from './shortfall.ts';

export interface Way {
  readonly port: number;
  readonly kind: AttemptContent['protocol'];
}

const kinds: readonly AttemptContent['protocol'][] = ['raw', 'tls', 'http'];
export const anyPort: readonly PortRange[] = [{ from: 1, to: 65_535 }];

/** The first way of the rule (null: of anything at all) that agrees with what is known and that no rule denies. */
export function firstWay(scope: Scope, rule: CompiledRule | null): Way | undefined {
  const ports = rule?.ports ?? anyPort;
  for (const port of scope.port === undefined ? tellingPorts(ports, scope.deny) : [scope.port]) {
    if (!hasPort({ ports }, port)) continue;
    const kind = kinds.find((candidate) => isWay(scope, rule, { port, kind: candidate }));
    if (kind !== undefined) return { port, kind };
  }
  return undefined;
}

function isWay(scope: Scope, rule: CompiledRule | null, way: Way): boolean {
  if (scope.content !== undefined && scope.content.protocol !== way.kind) return false;
  if (!takes(rule?.rule.protocol ?? 'tcp', way.kind) || !isFree(scope, rule, way)) return false;
  return rule === null || way.kind !== 'tls' || helloShortfall(rule, scope) === undefined;
}

/** If any port is left, one of these is: where a range begins, and right behind where one that is denied ends. */
function tellingPorts(ports: readonly PortRange[], deny: readonly CompiledRule[]): number[] {
  const behind = deny.flatMap((rule) => rule.ports.map(({ to }) => to + 1));
  return [...ports.map(({ from }) => from), ...behind];
}

/** Whether no rule denies all of this way to the rule that would allow it. */
export function isFree(scope: Scope, rule: CompiledRule | null, way: Way): boolean {
  if (scope.deny.length === 0) return true;
  return !scope.deny.some((deny) => deniesWay(scope, deny, way, rule)) && hasMethodLeft(scope, rule, way);
}

function deniesWay({ target }: Scope, deny: CompiledRule, way: Way, rule: CompiledRule | null): boolean {
  if (!hasPort(deny, way.port)) return false;
  // nobody looks into them, so they may be just what is denied
  if (way.kind === 'raw') return true;
  if (!takes(deny.rule.protocol, way.kind)) return false;
  if (!looksAtRequests(deny)) return true;
  // what has to be seen to be denied is denied where it stays sealed
  return way.kind === 'tls' && (rule?.sight === 'sealed' || target.kind === 'address');
}

function hasMethodLeft({ deny }: Scope, rule: CompiledRule | null, way: Way): boolean {
  if (rule?.methods === undefined) return true;
  const denying = deny.filter((other) => other.paths === undefined && concerns(other, way));
  return [...rule.methods].some((method) => !denying.some(({ methods }) => methods?.has(method) === true));
}

/** Whether a rule denies only some of the requests on the connections it is about. */
export function looksAtRequests({ methods, paths }: CompiledRule): boolean {
  return methods !== undefined || paths !== undefined;
}

export function concerns(rule: CompiledRule, way: Way): boolean {
  return hasPort(rule, way.port) && takes(rule.rule.protocol, way.kind);
}

/** The rule that denies the request; a path with two readings may be the one that it is about. */
export function requestDenier(scope: Scope, way: Way, request: HttpRequest): CompiledRule | undefined {
  return scope.deny.find((rule) => concerns(rule, way) && looksAtRequests(rule) && isAbout(rule, scope, request));
}

function isAbout({ methods, paths }: CompiledRule, { path }: Scope, { method }: HttpRequest): boolean {
  if (methods?.has(method) === false) return false;
  if (paths === undefined || path === undefined || 'ambiguous' in path) return true;
  return paths.some((glob) => matchesPath(glob, path.path));
}
