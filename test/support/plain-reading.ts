/** The rules read in the plainest way, one by one: nothing is indexed or prepared. What `decide` says is held against it. */
import type { NetworkGrant, NetworkRule } from '../../src/admission/network.ts';
import type { Attempt, AttemptContent, HttpRequest, Target } from '../../src/egress/types.ts';
import { containsAddress, parseCidr } from '../../src/network/cidr.ts';
import { matchesHost, parseHostPattern } from '../../src/network/host-pattern.ts';
import type { IpAddress } from '../../src/network/ip-address.ts';
import { matchesPath, parsePathGlob } from '../../src/network/path-glob.ts';
import { normalPath } from '../../src/network/request-path.ts';
import { facesOf, isSpecial, rangeOf } from '../../src/network/special-ranges.ts';

/** docs/egress.md said again in the plainest way: every rule is looked at, nothing is prepared. */
export function readPlainly(
  grant: NetworkGrant,
  phase: string | undefined,
  { target, port = 0, content }: Attempt,
): 'allow' | 'deny' {
  if (grant.mode === 'deny' || content === undefined) return 'deny';
  const request = content.protocol === 'raw' ? undefined : content.request;
  if (request?.method === 'CONNECT') return 'deny';
  const now = grant.rules.filter(
    (rule) =>
      (rule.phases === undefined || (phase !== undefined && rule.phases.includes(phase))) &&
      rule.ports.some(({ from, to }) => port >= from && port <= to),
  );
  const denials = now.filter((rule) => rule.verdict === 'deny' && denies(rule, target));
  const { narrowing } = grant;
  const isWithin = narrowing?.hosts === undefined || narrowing.hosts.some((text) => matches(text, target));
  const allowing = now.filter(
    (rule) =>
      rule.verdict === 'allow' &&
      isWithin &&
      (narrowing?.rules === undefined || narrowing.rules.includes(rule.id)) &&
      isFor(rule, target) &&
      canAllow(rule, target),
  );
  const isWatched =
    grant.mode === 'observe' &&
    isWithin &&
    narrowing?.rules === undefined &&
    (target.kind === 'host' || isSpecial(target.address) === undefined);
  const isAllowed = passes({ allowing, denials, target, port, content, request, isWatched });
  return isAllowed ? 'allow' : 'deny';
}

interface PlainQuestion {
  readonly allowing: readonly NetworkRule[];
  readonly denials: readonly NetworkRule[];
  readonly target: Target;
  readonly port: number;
  readonly content: AttemptContent;
  readonly request: HttpRequest | undefined;
  readonly isWatched: boolean;
}

function passes(question: PlainQuestion): boolean {
  const { allowing, denials, content, isWatched } = question;
  if (allowing.some(({ protocol }) => protocol === 'tcp') && denials.length === 0) return true;
  if (content.protocol === 'raw') return isWatched && denials.length === 0;
  return content.protocol === 'http' ? passesHttp(question) : passesTls(question);
}

function passesHttp({ allowing, denials, target, port, request, isWatched }: PlainQuestion): boolean {
  if (request === undefined) return false;
  const denying = denials.filter(({ protocol }) => protocol === 'http' || protocol === 'tcp');
  if (denying.some((rule) => isAbout(rule, request))) return false;
  const candidates = allowing.filter(({ protocol }) => protocol === 'http' || protocol === 'tcp');
  return isWatched || candidates.some((rule) => rule.protocol === 'tcp' || allowsIt(rule, request, target, port));
}

