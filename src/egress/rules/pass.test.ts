/** Which rule lets an attempt pass, and how its bytes are handled. */
import { describe, expect, it } from 'vitest';
import { aRule, hostOf, toHost } from '../../../test/support/arbitrary-rules.ts';
import { a, hello, http, opened, port, raw, to, told } from '../../../test/support/ask-rules.ts';

describe('which rule gives its name', () => {
  it('is the one with the exact host, then with the longest suffix, then the first', () => {
    const wide = aRule('wide', { hosts: ['*.a.example'] });
    const narrow = aRule('narrow', { hosts: ['*.b.a.example'] });
    const exact = aRule('exact', { hosts: ['c.b.a.example'] });
    const again = aRule('again', { hosts: ['c.b.a.example'] });
    const c = to(toHost('c.b.a.example'), 443);
    expect(told([wide, narrow, exact, again], c)).toBe('allow exact splice');
    expect(told([again, wide, narrow, exact], c)).toBe('allow again splice');
    expect(told([wide, narrow], c)).toBe('allow narrow splice');
    expect(told([wide], c)).toBe('allow wide splice');
  });

  it('is one that allows: a more specific rule that does not is passed over', () => {
    const rules = [aRule('post', { methods: ['POST'] }), aRule('all', { hosts: ['*.example.org', 'a.example'] })];
    expect(told(rules, to(a, 443, opened()))).toBe('allow all open');
    expect(told(rules, to(a, 443, opened({ method: 'POST' })))).toBe('allow post open');
  });
});

describe('TLS', () => {
  it('must name the host that is connected to (NX-17, NX-18)', () => {
    const rules = [aRule('web')];
    expect(told(rules, to(a, 443, hello('b.a.example')))).toBe('deny server_name_mismatch web');
    expect(told(rules, to(a, 443, hello()))).toBe('deny server_name_missing web');
    expect(told(rules, to(a, 443, hello('a.example', { encryptedHello: true })))).toBe(
      'deny server_name_encrypted web',
    );
  });

  it('names none, or hides the name, where a rule lets it', () => {
    expect(told([aRule('web', { noSni: true })], to(a, 443, hello()))).toBe('allow web splice');
    expect(told([aRule('web', { noSni: true })], to(a, 443, hello('b.a.example')))).toBe(
      'deny server_name_mismatch web',
    );
    expect(told([aRule('web', { ech: true })], to(a, 443, hello('front.example', { encryptedHello: true })))).toBe(
      'allow web splice',
    );
    expect(told([aRule('web', { noSni: true })], to(a, 443, hello(undefined, { encryptedHello: true })))).toBe(
      'deny server_name_encrypted web',
    );
  });

  it.each([
    ['methods', { methods: ['GET'] }],
    ['paths', { paths: ['/a'] }],
    ['a budget of requests', { budget: { requests: 5 } }],
    ['inspect: always', { inspect: 'always' }],
    ['websocket', { websocket: true }],
  ] as const)('is opened for %s', (_what, keys) => {
    expect(told([aRule('web', keys)], to(a, 443, hello('a.example')))).toBe('allow web open');
    expect(told([aRule('web', keys), aRule('plain')], to(a, 443, hello('a.example')))).toBe('allow web open');
    expect(told([aRule('plain'), aRule('web', keys)], to(a, 443, hello('a.example')))).toBe('allow plain open');
  });

  it('stays sealed where one rule says so, whoever wants to see requests, and that rule gives its name', () => {
    const get = aRule('get', { methods: ['GET'] });
    for (const sealed of [aRule('pinned', { inspect: 'never' }), aRule('pinned', { protocol: 'tls' })]) {
      expect(told([get, sealed], to(a, 443, hello('a.example')))).toBe('allow pinned splice');
      expect(told([get, sealed], to(a, 443, opened({ method: 'POST' })))).toBe('allow pinned splice');
    }
    expect(
      told([get, aRule('wide', { hosts: ['*.example.org'], inspect: 'never' })], to(a, 443, hello('a.example'))),
    ).toBe('allow get open');
  });

  it('that is not opened is allowed as a whole: what nobody sees is not judged', () => {
    expect(told([aRule('web')], to(a, 443, opened({ websocket: true, host: hostOf('b.a.example') })))).toBe(
      'allow web splice',
    );
  });

  it('is opened against the wish of a rule that has columns for requests and says never', () => {
    expect(told([aRule('web', { methods: ['GET'], inspect: 'never' })], to(a, 443, hello('a.example')))).toBe(
      'allow web open',
    );
  });
});

describe('a tcp rule', () => {
  const rules = [aRule('exact', { methods: ['GET'] }), aRule('pg', { protocol: 'tcp', ports: port(443) })];

  it('lets everything pass as it is, before a byte was seen', () => {
    for (const content of [
      undefined,
      raw,
      http({ host: hostOf('b.a.example') }),
      hello('b.a.example'),
      hello(),
      opened(),
    ]) {
      expect(told(rules, to(a, 443, content))).toBe('allow pg splice');
    }
  });

  it('does not where anything on that port is denied: who looks at nothing cannot tell it apart', () => {
    const denied = [...rules, aRule('no', { verdict: 'deny', protocol: 'https', methods: ['DELETE'] })];
    expect(told(denied, to(a, 443, raw))).toBe('deny rule_denies no');
    expect(told(denied, to(a, 443, http()))).toBe('allow pg http');
    expect(told(denied, to(a, 443, opened()))).toBe('allow exact open');
    expect(told(denied, to(a, 443, opened({ method: 'DELETE' })))).toBe('deny rule_denies no');
  });
});
