/** The semantics of rules, one sentence a test; `decide.property.test.ts` has what holds of all of them. */
import { describe, expect, it } from 'vitest';
import { addressOf, aGrant, aRule, hostOf, toAddress, toHost } from '../../../test/support/arbitrary-rules.ts';
import { a, aRequest, ask, hello, http, opened, port, raw, to, told } from '../../../test/support/ask-rules.ts';
import type { NetworkGrant, NetworkRule } from '../../admission/network.ts';

describe('without a rule', () => {
  it('nothing is allowed (NX-32)', () => {
    for (const grant of [aGrant([]), { mode: 'allow', rules: [], phases: ['install'] } as const]) {
      for (const attempt of [to(a), to(a, 443), to(a, 443, hello('a.example')), to(toAddress('192.0.1.1'), 80)]) {
        expect(told(grant, attempt, 'install')).toBe('deny no_rule null');
      }
    }
  });

  it('of mode deny, nothing is allowed, and the reason is the mode', () => {
    expect(told({ mode: 'deny' }, to(a))).toBe('deny mode_deny null');
  });
});

describe('a host', () => {
  it('is allowed by name at once, then by port, then by what its bytes are', () => {
    const rules = [aRule('web')];
    expect(told(rules, to(a))).toBe('allow web splice');
    expect(told(rules, to(a, 443))).toBe('allow web splice');
    expect(told(rules, to(a, 80))).toBe('deny wrong_port web');
    expect(told(rules, to(a, 443, hello('a.example')))).toBe('allow web splice');
    expect(told(rules, to(a, 443, http()))).toBe('deny wrong_protocol web');
    expect(told(rules, to(a, 443, raw))).toBe('deny wrong_protocol web');
  });

  it('below a wildcard is allowed, and the name of the wildcard is not (NX-26)', () => {
    const rules = [aRule('below', { hosts: ['*.a.example'] })];
    expect(told(rules, to(toHost('b.a.example')))).toBe('allow below splice');
    expect(told(rules, to(toHost('c.b.a.example')))).toBe('allow below splice');
    for (const name of ['a.example', 'ba.example', 'a.example.evil', 'evila.example', 'example']) {
      expect(told(rules, to(toHost(name))), name).toBe('deny no_rule null');
    }
    expect(told(rules, to(toAddress('192.0.1.1')))).toBe('deny no_rule null');
  });
});