function passesTls({ allowing, denials, target, port, content, request, isWatched }: PlainQuestion): boolean {
  if (content.protocol !== 'tls') return false;
  const denying = denials.filter(({ protocol }) => protocol !== 'http');
  if (denying.some((rule) => !isPartial(rule) || target.kind === 'address')) return false;
  const isSealed = (rule: NetworkRule): boolean =>
    rule.protocol !== 'https' || (rule.inspect === 'never' && !mustSee(rule));
  const candidates = allowing
    .filter(({ protocol }) => protocol !== 'http')
    .filter((rule) => denying.length === 0 || !isSealed(rule))
    .filter((rule) => isHelloRight(rule, content, target))
    .filter((rule) => rule.methods?.every((method) => denying.some((other) => isAllOf(other, method))) !== true);
  if (candidates.length === 0 && !isWatched) return false;
  const wishes = candidates.some(
    (rule) => mustSee(rule) || (!isSealed(rule) && rule.websocket && target.kind === 'host'),
  );
  const isOpened = denying.length > 0 || (wishes && !candidates.some(isSealed));
  if (!isOpened || request === undefined) return true;
  if (denying.some((rule) => isAbout(rule, request))) return false;
  return isWatched || candidates.some((rule) => allowsIt(rule, request, target, port));
}

function isFor(rule: NetworkRule, target: Target): boolean {
  if (target.kind === 'host') return rule.hosts.some((text) => matches(text, target));
  if (!isInBlocks(rule, target.address)) return false;
  const specials = facesOf(target.address).filter((face) => rangeOf(face) !== undefined);
  return specials.length === 0 || (rule.private && specials.every((face) => isInBlocks(rule, face)));
}

function denies(rule: NetworkRule, target: Target): boolean {
  if (target.kind === 'host') return isFor(rule, target);
  return facesOf(target.address).some((face) => isInBlocks(rule, face));
}

function isInBlocks({ cidrs }: NetworkRule, address: IpAddress): boolean {
  return cidrs.some((text) => {
    const cidr = parseCidr(text);
    return cidr !== undefined && containsAddress(cidr, address);
  });
}

function matches(text: string, target: Target): boolean {
  const pattern = parseHostPattern(text);
  return target.kind === 'host' && pattern !== undefined && matchesHost(pattern, target.host);
}

/** Rules that contradict themselves allow nothing. */
function canAllow(rule: NetworkRule, target: Target): boolean {
  if (rule.protocol === 'tls' || rule.protocol === 'tcp') {
    return rule.methods === undefined && rule.paths === undefined && rule.budget?.requests === undefined;
  }
  return rule.protocol !== 'https' || target.kind === 'host' || !mustSee(rule);
}

function mustSee({ protocol, methods: only, paths, budget, inspect }: NetworkRule): boolean {
  if (protocol !== 'https') return false;
  return only !== undefined || paths !== undefined || budget?.requests !== undefined || inspect === 'always';
}

function isPartial({ methods: only, paths }: NetworkRule): boolean {
  return only !== undefined || (paths !== undefined && !paths.includes('/**'));
}

function isAllOf({ methods: only, paths }: NetworkRule, method: string): boolean {
  return (paths === undefined || paths.includes('/**')) && (only === undefined || only.includes(method));
}

function isAbout({ methods: only, paths }: NetworkRule, request: HttpRequest): boolean {
  if (only?.includes(request.method) === false) return false;
  if (paths === undefined || paths.includes('/**')) return true;
  const normal = normalPath(request.path);
  return 'ambiguous' in normal || paths.some((text) => isGlobOf(text, normal.path));
}

function allowsIt(rule: NetworkRule, request: HttpRequest, target: Target, port: number): boolean {
  const isForHost = request.host === (target.kind === 'host' ? target.host : undefined);
  if (!isForHost || (request.port !== undefined && request.port !== port)) return false;
  if (rule.methods?.includes(request.method) === false) return false;
  if (request.websocket && !rule.websocket) return false;
  const normal = normalPath(request.path);
  return rule.paths === undefined || ('path' in normal && rule.paths.some((text) => isGlobOf(text, normal.path)));
}

function isGlobOf(text: string, path: string): boolean {
  const glob = parsePathGlob(text);
  return glob !== undefined && matchesPath(glob, path);
}

function isHelloRight(rule: NetworkRule, hello: Extract<AttemptContent, { protocol: 'tls' }>, target: Target): boolean {
  if (rule.protocol === 'tcp') return true;
  if (hello.encryptedHello) return rule.ech;
  if (hello.serverName === undefined) return rule.noSni;
  return target.kind === 'host' && hello.serverName === target.host;
}
