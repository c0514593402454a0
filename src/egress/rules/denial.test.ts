/** Why an attempt is denied, and which rule is named. */
import { describe, expect, it } from 'vitest';
import { aRule, toAddress, toHost } from '../../../test/support/arbitrary-rules.ts';
import { a, ask, hello, http, opened, port, to, told } from '../../../test/support/ask-rules.ts';
import type { NetworkRule } from '../../admission/network.ts';
import type { Attempt } from '../types.ts';

describe('the nearest rule', () => {
  it('is the one that answers most questions with yes, and the phase is asked last', () => {
    const rules = [
      aRule('port', { ports: port(80) }),
      aRule('protocol', { protocol: 'http', ports: port(443) }),
      aRule('method', { methods: ['PUT'] }),
      aRule('path', { paths: ['/x'] }),
      aRule('phase', { phases: ['locked'] }),
    ];
    const attempt = to(a, 443, opened());
    const nearestOf = (count: number): string => told(rules.slice(0, count), attempt, 'install');
    expect([1, 2, 3, 4, 5].map(nearestOf)).toEqual([
      'deny wrong_port port',
      'deny wrong_protocol protocol',
      'deny method_not_allowed method',
      'deny path_not_allowed path',
      'deny wrong_phase phase',
    ]);
  });

  it('is the more specific one of two that are equally near', () => {
    const wide = aRule('wide', { hosts: ['*.a.example'], ports: port(80) });
    const exact = aRule('exact', { hosts: ['b.a.example'], ports: port(81) });
    expect(told([wide, exact], to(toHost('b.a.example'), 443))).toBe('deny wrong_port exact');
  });
});

describe('a reason', () => {
  it.each<[string, readonly NetworkRule[], Attempt, string]>([
    ['port', [aRule('web')], to(a, 8443), 'Rule web is for port 443, not 8443.'],
    ['protocol', [aRule('web')], to(a, 443, http()), 'Rule web is for https; this is plain HTTP.'],
    ['rule', [], to(a, 443), 'No rule is for a.example:443.'],
    [
      'name',
      [aRule('web')],
      to(a, 443, hello('o.example')),
      'The ClientHello names o.example, the connection goes to a.example.',
    ],
    [
      'method',
      [aRule('get', { methods: ['GET'] })],
      to(a, 443, opened({ method: 'PUT' })),
      'Rule get allows GET, not PUT.',
    ],
    [
      'path',
      [aRule('x', { paths: ['/x/*'] })],
      to(a, 443, opened({ path: '/y' })),
      'Rule x allows paths /x/*, not /y.',
    ],
    [
      'address',
      [],
      to(toAddress('127.0.0.1'), 80),
      '127.0.0.1 is a loopback address (127.0.0.0/8), and no rule names it with "private: true".',
    ],
  ])('names the values: %s', (_what, rules, attempt, reason) => {
    expect(ask(rules, attempt)).toMatchObject({ verdict: 'deny', reason });
  });

  it('shows what came from the sandbox on one short line of ASCII', () => {
    const path = `/\u001b[2J\u202e\n${'x'.repeat(5000)}`;
    const decision = ask([aRule('get', { methods: ['GET'], paths: ['/a'] })], to(a, 443, opened({ path })));
    if (decision.verdict === 'allow') throw new Error('allowed');
    expect(decision.reason).toMatch(/^[ -~]{1,400}$/);
  });
});
