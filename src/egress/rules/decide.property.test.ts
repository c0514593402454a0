/** What holds of every decision, on rules and attempts by chance. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  aGrant,
  anyAttempt,
  anyFullAttempt,
  anyGrant,
  anyPhase,
  anyRule,
  anyRules,
  anyTarget,
  methods,
  prefixesOf,
} from '../../../test/support/arbitrary-rules.ts';
import type { NetworkGrant, NetworkRule } from '../../admission/network.ts';
import { containsAddress, parseCidr } from '../../network/cidr.ts';
import { matchesHost, parseHostPattern } from '../../network/host-pattern.ts';
import { matchesPath, parsePathGlob } from '../../network/path-glob.ts';
import { normalPath } from '../../network/request-path.ts';
import { facesOf, isSpecial, rangeOf } from '../../network/special-ranges.ts';
import type { Attempt, AttemptContent, HttpRequest, Target } from '../types.ts';
import { compileRules } from './compile.ts';
import { decide } from './decide.ts';

const verdictOf = (grant: NetworkGrant, phase: string | undefined, attempt: Attempt): 'allow' | 'deny' =>
  decide(compileRules(grant), phase, attempt).verdict;
/** Allowed, and not only because somebody watches. */
const isAllowedByRule = (grant: NetworkGrant, phase: string | undefined, attempt: Attempt): boolean => {
  const decision = decide(compileRules(grant), phase, attempt);
  return decision.verdict === 'allow' && decision.wouldDeny === undefined;
};
const runs = { numRuns: 3_000 };

describe('every decision', () => {
  it('is what the rules say, read one by one without an index', () => {
    fc.assert(
      fc.property(anyGrant, anyPhase, anyFullAttempt, (grant, phase, attempt) => {
        expect(verdictOf(grant, phase, attempt)).toBe(readPlainly(grant, phase, attempt));
      }),
      { numRuns: 10_000 },
    );
  });

  it('goes from allow to deny only, as more of the attempt becomes known', () => {
    fc.assert(
      fc.property(anyGrant, anyPhase, anyFullAttempt, (grant, phase, attempt) => {
        if (verdictOf(grant, phase, attempt) === 'deny') return;
        for (const prefix of prefixesOf(attempt)) expect(verdictOf(grant, phase, prefix)).toBe('allow');
        if (!isAllowedByRule(grant, phase, attempt)) return;
        for (const prefix of prefixesOf(attempt)) expect(isAllowedByRule(grant, phase, prefix)).toBe(true);
      }),
      { numRuns: 10_000 },
    );
  });

  it('allows what is not known whole only if it can go on to be allowed', () => {
    const withoutDeniedPaths = anyGrant.map((grant): NetworkGrant => {
      if (grant.mode === 'deny') return grant;
      return { ...grant, rules: grant.rules.map((rule) => (rule.verdict === 'deny' ? withoutPaths(rule) : rule)) };
    });
    fc.assert(
      fc.property(withoutDeniedPaths, anyPhase, anyAttempt, (grant, phase, attempt) => {
        if (verdictOf(grant, phase, attempt) === 'deny') return;
        expect(continuationsOf(grant, attempt).some((whole) => verdictOf(grant, phase, whole) === 'allow')).toBe(true);
      }),
      runs,
    );
  });

  it('is the same for the same question', () => {
    fc.assert(
      fc.property(anyGrant, anyPhase, anyAttempt, (grant, phase, attempt) => {
        const rules = compileRules(grant);
        expect(decide(rules, phase, attempt)).toEqual(decide(rules, phase, attempt));
        expect(decide(compileRules(structuredClone(grant)), phase, attempt)).toEqual(decide(rules, phase, attempt));
      }),
    );
  });

  it('names a rule that is there, and says one sentence of plain ASCII', () => {
    fc.assert(
      fc.property(anyGrant, anyPhase, anyAttempt, (grant, phase, attempt) => {
        const decision = decide(compileRules(grant), phase, attempt);
        const denial = decision.verdict === 'deny' ? decision : decision.wouldDeny;
        const ids = grant.mode === 'deny' ? [] : grant.rules.map(({ id }) => id);
        if (decision.rule !== null) expect(ids).toContain(decision.rule);
        if (denial?.rule !== null && denial !== undefined) expect(ids).toContain(denial.rule);
        if (denial !== undefined) expect(denial.reason).toMatch(/^[A-Z0-9][ -~]*\.$/);
      }),
      runs,
    );
  });

  it('does not depend on the order of the rules', () => {
    const shuffled = anyRules.chain((rules) =>
      fc.tuple(fc.constant(rules), fc.shuffledSubarray(rules, { minLength: rules.length })),
    );
    fc.assert(
      fc.property(shuffled, anyPhase, anyAttempt, ([rules, others], phase, attempt) => {
        expect(verdictOf(aGrant(others), phase, attempt)).toBe(verdictOf(aGrant(rules), phase, attempt));
      }),
      runs,
    );
  });
});

