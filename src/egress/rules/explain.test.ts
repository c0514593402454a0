import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  aGrant,
  anyAttempt,
  anyFullAttempt,
  anyGrant,
  anyHost,
  anyPhase,
  anyPort,
  aRule,
  toAddress,
  toHost,
} from '../../../test/support/arbitrary-rules.ts';
import type { NetworkGrant, NetworkRule } from '../../admission/network.ts';
import { networkRule } from '../../admission/network-rule.ts';
import { readYaml } from '../../admission/policy-yaml.ts';
import { facesOf } from '../../network/special-ranges.ts';
import type { Attempt, Target } from '../types.ts';
import { attemptOfUrl } from './attempt-of-url.ts';
import { applyChange } from './change.ts';
import { compileRules } from './compile.ts';
import { decide } from './decide.ts';
import { type Explanation, explain } from './explain.ts';
import { ruleYaml } from './rule-yaml.ts';

const about = (
  grant: NetworkGrant | readonly NetworkRule[],
  url: string,
  phase?: string,
  method?: string,
): Explanation => {
  const attempt = attemptOfUrl(url, method);
  if ('problem' in attempt) throw new Error(attempt.problem);
  return explain(compileRules('mode' in grant ? grant : aGrant(grant)), phase, attempt);
};
const next = (...question: Parameters<typeof about>): string => about(...question).nextStep ?? 'nothing';
const at = (port: number): NetworkRule['ports'] => [{ from: port, to: port }];

