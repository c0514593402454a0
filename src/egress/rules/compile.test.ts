/** What becomes of rules that admission should not have let through. */
import { describe, expect, it } from 'vitest';
import { aGrant, aRule } from '../../../test/support/arbitrary-rules.ts';
import { a, to, told } from '../../../test/support/ask-rules.ts';
import { compileRules } from './compile.ts';

describe('rules that cannot be read', () => {
  it('are no rules: nothing is decided by half of them', () => {
    for (const keys of [{ hosts: ['*'] }, { cidrs: ['10.0.0.1/8'] }, { paths: ['a'] }]) {
      expect(() => compileRules(aGrant([aRule('web', keys)]))).toThrow(/Cannot read the network rules/);
    }
    expect(() => compileRules(aGrant([], { narrowing: { hosts: ['*.com'] } }))).toThrow(
      /Cannot read the network rules/,
    );
  });

  it('that contradict themselves allow nothing', () => {
    for (const keys of [{ ports: [] }, { methods: [] }, { paths: [] }, { phases: [] }] as const) {
      expect(told([aRule('web', keys)], to(a))).toBe('deny no_rule null');
    }
    for (const protocol of ['tcp', 'tls'] as const) {
      for (const keys of [{ methods: ['GET'] }, { paths: ['/**'] }, { budget: { requests: 1 } }]) {
        expect(told([aRule('web', { protocol, ...keys })], to(a, 443))).toBe('deny no_rule null');
      }
    }
  });
});