describe('a rule that denies', () => {
  it('beats every rule that allows: with one more of them, nothing more is allowed', () => {
    fc.assert(
      fc.property(anyGrant, anyRule, anyPhase, anyAttempt, (grant, rule, phase, attempt) => {
        if (grant.mode === 'deny') return;
        const stricter = { ...grant, rules: [...grant.rules, { ...rule, id: 'more', verdict: 'deny' as const }] };
        if (verdictOf(stricter, phase, attempt) === 'allow') expect(verdictOf(grant, phase, attempt)).toBe('allow');
      }),
      runs,
    );
  });

  it('that is for the target whatever its bytes denies it to every rule', () => {
    fc.assert(
      fc.property(anyGrant, anyPhase, anyAttempt, (grant, phase, attempt) => {
        if (grant.mode === 'deny') return;
        const where =
          attempt.target.kind === 'host'
            ? { hosts: [attempt.target.host], cidrs: [] }
            : { hosts: [], cidrs: [attempt.target.address.text] };
        const ports = [{ from: 1, to: 65_535 }];
        const all: NetworkRule = { ...aDenial, ...where, ports };
        expect(verdictOf({ ...grant, rules: [...grant.rules, all] }, phase, attempt)).toBe('deny');
      }),
      runs,
    );
  });
});

describe('rules that allow', () => {
  it('add up: with one more of them, nothing less is allowed, except where it wants to see what was sealed', () => {
    fc.assert(
      fc.property(anyGrant, anyRule, anyPhase, anyAttempt, (grant, rule, phase, attempt) => {
        if (grant.mode === 'deny') return;
        const added = { ...rule, id: 'more', verdict: 'allow' as const };
        const before = decide(compileRules(grant), phase, attempt);
        if (before.verdict === 'deny') return;
        const after = decide(compileRules({ ...grant, rules: [...grant.rules, added] }), phase, attempt);
        const isNowSeen = before.handling === 'splice' && attempt.content?.protocol === 'tls';
        if (!isNowSeen) expect(after.verdict).toBe('allow');
      }),
      runs,
    );
  });

  it('that are none deny all (NX-32)', () => {
    fc.assert(
      fc.property(anyPhase, anyAttempt, (phase, attempt) => {
        expect(verdictOf(aGrant([]), phase, attempt)).toBe('deny');
        expect(verdictOf({ mode: 'deny' }, phase, attempt)).toBe('deny');
      }),
    );
  });
});

describe('a narrowing', () => {
  it('never allows what the class does not', () => {
    fc.assert(
      fc.property(anyGrant, anyPhase, anyAttempt, (grant, phase, attempt) => {
        if (grant.mode === 'deny') return;
        const { narrowing: _narrowing, ...whole } = grant;
        if (verdictOf(grant, phase, attempt) === 'allow') expect(verdictOf(whole, phase, attempt)).toBe('allow');
      }),
      runs,
    );
  });

  it('to no rule or to no host denies all, in mode observe too', () => {
    fc.assert(
      fc.property(
        anyGrant,
        anyPhase,
        anyAttempt,
        fc.constantFrom({ rules: [] }, { hosts: [] }),
        (grant, phase, attempt, narrowing) => {
          if (grant.mode !== 'deny') expect(verdictOf({ ...grant, narrowing }, phase, attempt)).toBe('deny');
        },
      ),
      runs,
    );
  });
});