describe('an explanation', () => {
  it('has no next step where nothing is denied', () => {
    expect(about([aRule('web')], 'https://a.example/')).toEqual({
      decision: { verdict: 'allow', rule: 'web', handling: 'splice' },
    });
  });

  it('opens one key of a rule that is for this host alone', () => {
    expect(next([aRule('web')], 'https://a.example:8443/')).toBe('Set ports of rule web to [443, 8443].');
    expect(next([aRule('web', { ports: at(8442) })], 'https://a.example:8443/')).toBe(
      'Set ports of rule web to [8442-8443].',
    );
    expect(next([aRule('ws', { methods: ['GET'] })], 'wss://a.example/')).toBe('Set websocket of rule ws to true.');
    const phased = aGrant([aRule('web', { phases: ['install'] })], { phases: ['install', 'locked'] });
    expect(next(phased, 'https://a.example/', 'locked')).toBe('Set phases of rule web to [install, locked].');
  });

  it('leaves alone a rule that is for other hosts too, and adds one for this host, port, method and path', () => {
    const rules = [aRule('web', { hosts: ['a.example', 'b.a.example'] })];
    expect(next(rules, 'https://a.example:8443/x?q', undefined, 'POST')).toBe(
      [
        'Add this rule to the class:',
        '- id: a-example',
        '  hosts: [ a.example ]',
        '  ports: [ 8443 ]',
        '  methods: [ POST ]',
        '  paths: [ /x ]',
      ].join('\n'),
    );
  });

  it('adds a rule where there is none, in the phase that the sandbox is in', () => {
    const grant = aGrant([], { phases: ['install', 'locked'] });
    expect(next(grant, 'tcp://o.example:5432', 'locked')).toBe(
      'Add this rule to the class:\n- id: o-example\n  hosts: [ o.example ]\n  protocol: tcp\n  ports: [ 5432 ]\n  phases: [ locked ]',
    );
    expect(next({ mode: 'deny' }, 'http://o.example/')).toBe(
      'Add this rule to the class:\n- id: o-example\n  hosts: [ o.example ]\n  protocol: http\n  methods: [ GET ]\n  paths: [ / ]',
    );
  });

  it('names a private address as private, and what it carries with it', () => {
    expect(next([], 'tcp://10.0.0.1:22')).toContain('cidrs: [ 10.0.0.1/32 ]\n  private: true\n  ports: [ 22 ]');
    expect(next([], 'tcp://[64:ff9b::a00:1]:22')).toContain(
      'cidrs: [ 64:ff9b::a00:1/128, 10.0.0.1/32 ]\n  private: true',
    );
    expect(next([], 'tcp://192.0.1.1:22')).not.toContain('private');
  });

  it('tells the request what it cut off', () => {
    const rules = [aRule('web'), aRule('api', { hosts: ['o.example'] })];
    expect(next(aGrant(rules, { narrowing: { rules: ['api'] } }), 'https://a.example/')).toBe(
      'Let the request, which narrows its class, keep rule web.',
    );
    expect(next(aGrant(rules, { narrowing: { hosts: ['o.example'] } }), 'https://a.example/')).toBe(
      'Let the request, which narrows its class, keep host a.example.',
    );
    expect(next(aGrant(rules, { narrowing: { hosts: [], rules: [] } }), 'https://a.example/')).toBe(
      'Let the request, which narrows its class, keep rule web, host a.example.',
    );
  });

  it.each([
    ['a metadata service', [], 'http://169.254.169.254/latest', 'None: no rule opens this.'],
    ['a metadata service by name', [], 'http://metadata.google.internal/', 'None: no rule opens this.'],
    [
      'what a rule denies',
      [aRule('no', { verdict: 'deny', protocol: 'tcp' }), aRule('web')],
      'https://a.example/',
      'None that adds: rule no denies it, which beats every rule that allows. Who wrote it can take it back.',
    ],
    [
      'a request with two readings',
      [aRule('web', { paths: ['/a/**'] })],
      'https://a.example/a/../b',
      'None: send the request in a form that has one reading.',
    ],
  ] as const)('says why no change allows %s', (_what, rules, url, step) => {
    expect(next(rules, url)).toBe(step);
  });

  it('proposes nothing against a name that is not the host', () => {
    const attempt: Attempt = {
      ...toAttempt('https://a.example/'),
      content: { protocol: 'tls', serverName: toHostName('o.example'), encryptedHello: false },
    };
    const { change, nextStep } = explain(compileRules(aGrant([aRule('web')])), undefined, attempt);
    expect(change).toBeUndefined();
    expect(nextStep).toMatch(/^None: connect to the host that is meant/);
  });

  it('of what is only observed says what would really allow it', () => {
    const { decision, change } = about(aGrant([], { mode: 'observe' }), 'https://a.example/');
    expect(decision).toMatchObject({ verdict: 'allow', rule: null, wouldDeny: { code: 'no_rule' } });
    expect(change?.add?.hosts).toEqual(['a.example']);
  });

  it('has the verdict that is enforced', () => {
    fc.assert(
      fc.property(anyGrant, anyPhase, anyAttempt, (grant, phase, attempt) => {
        const rules = compileRules(grant);
        expect(explain(rules, phase, attempt).decision).toEqual(decide(rules, phase, attempt));
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('the change of an explanation', () => {
  it('does allow the attempt', () => {
    fc.assert(
      fc.property(anyGrant, anyPhase, anyAttempt, (grant, phase, attempt) => {
        const { change } = explain(compileRules(grant), phase, attempt);
        if (change === undefined) return;
        const after = decide(compileRules(applyChange(grant, change)), phase, attempt);
        expect(after).toMatchObject({ verdict: 'allow' });
        expect(after).not.toHaveProperty('wouldDeny');
      }),
      { numRuns: 3_000 },
    );
  });

  it('changes the verdict of no other host', () => {
    fc.assert(
      fc.property(anyGrant, anyPhase, anyAttempt, anyFullAttempt, (grant, phase, attempt, other) => {
        fc.pre(!isOneHost(attempt.target, other.target));
        const { change } = explain(compileRules(grant), phase, attempt);
        if (change === undefined) return;
        const before = decide(compileRules(grant), phase, other);
        const after = decide(compileRules(applyChange(grant, change)), phase, other);
        expect(after.verdict).toBe(before.verdict);
      }),
      { numRuns: 3_000 },
    );
  });

  it('opens no other port of the host', () => {
    fc.assert(
      fc.property(anyGrant, anyPhase, anyHost, anyPort, anyPort, (grant, phase, target, port, other) => {
        fc.pre(port !== other);
        const content = { protocol: 'raw' } as const;
        const { change } = explain(compileRules(grant), phase, { target, port, content });
        // what a request had cut off comes back as it is in the class
        if (
          change === undefined ||
          change.keep?.host !== undefined ||
          (change.keep !== undefined && change.add === undefined)
        )
          return;
        const before = decide(compileRules(grant), phase, { target, port: other, content });
        const after = decide(compileRules(applyChange(grant, change)), phase, { target, port: other, content });
        expect(after.verdict).toBe(before.verdict);
      }),
      { numRuns: 2_000 },
    );
  });

  it('is there for everything but what is stopped on purpose or has two readings', () => {
    const on = ['rule_denies', 'ambiguous_request', 'host_mismatch', 'server_name_mismatch'];
    fc.assert(
      fc.property(anyGrant, anyPhase, anyAttempt, (grant, phase, attempt) => {
        const rules =
          grant.mode === 'deny' ? grant : { ...grant, rules: grant.rules.filter(({ verdict }) => verdict === 'allow') };
        const { decision, change } = explain(compileRules(rules), phase, attempt);
        const denial = decision.verdict === 'deny' ? decision : decision.wouldDeny;
        if (denial === undefined || on.includes(denial.code)) return;
        const isGivenUp =
          attempt.target.kind === 'address' && grant.mode !== 'deny' && grant.narrowing?.hosts !== undefined;
        if (isPlain(attempt) && !isGivenUp) expect(change).toBeDefined();
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('the YAML of a rule', () => {
  it('is read by admission as the rule it is of', () => {
    fc.assert(
      fc.property(anyGrant, anyPhase, anyAttempt, (grant, phase, attempt) => {
        const rule = explain(compileRules(grant), phase, attempt).change?.add;
        // admission takes what NAT64 makes of public addresses for special
        if (rule === undefined || rule.cidrs.some((text) => text.startsWith('64:'))) return;
        const yaml = readYaml(ruleYaml(rule));
        if (!yaml.ok) throw new Error(yaml.problems.join());
        const [entry] = yaml.value as unknown[];
        expect(networkRule.parse(entry)).toEqual(rule);
      }),
      { numRuns: 1_000 },
    );
  });
});

function toAttempt(url: string): Attempt {
  const attempt = attemptOfUrl(url);
  if ('problem' in attempt) throw new Error(attempt.problem);
  return attempt;
}

/** Or the one carries the other. */
function isOneHost(a: Target, b: Target): boolean {
  if (a.kind === 'host' || b.kind === 'host') return a.kind === b.kind && JSON.stringify(a) === JSON.stringify(b);
  const texts = new Set(facesOf(a.address).map(({ text }) => text));
  return facesOf(b.address).some(({ text }) => texts.has(text));
}

function toHostName(text: string) {
  const target = toHost(text);
  if (target.kind !== 'host') throw new Error(text);
  return target.host;
}

/** A client that says what it does: its own host, an unambiguous path. */
function isPlain({ target, content }: Attempt): boolean {
  if (content === undefined || content.protocol === 'raw') return true;
  const host = target.kind === 'host' ? target.host : undefined;
  const { request } = content;
  const isOwnRequest =
    request === undefined ||
    (request.host === host &&
      request.port !== 81 &&
      /^\/([a-c](\/[a-z])*)?$/.test(request.path) &&
      request.method !== 'CONNECT');
  if (content.protocol === 'http') return isOwnRequest;
  return isOwnRequest && !content.encryptedHello && content.serverName === host;
}

describe('what is explained', () => {
  it('may be an address', () => {
    const { decision } = explain(compileRules(aGrant([])), undefined, { target: toAddress('10.0.0.1') });
    expect(decision).toMatchObject({ code: 'forbidden_address' });
  });
});