describe('a request', () => {
  const rules = [aRule('api', { methods: ['GET', 'HEAD'], paths: ['/v1/**'] })];

  it('needs its method and its path', () => {
    expect(told(rules, to(a, 443, opened({ path: '/v1/x' })))).toBe('allow api open');
    expect(told(rules, to(a, 443, opened({ path: '/v1/x', method: 'POST' })))).toBe('deny method_not_allowed api');
    expect(told(rules, to(a, 443, opened({ path: '/v2/x' })))).toBe('deny path_not_allowed api');
    expect(told(rules, to(a, 443, opened({ path: '/v1/x', method: 'get' })))).toBe('deny method_not_allowed api');
  });

  it.each([
    '/v1/../v2',
    '/v1/%2e%2e/v2',
    '//v1/x',
    '/v1//x',
    '/v1/x;p',
    '/v1\\..\\v2',
    '/v1/%2fx',
    '/v1/x#f',
    '/v1/\0',
    '*',
  ])('with the path %j has more than one reading, where a rule looks at paths (NX-24)', (path) => {
    expect(told(rules, to(a, 443, opened({ path })))).toBe('deny ambiguous_request api');
    expect(told([aRule('api', { paths: ['/**'] })], to(a, 443, opened({ path })))).toBe('deny ambiguous_request api');
    expect(told([aRule('any', { methods: ['GET'] })], to(a, 443, opened({ path })))).toBe('allow any open');
  });

  it('is for the host and the port that are connected to (NX-17)', () => {
    const get = [aRule('get', { methods: ['GET'], ports: port(8443) })];
    expect(told(get, to(a, 8443, opened({ port: 8443 })))).toBe('allow get open');
    expect(told(get, to(a, 8443, opened()))).toBe('allow get open');
    expect(told(get, to(a, 8443, opened({ port: 443 })))).toBe('deny host_mismatch get');
    expect(told(get, to(a, 8443, opened({ host: hostOf('b.a.example') })))).toBe('deny host_mismatch get');
    const { host: _host, ...nameless } = aRequest();
    expect(told(get, to(a, 8443, hello('a.example', { request: nameless })))).toBe('deny host_mismatch get');
  });

  it('becomes a WebSocket where the rule lets it (NX-35)', () => {
    const get = { methods: ['GET'] };
    expect(told([aRule('get', get)], to(a, 443, opened({ websocket: true })))).toBe('deny websocket_not_allowed get');
    expect(told([aRule('get', { ...get, websocket: true })], to(a, 443, opened({ websocket: true })))).toBe(
      'allow get open',
    );
  });

  it('of plain HTTP is judged one by one', () => {
    const plain = [aRule('plain', { protocol: 'http', ports: port(80), methods: ['GET'] })];
    expect(told(plain, to(a, 80))).toBe('allow plain http');
    expect(told(plain, to(a, 80, http()))).toBe('allow plain http');
    expect(told(plain, to(a, 80, http({ host: hostOf('b.a.example') })))).toBe('deny host_mismatch plain');
    expect(told(plain, to(a, 80, http({ method: 'PUT' })))).toBe('deny method_not_allowed plain');
    expect(told(plain, to(a, 80, hello('a.example')))).toBe('deny wrong_protocol plain');
  });

  it('with CONNECT is refused by every rule and in every mode', () => {
    const connect = { method: 'CONNECT', path: 'a.example:443' };
    for (const mode of ['allow', 'observe'] as const) {
      const grant = aGrant([aRule('tcp', { protocol: 'tcp' }), aRule('http', { protocol: 'http' })], { mode });
      for (const content of [http(connect), opened(connect)]) {
        expect(told(grant, to(a, 443, content))).toBe('deny ambiguous_request null');
      }
    }
    expect(told([aRule('c', { methods: ['CONNECT'] })], to(a))).toBe('deny no_rule null');
  });
});