describe('mode observe', () => {
  it('allows by rule what mode allow allows, and by nothing else more than the rules deny', () => {
    fc.assert(
      fc.property(anyRules, anyPhase, anyAttempt, (rules, phase, attempt) => {
        const enforced = decide(compileRules(aGrant(rules)), phase, attempt);
        const observed = decide(compileRules(aGrant(rules, { mode: 'observe' })), phase, attempt);
        if (enforced.verdict === 'allow' || observed.verdict === 'deny') {
          expect(observed).toEqual(enforced);
        } else {
          const { verdict: _verdict, ...denial } = enforced;
          expect(observed.wouldDeny).toEqual(denial);
        }
      }),
      runs,
    );
  });

  it('opens no special address', () => {
    fc.assert(
      fc.property(anyRules, anyPhase, anyTarget, (rules, phase, target) => {
        if (target.kind === 'host' || isSpecial(target.address) === undefined) return;
        const observed = decide(compileRules(aGrant(rules, { mode: 'observe' })), phase, { target });
        if (observed.verdict === 'allow') expect(rules.find(({ id }) => id === observed.rule)?.private).toBe(true);
      }),
      runs,
    );
  });
});

const aDenial: NetworkRule = {
  id: 'all',
  verdict: 'deny',
  hosts: [],
  cidrs: [],
  private: false,
  protocol: 'tcp',
  ports: [],
  inspect: 'auto',
  noSni: false,
  ech: false,
  websocket: false,
};

function withoutPaths({ paths: _paths, ...rule }: NetworkRule): NetworkRule {
  return rule;
}

/** Whole attempts that begin as this one does: if one is allowed by the rules of this small world, one of these is. */
function continuationsOf(grant: NetworkGrant, attempt: Attempt): Attempt[] {
  const ranges = grant.mode === 'deny' ? [] : grant.rules.flatMap(({ ports }) => ports);
  const telling = [1, ...ranges.flatMap(({ from, to }) => [from, to + 1])].filter((port) => port <= 65_535);
  const ports = attempt.port === undefined ? [...new Set(telling)] : [attempt.port];
  return ports.flatMap((port) =>
    contentsOf(attempt, port).map((content) => ({ target: attempt.target, port, content })),
  );
}

function contentsOf({ target, content }: Attempt, port: number): AttemptContent[] {
  const host = target.kind === 'host' ? { host: target.host } : {};
  const requests = ['PATCH', ...methods].flatMap((method) =>
    ['/a', '/a/x', '/b/q', '/q'].flatMap((path) =>
      [true, false].map((websocket): HttpRequest => ({ ...host, port, method, path, websocket })),
    ),
  );
  if (content?.protocol === 'raw' || content?.protocol === 'http') return [content];
  if (content?.protocol === 'tls')
    return content.request ? [content] : requests.map((request) => ({ ...content, request }));
  const hellos = [
    { encryptedHello: false },
    { encryptedHello: true },
    ...(target.kind === 'host' ? [{ encryptedHello: false, serverName: target.host }] : []),
  ];
  return [
    { protocol: 'raw' },
    ...requests.map((request) => ({ protocol: 'http' as const, request })),
    ...hellos.flatMap((hello) => requests.map((request) => ({ protocol: 'tls' as const, ...hello, request }))),
  ];
}

/** docs/egress.md said again in the plainest way: every rule is looked at, nothing is prepared. */
function readPlainly(
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
  const { address } = target;
  const isIn = (face: typeof address): boolean =>
    rule.cidrs.some((text) => {
      const cidr = parseCidr(text);
      return cidr !== undefined && containsAddress(cidr, face);
    });
  if (!isIn(address)) return false;
  const specials = facesOf(address).filter((face) => rangeOf(face) !== undefined);
  return specials.length === 0 || (rule.private && specials.every(isIn));
}

function denies(rule: NetworkRule, target: Target): boolean {
  if (target.kind === 'host') return isFor(rule, target);
  const open = { ...rule, private: true };
  return facesOf(target.address).some(
    (address) =>
      isFor({ ...open, cidrs: [...rule.cidrs] }, { kind: 'address', address: { ...address } }) ||
      rule.cidrs.some((text) => {
        const cidr = parseCidr(text);
        return cidr !== undefined && containsAddress(cidr, address);
      }),
  );
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
