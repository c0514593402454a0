import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  addresses,
  addressOf,
  aGrant,
  anyGrant,
  anyPhase,
  anyPort,
  aRule,
} from '../../../test/support/arbitrary-rules.ts';
import type { NetworkGrant, NetworkRule } from '../../admission/network.ts';
import { isSpecial } from '../../network/special-ranges.ts';
import { judgeAddress, type OwnAddresses } from './address-check.ts';
import { compileRules } from './compile.ts';
import { decide } from './decide.ts';

const none: OwnAddresses = { addresses: new Set(), daemonPorts: new Set() };
const own: OwnAddresses = { addresses: new Set(['192.0.1.9', '10.0.0.9']), daemonPorts: new Set([7070]) };
const told = (
  rules: NetworkGrant | readonly NetworkRule[],
  address: string,
  port = 443,
  mine = none,
  phase?: string,
): string => {
  const grant = 'mode' in rules ? rules : aGrant(rules);
  const denial = judgeAddress(compileRules(grant), phase, addressOf(address), port, mine);
  return denial === undefined ? 'allow' : `${denial.code} ${denial.rule}`;
};
const privately = (cidrs: readonly string[], keys: Partial<NetworkRule> = {}): NetworkRule =>
  aRule('lan', { cidrs, private: true, protocol: 'tcp', ports: [{ from: 443, to: 443 }], ...keys });

describe('an address that a name resolved to', () => {
  it('may be dialled when it is one of the public Internet', () => {
    for (const text of ['192.0.1.1', '2600::1', '64:ff9b::c000:101']) expect(told([], text), text).toBe('allow');
  });

  it.each([
    ...[
      '127.0.0.1',
      '10.0.0.1',
      '169.254.1.1',
      '100.64.0.1',
      '224.0.0.1',
      '255.255.255.255',
      '0.0.0.0',
      '198.18.0.1',
      '203.0.113.1',
    ],
    ...[
      '::1',
      '::',
      'fe80::1',
      'fd00::1',
      'ff02::1',
      '::ffff:127.0.0.1',
      '64:ff9b::7f00:1',
      '2002:7f00:1::',
      '2600::5efe:7f00:1',
    ],
  ])('may not when it is %s, unless a rule names it as private (NX-06, NX-08, NX-10)', (text) => {
    const address = addressOf(text);
    expect(told([], text)).toBe('forbidden_address null');
    expect(told([aRule('web')], text)).toBe('forbidden_address null');
    expect(told([privately([`${address.text}/${address.family === 4 ? 32 : 128}`], { private: false })], text)).toBe(
      'forbidden_address null',
    );
    expect(told(aGrant([], { mode: 'observe' }), text)).toBe('forbidden_address null');
  });

  it('may when a rule of now names it as private, with this port', () => {
    const lan = privately(['10.0.0.0/8'], { phases: ['install'] });
    expect(told([lan], '10.1.2.3', 443, none, 'install')).toBe('allow');
    expect(told([lan], '10.1.2.3', 443, none, 'locked')).toBe('forbidden_address null');
    expect(told([lan], '10.1.2.3', 5432, none, 'install')).toBe('forbidden_address null');
    expect(told([lan], '192.168.0.1', 443, none, 'install')).toBe('forbidden_address null');
    expect(told(aGrant([lan], { narrowing: { rules: [] } }), '10.1.2.3', 443, none, 'install')).toBe(
      'forbidden_address null',
    );
    expect(told(aGrant([lan], { narrowing: { hosts: [] } }), '10.1.2.3', 443, none, 'install')).toBe('allow');
  });

  it('may not when a rule denies its block, whatever that rule says of protocols', () => {
    const no = aRule('no', { verdict: 'deny', cidrs: ['192.0.1.0/24'], ports: [{ from: 443, to: 443 }] });
    expect(told([no], '192.0.1.1')).toBe('rule_denies no');
    expect(told([no], '64:ff9b::c000:101')).toBe('rule_denies no');
    expect(told([no], '192.0.1.1', 80)).toBe('allow');
    expect(told([no], '192.0.3.1')).toBe('allow');
  });

  it('may never be a metadata service (NX-07)', () => {
    const all = [privately(['0.0.0.0/0', '::/0'], { ports: [{ from: 1, to: 65_535 }] })];
    for (const text of ['169.254.169.254', '168.63.129.16', 'fd00:ec2::254', '64:ff9b::a9fe:a9fe', '100.100.100.200']) {
      expect(told(all, text), text).toBe('forbidden_address null');
    }
  });

  it("may be one of the host's own only when a rule names it as private (NX-08)", () => {
    expect(told([], '192.0.1.9', 443, own)).toBe('forbidden_address null');
    expect(told([], '64:ff9b::c000:109', 443, own)).toBe('forbidden_address null');
    expect(told([privately(['192.0.1.9/32'], { private: false })], '192.0.1.9', 443, own)).toBe(
      'forbidden_address null',
    );
    expect(told([privately(['192.0.1.9/32'])], '192.0.1.9', 443, own)).toBe('allow');
  });

  it('may never be where the daemon listens (NX-37)', () => {
    const all = [privately(['0.0.0.0/0', '::/0'], { ports: [{ from: 1, to: 65_535 }] })];
    for (const text of [
      '192.0.1.9',
      '10.0.0.9',
      '127.0.0.1',
      '127.1.2.3',
      '0.0.0.0',
      '::1',
      '::',
      '::ffff:127.0.0.1',
    ]) {
      expect(told(all, text, 7070, own), text).toBe('forbidden_address null');
      expect(told(all, text, 7071, own), text).toBe('allow');
    }
    expect(told(all, '10.0.0.10', 7070, own)).toBe('allow');
  });

  it('may not in mode deny', () => {
    expect(told({ mode: 'deny' }, '192.0.1.1')).toBe('mode_deny null');
  });

  it('is judged alike when it is gone to raw: what its rules allow may be dialled', () => {
    fc.assert(
      fc.property(anyGrant, anyPhase, fc.constantFrom(...addresses), anyPort, (grant, phase, address, port) => {
        const rules = compileRules(grant);
        const content = { protocol: 'raw' } as const;
        const decision = decide(rules, phase, { target: { kind: 'address', address }, port, content });
        if (decision.verdict === 'allow') expect(judgeAddress(rules, phase, address, port, none)).toBeUndefined();
      }),
      { numRuns: 2_000 },
    );
  });

  it('that is special is never dialled without a rule that names it as private', () => {
    fc.assert(
      fc.property(anyGrant, anyPhase, fc.constantFrom(...addresses), anyPort, (grant, phase, address, port) => {
        if (isSpecial(address) === undefined || grant.mode === 'deny') return;
        const isDialled = judgeAddress(compileRules(grant), phase, address, port, none) === undefined;
        if (isDialled) expect(grant.rules.some((rule) => rule.private && rule.verdict === 'allow')).toBe(true);
      }),
      { numRuns: 2_000 },
    );
  });
});
