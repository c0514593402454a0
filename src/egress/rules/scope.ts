/** One attempt beside the rules that are for its target: what every question about it is asked of. */
import type { NetworkProtocol } from '../../admission/network.ts';
import { containsAddress } from '../../network/cidr.ts';
import { matchesHost } from '../../network/host-pattern.ts';
import type { IpAddress } from '../../network/ip-address.ts';
import { type NormalPath, normalPath } from '../../network/request-path.ts';
import { facesOf, isSpecial, rangeOf, type SpecialRange } from '../../network/special-ranges.ts';
import type { Attempt, AttemptContent, HttpRequest, Target } from '../types.ts';
import type { CompiledRule, CompiledRules } from './compile.ts';

export interface Scope {
  readonly rules: CompiledRules;
  readonly phase: string | undefined;
  readonly target: Target;
  readonly port: number | undefined;
  readonly content: AttemptContent | undefined;
  readonly request: HttpRequest | undefined;
  /** Of the request, where a rule looks at it. */
  readonly path: NormalPath | undefined;
  /** Every rule that allows something of the target, the most specific first; in any phase, kept by the narrowing or not. */
  readonly allow: readonly CompiledRule[];
  /** The rules of this phase that deny something of the target. */
  readonly deny: readonly CompiledRule[];
  /** What the address is when it is none of the public Internet; then `allow` has only rules that name it as private. */
  readonly special: SpecialRange | undefined;
  /** Whether the request's narrowing leaves the target. */
  readonly isWithinHosts: boolean;
}

export function scopeOf(rules: CompiledRules, phase: string | undefined, attempt: Attempt): Scope {
  const { target, port } = attempt;
  // what comes over a connection says nothing before it is known where that goes
  const content = port === undefined ? undefined : attempt.content;
  const request = content === undefined ? undefined : requestOf(content);
  const special = target.kind === 'address' ? isSpecial(target.address) : undefined;
  const allow = allowing(rules, target, special);
  const deny = denying(rules, target).filter((rule) => isInPhase(rule, phase));
  const path = request !== undefined && looksAtPaths(allow, deny) ? normalPath(request.path) : undefined;
  return {
    rules,
    phase,
    target,
    port,
    content,
    request,
    path,
    allow,
    deny,
    special,
    isWithinHosts: isWithinHosts(rules, target),
  };
}

export function requestOf(content: AttemptContent): HttpRequest | undefined {
  return content.protocol === 'raw' ? undefined : content.request;
}

function allowing(
  { allow }: CompiledRules,
  target: Target,
  special: SpecialRange | undefined,
): readonly CompiledRule[] {
  if (target.kind === 'host') return allow.forHost(target.host);
  const found = allow.forAddress(target.address);
  return special === undefined ? found : found.filter((rule) => namesPrivately(rule, target.address));
}

/** An address is denied as what it carries, too (NX-06). */
function denying({ deny }: CompiledRules, target: Target): readonly CompiledRule[] {
  if (target.kind === 'host') return deny.forHost(target.host);
  return facesOf(target.address).flatMap((face) => deny.forAddress(face));
}

/** Whether a rule with `private: true` names the address, and whatever special one it carries. */
export function namesPrivately({ rule, cidrs }: CompiledRule, address: IpAddress): boolean {
  if (!rule.private) return false;
  const isNamed = (face: IpAddress): boolean => cidrs.some((cidr) => containsAddress(cidr, face));
  return facesOf(address).every((face) => isNamed(face) || (face !== address && rangeOf(face) === undefined));
}

function looksAtPaths(allow: readonly CompiledRule[], deny: readonly CompiledRule[]): boolean {
  return allow.some(({ paths }) => paths !== undefined) || deny.some(({ paths }) => paths !== undefined);
}

/** A raw address is none of the hosts that a request narrows itself to. */
function isWithinHosts({ hosts }: CompiledRules, target: Target): boolean {
  if (hosts === undefined) return true;
  return target.kind === 'host' && hosts.some((pattern) => matchesHost(pattern, target.host));
}

export function isInPhase({ phases }: CompiledRule, phase: string | undefined): boolean {
  return phases === undefined || (phase !== undefined && phases.has(phase));
}

export function hasPort({ ports }: Pick<CompiledRule, 'ports'>, port: number): boolean {
  return ports.some(({ from, to }) => port >= from && port <= to);
}

/** Whether a rule of this protocol is about connections that begin so. */
export function takes(protocol: NetworkProtocol, kind: AttemptContent['protocol']): boolean {
  if (protocol === 'tcp') return true;
  return kind === (protocol === 'http' ? 'http' : 'tls');
}