describe('a rule that denies', () => {
  it('beats a more specific rule that allows', () => {
    const rules = [
      aRule('web'),
      aRule('no', { verdict: 'deny', hosts: ['a.example'], protocol: 'tcp', ports: [{ from: 1, to: 65535 }] }),
    ];
    expect(told(rules, to(a))).toBe('deny rule_denies no');
    expect(told(rules, to(a, 443, hello('a.example')))).toBe('deny rule_denies no');
    const below = [aRule('web', { hosts: ['b.a.example'] }), aRule('no', { verdict: 'deny', hosts: ['*.a.example'] })];
    expect(told(below, to(toHost('b.a.example'), 443, hello('b.a.example')))).toBe('deny rule_denies no');
  });

  it('denies the name when every way to it is denied, and not before', () => {
    const web = aRule('web', { ports: [{ from: 443, to: 444 }] });
    const no = (keys: Partial<NetworkRule>): NetworkRule => aRule('no', { verdict: 'deny', ...keys });
    expect(told([web, no({ ports: port(443) })], to(a))).toBe('allow web splice');
    expect(told([web, no({ ports: [{ from: 443, to: 444 }] })], to(a))).toBe('deny rule_denies no');
    expect(told([web, no({ ports: [{ from: 443, to: 444 }], protocol: 'http' })], to(a))).toBe('allow web splice');
    const get = aRule('get', { methods: ['GET'] });
    expect(told([get, no({ methods: ['GET'] })], to(a))).toBe('deny rule_denies no');
    expect(told([get, no({ methods: ['GET', 'PUT'] })], to(a, 443, hello('a.example')))).toBe('deny rule_denies no');
    expect(told([get, no({ methods: ['PUT'] })], to(a))).toBe('allow get open');
    expect(told([get, no({ methods: ['GET'], paths: ['/x'] })], to(a))).toBe('allow get open');
    expect(told([get, no({ methods: ['GET'], paths: ['/**'] })], to(a))).toBe('deny rule_denies no');
  });

  it('of some requests has TLS opened, and denies where it has to stay sealed', () => {
    const no = aRule('no', { verdict: 'deny', methods: ['DELETE'] });
    expect(told([aRule('web'), no], to(a, 443, hello('a.example')))).toBe('allow web open');
    expect(told([aRule('web'), no], to(a, 443, opened()))).toBe('allow web open');
    expect(told([aRule('web'), no], to(a, 443, opened({ method: 'DELETE' })))).toBe('deny rule_denies no');
    expect(told([aRule('pinned', { inspect: 'never' }), no], to(a, 443, hello('a.example')))).toBe(
      'deny rule_denies no',
    );
    expect(told([aRule('tls', { protocol: 'tls' }), no], to(a))).toBe('deny rule_denies no');
  });

  it('of some paths denies what may be one of them', () => {
    const rules = [aRule('web'), aRule('no', { verdict: 'deny', paths: ['/admin/**'] })];
    expect(told(rules, to(a, 443, opened({ path: '/public' })))).toBe('allow web open');
    expect(told(rules, to(a, 443, opened({ path: '/admin/x' })))).toBe('deny rule_denies no');
    for (const path of ['/public/../admin/x', '/%61dmin/x', '/public//admin', '/admin;x/y']) {
      expect(told(rules, to(a, 443, opened({ path }))), path).toBe('deny ambiguous_request no');
    }
  });

  it('stays whatever the request keeps', () => {
    const rules = [aRule('web'), aRule('no', { verdict: 'deny', protocol: 'tcp' })];
    expect(told(aGrant(rules, { narrowing: { rules: ['web'] } }), to(a, 443))).toBe('deny rule_denies no');
  });

  it('of another phase denies nothing', () => {
    const rules = [aRule('web'), aRule('no', { verdict: 'deny', protocol: 'tcp', phases: ['locked'] })];
    expect(told(aGrant(rules, { phases: ['install', 'locked'] }), to(a, 443), 'install')).toBe('allow web splice');
    expect(told(aGrant(rules, { phases: ['install', 'locked'] }), to(a, 443), 'locked')).toBe('deny rule_denies no');
  });
});

