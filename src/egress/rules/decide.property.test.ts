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
import { readPlainly } from '../../../test/support/plain-reading.ts';
import type { NetworkGrant, NetworkRule } from '../../admission/network.ts';
import { isSpecial } from '../../network/special-ranges.ts';
import type { Attempt, AttemptContent, HttpRequest } from '../types.ts';
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