describe('a raw address', () => {
  const at = toAddress('192.0.1.1');
  const tcp = aRule('net', { cidrs: ['192.0.1.0/24'], protocol: 'tcp', ports: port(5432) });

  it('is allowed by a block, never by a host', () => {
    expect(told([tcp], to(at, 5432, raw))).toBe('allow net splice');
    expect(told([tcp], to(toAddress('192.0.3.1'), 5432))).toBe('deny no_rule null');
    expect(told([aRule('web')], to(at, 443))).toBe('deny no_rule null');
    expect(ask([aRule('web')], to(at, 443))).toMatchObject({ reason: expect.stringContaining('a rule with cidrs') });
  });

  it('is allowed by the longest prefix first', () => {
    const rules = [tcp, aRule('one', { cidrs: ['192.0.1.1/32'], protocol: 'tcp', ports: port(5432) })];
    expect(told(rules, to(at, 5432, raw))).toBe('allow one splice');
  });

  it('has no name that TLS could give: none where a rule has noSni, a given one nowhere', () => {
    const https = aRule('web', { cidrs: ['192.0.1.1/32'] });
    expect(told([https], to(at, 443, hello()))).toBe('deny server_name_missing web');
    expect(told([https], to(at))).toBe('deny server_name_missing web');
    expect(told([https], to(at, 443, hello('a.example')))).toBe('deny server_name_mismatch web');
    const noSni = { ...https, noSni: true };
    expect(told([noSni], to(at, 443, hello()))).toBe('allow web splice');
    expect(told([noSni], to(at, 443, hello('a.example')))).toBe('deny server_name_mismatch web');
    expect(told([{ ...https, protocol: 'tcp' }], to(at, 443, hello('a.example')))).toBe('allow web splice');
  });

  it('has no host that a request could be for', () => {
    const rules = [aRule('plain', { cidrs: ['192.0.1.1/32'], protocol: 'http', ports: port(80) })];
    const { host: _host, ...nameless } = aRequest({ port: 80 });
    expect(told(rules, to(at, 80, { protocol: 'http', request: nameless }))).toBe('allow plain http');
    expect(told(rules, to(at, 80, http()))).toBe('deny host_mismatch plain');
  });

  it('is never opened: a rule that has to see its TLS allows nothing', () => {
    const keys = { cidrs: ['192.0.1.1/32'], noSni: true };
    expect(told([aRule('get', { ...keys, methods: ['GET'] })], to(at, 443))).toBe('deny no_rule null');
    expect(told([aRule('ws', { ...keys, websocket: true })], to(at, 443, hello()))).toBe('allow ws splice');
  });

  it('of the special ranges needs private: true (NX-08)', () => {
    const rule = (isPrivate: boolean): NetworkRule => ({ ...tcp, cidrs: ['10.0.0.0/8'], private: isPrivate });
    const inside = toAddress('10.1.2.3');
    expect(told([rule(false)], to(inside, 5432))).toBe('deny forbidden_address null');
    expect(told([rule(true)], to(inside, 5432, raw))).toBe('allow net splice');
    expect(told([rule(true)], to(inside, 80))).toBe('deny wrong_port net');
    expect(told([], to(inside))).toBe('deny forbidden_address null');
  });

  it('that carries a special one needs both named (NX-06)', () => {
    const rule = (cidrs: readonly string[]): NetworkRule => ({ ...tcp, cidrs, private: true });
    const nat64 = to(toAddress('64:ff9b::a00:1'), 5432, raw);
    expect(told([rule(['64:ff9b::/96'])], nat64)).toBe('deny forbidden_address null');
    expect(told([rule(['64:ff9b::/96', '10.0.0.0/8'])], nat64)).toBe('allow net splice');
  });

  it('is denied as what it carries, too', () => {
    const rules = [
      { ...tcp, cidrs: ['64:ff9b::/96'], private: true },
      aRule('no', { verdict: 'deny', cidrs: ['192.0.1.0/24'], protocol: 'tcp', ports: [{ from: 1, to: 65535 }] }),
    ];
    expect(told(rules, to(toAddress('64:ff9b::c000:101'), 5432, raw))).toBe('deny rule_denies no');
    expect(told(rules, to(toAddress('64:ff9b::c000:301'), 5432, raw))).toBe('allow net splice');
  });
});

describe('metadata services (NX-07)', () => {
  const everything = [
    aRule('all4', { cidrs: ['0.0.0.0/0'], private: true, protocol: 'tcp', ports: [{ from: 1, to: 65535 }] }),
    aRule('all6', { cidrs: ['::/0', '0.0.0.0/0'], private: true, protocol: 'tcp', ports: [{ from: 1, to: 65535 }] }),
    aRule('names', { hosts: ['*.google.internal', '*.tencentyun.com', 'metadata'], ports: [{ from: 1, to: 65535 }] }),
  ];

  it.each([
    '169.254.169.254',
    '168.63.129.16',
    'fd00:ec2::254',
    '::ffff:169.254.169.254',
    '64:ff9b::a9fe:a9fe',
    '2002:a9fe:a9fe::',
  ])('at %s are forbidden whatever the rules and the mode', (text) => {
    for (const mode of ['allow', 'observe'] as const) {
      expect(told(aGrant(everything, { mode }), to(toAddress(text), 80))).toBe('deny forbidden_address null');
    }
  });

  it.each(['metadata.google.internal', 'metadata.tencentyun.com', 'metadata', 'x.metadata.google.internal'])(
    'by the name %s are forbidden whatever the rules and the mode',
    (text) => {
      for (const mode of ['allow', 'observe'] as const) {
        expect(told(aGrant(everything, { mode }), to(toHost(text)))).toBe('deny forbidden_address null');
      }
    },
  );
});

describe('a phase', () => {
  const grant = aGrant([aRule('pypi', { phases: ['install'] }), aRule('api', { hosts: ['o.example'] })], {
    phases: ['install', 'locked'],
  });

  it('has its own rules and those without phases', () => {
    expect(told(grant, to(a), 'install')).toBe('allow pypi splice');
    expect(told(grant, to(a), 'locked')).toBe('deny wrong_phase pypi');
    expect(told(grant, to(a))).toBe('deny wrong_phase pypi');
    expect(told(grant, to(toHost('o.example')), 'locked')).toBe('allow api splice');
  });
});

describe('a narrowing', () => {
  const rules = [aRule('web', { hosts: ['*.a.example', 'a.example'] }), aRule('api', { hosts: ['o.example'] })];

  it('to rules leaves only them', () => {
    const grant = aGrant(rules, { narrowing: { rules: ['api'] } });
    expect(told(grant, to(a))).toBe('deny narrowed_away web');
    expect(told(grant, to(toHost('o.example')))).toBe('allow api splice');
    expect(told(grant, to(toHost('x.o.example')))).toBe('deny no_rule null');
  });

  it('to hosts leaves only them, and no raw address', () => {
    const net = aRule('net', { cidrs: ['192.0.1.0/24'], protocol: 'tcp' });
    const grant = aGrant([...rules, net], { narrowing: { hosts: ['*.a.example'] } });
    expect(told(grant, to(toHost('b.a.example')))).toBe('allow web splice');
    expect(told(grant, to(a))).toBe('deny narrowed_away web');
    expect(told(grant, to(toAddress('192.0.1.1'), 443))).toBe('deny narrowed_away net');
  });
});

describe('mode observe', () => {
  const observe = (rules: readonly NetworkRule[], keys = {}): NetworkGrant =>
    aGrant(rules, { mode: 'observe', ...keys });

  it('lets pass what no rule allows, and says what mode allow would have said', () => {
    const grant = observe([aRule('web')]);
    expect(told(grant, to(a, 443, hello('a.example')))).toBe('allow web splice');
    expect(told(grant, to(a, 80, http()))).toBe('allow null http wrong_port');
    expect(told(grant, to(a, 443, hello('b.a.example')))).toBe('allow null splice server_name_mismatch');
    expect(told(grant, to(toHost('o.example')))).toBe('allow null splice no_rule');
    expect(told(grant, to(toHost('o.example'), 22, raw))).toBe('allow null splice no_rule');
    expect(told(grant, to(toAddress('192.0.1.1'), 22, raw))).toBe('allow null splice no_rule');
  });

  it('still judges each request where the connection is opened', () => {
    const grant = observe([aRule('get', { methods: ['GET'] })]);
    expect(told(grant, to(a, 443, opened()))).toBe('allow get open');
    expect(told(grant, to(a, 443, opened({ method: 'PUT' })))).toBe('allow null open method_not_allowed');
  });

  it('lets nothing pass that a rule denies, and opens TLS to see it', () => {
    const grant = observe([aRule('no', { verdict: 'deny', methods: ['DELETE'] })]);
    expect(told(grant, to(a, 443, hello('a.example')))).toBe('allow null open no_rule');
    expect(told(grant, to(a, 443, opened({ method: 'DELETE' })))).toBe('deny rule_denies no');
    expect(told(grant, to(a, 443, raw))).toBe('deny rule_denies no');
  });

  it('opens no special address, and nothing that the request gave up', () => {
    expect(told(observe([]), to(toAddress('10.0.0.1'), 80))).toBe('deny forbidden_address null');
    expect(told(observe([], { narrowing: { hosts: ['o.example'] } }), to(a))).toBe('deny narrowed_away null');
    expect(told(observe([aRule('web')], { narrowing: { rules: ['web'] } }), to(toHost('o.example')))).toBe(
      'deny no_rule null',
    );
    expect(told(observe([aRule('web')], { narrowing: { rules: [] } }), to(a))).toBe('deny narrowed_away web');
  });
});

describe('an address in text', () => {
  it('is one value in every spelling, so that no spelling is judged otherwise (NX-05)', () => {
    const rules = [
      aRule('no', { verdict: 'deny', cidrs: ['192.0.1.1/32'], protocol: 'tcp', ports: [{ from: 1, to: 65535 }] }),
    ];
    for (const text of ['192.0.1.1', '::ffff:192.0.1.1', '::ffff:c000:101']) {
      expect(told(rules, to({ kind: 'address', address: addressOf(text) }, 80))).toBe('deny rule_denies no');
    }
  });
});
