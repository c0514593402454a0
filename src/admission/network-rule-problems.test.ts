/** What must hold between the keys of a rule, and which hosts and blocks are too much for any. */
import { describe, expect, test } from 'vitest';
import { port, problemsOfRule, rule, type Written } from '../../test/support/network-column.ts';

const hosts = ['api.example'];
const cidrs = ['8.8.0.0/16'];
const tcp = { cidrs, ports: [5432] };

describe('what a rule is for', () => {
  test.each([
    [{}, 'rules[0]: neither hosts nor cidrs; allowed: one of the two'],
    [{ hosts, cidrs, ports: [1], protocol: 'tcp' }, 'rules[0]: hosts and cidrs; allowed: one of the two'],
    [{ hosts, private: true }, 'rules[0].private: not for hosts; allowed: with cidrs, which name what is private'],
  ])('%j is refused', (written, problem) => {
    expect(problemsOfRule(written)).toEqual([problem]);
  });

  test.each([
    ...['', ' ', '.', 'a..b', 'a b', 'http://a.example', 'a.example/x', 'a.example:443', '-a.example', 'a\0b.example'],
    ...[
      'a.*.example',
      '*a.example',
      'a*',
      '**.a.example',
      '*.*.example',
      `${'x'.repeat(64)}.example`,
      '127.1',
      '0x7f.1',
    ],
    ...[1, null, {}, ['a.example']],
  ])('NX-27: hosts refuses %j', (entry) => {
    expect(problemsOfRule({ hosts: [entry] })[0]).toMatch(
      /^rules\[0\]\.hosts\[0\]: saw .*; allowed: a host name, or "\*\."/,
    );
  });

  test.each(['*', '*.com', '*.', '*.co.uk', '*.org.au'])('NX-26: the over-wide host %j is refused', (entry) => {
    expect(problemsOfRule({ hosts: [entry] })[0]).toMatch(/^rules\[0\]\.hosts\[0\]: saw "\*/);
    expect(problemsOfRule({ hosts: [entry], verdict: 'deny' })).toHaveLength(1);
  });

  test('NX-26: an over-wide host is refused with its reason', () => {
    expect(problemsOfRule({ hosts: ['*.com'] })).toEqual([
      'rules[0].hosts[0]: saw "*.com"; allowed: a host name, or "*." and a name for every host below it that is not a registry\'s: "*.com" would allow nearly everything',
    ]);
  });

  test.each(['8.8.8.8', '10.0.0.0/8', '::1', '2606:4700::/32'])('the host %j belongs into cidrs', (entry) => {
    expect(problemsOfRule({ hosts: [entry] })[0]).toContain('addresses and blocks stand in cidrs');
  });

  test.each([
    ...[
      '8.8.8.8/8',
      '8.8.8.8/33',
      '8.8.8',
      '08.8.8.8',
      '0x8.8.8.8',
      '8.8.8.0/024',
      '8.8.8.0/',
      '8.8.8.0-8.8.8.9',
      'a.example',
    ],
    ...['2606::/129', 'fe80::1%eth0', '::ffff:8.8.8.0/24', '*', '', 8, null],
  ])('NX-05: cidrs refuses %j', (entry) => {
    expect(problemsOfRule({ ...tcp, cidrs: [entry] })[0]).toMatch(
      /^rules\[0\]\.cidrs\[0\]: saw .*; allowed: an address or a block such as/,
    );
  });

  test('an address is a block of one, in canonical spelling', () => {
    expect(rule({ ...tcp, cidrs: ['8.8.8.8', '::ffff:8.8.4.4', '2606:4700::1'] }).cidrs).toEqual([
      '8.8.8.8/32',
      '8.8.4.4/32',
      '2606:4700::1/128',
    ]);
  });

  test.each([
    ['0.0.0.0/0', '/8 or longer for IPv4'],
    ['8.0.0.0/7', '/8 or longer for IPv4'],
    ['::/0', '/16 or longer for IPv6'],
    ['2000::/3', '/16 or longer for IPv6'],
    ['fc00::/7', '/16 or longer for IPv6'],
  ])('CX-03: the block %s is over-wide, even where private ones are allowed', (entry, reason) => {
    for (const isPrivate of [false, true]) {
      expect(problemsOfRule({ ...tcp, cidrs: [entry], private: isPrivate })).toEqual([
        `rules[0].cidrs[0]: saw "${entry}"; allowed: ${reason}, a wider block is half the world`,
      ]);
    }
  });

  test.each([
    ...[
      '10.0.0.0/8',
      '10.1.2.3/32',
      '127.0.0.1/32',
      '169.254.0.0/16',
      '100.64.0.0/10',
      '192.168.1.0/24',
      '224.0.0.0/8',
    ],
    ...['0.0.0.0/8', 'fd00::/16', 'fe80::/16', '::1/128', '2002:a00::/24', '2001::/32', '64:ff9b::a00:0/104'],
    ...['64:ff9b::7f00:1/128', '64:ff9b:1::/48'],
  ])('NX-06, NX-08: the block %s is special, and needs private: true', (entry) => {
    expect(problemsOfRule({ ...tcp, cidrs: ['8.8.8.8/32', entry] })[0]).toMatch(
      /^rules\[0\]\.cidrs\[1\]: saw ".*"; allowed: only with "private: true", for it is an? .* \(.*\/\d+\)$|for it is the/,
    );
    expect(rule({ ...tcp, cidrs: [entry], private: true })).toMatchObject({ cidrs: [entry], private: true });
  });

  test.each([
    '8.8.0.0/16',
    '100.0.0.0/8',
    '192.0.0.0/16',
    '172.0.0.0/8',
    '64:ff9b::/96',
    '64:ff9b::808:808/128',
    '2606:4700::/32',
  ])(
    'the block %s has addresses of the Internet: it needs no private: true, and its special ones stay shut',
    (entry) => {
      expect(rule({ ...tcp, cidrs: [entry] }).private).toBe(false);
    },
  );

  test.each([
    ...['169.254.169.254/32', '169.254.169.254/31', '169.254.169.240/28', '168.63.129.16/32', '100.100.100.200/32'],
    ...['fd00:ec2::254/128', 'fd00:ec2::250/124', '64:ff9b::a9fe:a9fe/128', '2002:a9fe:a9fe::/128'],
  ])('NX-07: the metadata block %s is refused, private or not', (entry) => {
    for (const isPrivate of [false, true]) {
      expect(problemsOfRule({ ...tcp, cidrs: [entry], private: isPrivate })).toEqual([
        `rules[0].cidrs[0]: saw "${entry}"; allowed: no address of a metadata service, in any rule`,
      ]);
    }
  });

  test.each(['metadata.google.internal', 'x.metadata.google.internal', '*.metadata.google.internal', 'metadata'])(
    'NX-07: the metadata host %s is refused',
    (entry) => {
      expect(problemsOfRule({ hosts: ['api.example', entry] })).toEqual([
        `rules[0].hosts[1]: saw "${entry}"; allowed: no metadata service, in any rule`,
      ]);
    },
  );
});

describe('contradictions', () => {
  test.each([
    [{ hosts, protocol: 'tcp' }, 'ports: missing; allowed: at least one port, protocol tcp has no usual one'],
    [{ cidrs }, 'ports: missing; allowed: at least one port, protocol tcp has no usual one'],
    [{ ...tcp, methods: ['GET'] }, 'methods: not for protocol tcp; allowed: with https or http'],
    [{ hosts, protocol: 'tls', paths: ['/'] }, 'paths: not for protocol tls; allowed: with https or http'],
    [{ hosts, protocol: 'tls', websocket: true }, 'websocket: not for protocol tls; allowed: with https or http'],
    [{ hosts, protocol: 'http', inspect: 'never' }, 'inspect: not for protocol http; allowed: with https'],
    [{ hosts, protocol: 'http', noSni: true }, 'noSni: not for protocol http; allowed: with https or tls'],
    [{ ...tcp, ech: true }, 'ech: not for protocol tcp; allowed: with https or tls'],
    [
      { hosts, protocol: 'tls', budget: { requests: 1 } },
      'budget.requests: not for protocol tls; allowed: with https or http',
    ],
    [
      { hosts, inspect: 'never', methods: ['GET'], paths: ['/'] },
      'inspect: saw "never" with methods, paths; allowed: auto or always, they need TLS opened',
    ],
    [
      { hosts, inspect: 'never', websocket: true },
      'inspect: saw "never" with websocket; allowed: auto or always, they need TLS opened',
    ],
    [
      { hosts, inspect: 'never', budget: { requests: 5 } },
      'inspect: saw "never" with budget.requests; allowed: auto or always, they need TLS opened',
    ],
    [
      { hosts, ech: true, inspect: 'always' },
      'ech: saw true with inspect: always; allowed: only where TLS is not opened',
    ],
    [{ hosts, ech: true, paths: ['/'] }, 'ech: saw true with paths; allowed: only where TLS is not opened'],
    [{ cidrs, protocol: 'https' }, 'noSni: missing; allowed: true, TLS to an address names no server'],
    [{ cidrs, protocol: 'tls', noSni: false }, 'noSni: saw false; allowed: true, TLS to an address names no server'],
    [
      { cidrs, protocol: 'https', noSni: true, methods: ['GET'] },
      'cidrs: with methods; allowed: hosts, TLS to an address is not opened',
    ],
  ])('%j is refused', (written, problem) => {
    expect(problemsOfRule(written)).toEqual([`rules[0].${problem}`]);
  });

  test.each([
    [{ hosts, inspect: 'never', budget: { connections: 5 } }],
    [{ hosts, inspect: 'never', websocket: false }],
    [{ hosts, inspect: 'never', ech: true, noSni: true }],
    [{ hosts, protocol: 'tls', ech: true }],
    [{ hosts, protocol: 'http', methods: ['GET'], websocket: true, budget: { requests: 5 } }],
    [{ cidrs, protocol: 'http', paths: ['/'] }],
    [{ cidrs, protocol: 'https', noSni: true, inspect: 'never' }],
    [{ cidrs, protocol: 'tls', ech: true }],
  ])('%j is none', (written) => {
    expect(problemsOfRule(written)).toEqual([]);
  });
});

describe('a rule that denies', () => {
  test.each([
    ...['private', 'methods', 'paths', 'inspect', 'noSni', 'ech', 'websocket', 'phases', 'budget', 'bandwidth'],
  ])('has no %s', (key) => {
    const values: Written = {
      ...{ private: true, methods: ['GET'], paths: ['/'], inspect: 'auto', noSni: true, ech: false, websocket: true },
      ...{ phases: ['install'], budget: { up: 1 }, bandwidth: { up: '1MiB' } },
    };
    expect(problemsOfRule({ verdict: 'deny', hosts, [key]: values[key] }, { phases: ['install'] })).toEqual([
      `rules[0].${key}: not for a rule that denies; allowed there: id, verdict, hosts, cidrs, ports, protocol`,
    ]);
  });

  test('may be as wide as its blocks are: it opens nothing', () => {
    const cidrs = ['0.0.0.0/0', '::/0', '10.0.0.0/8', '169.254.169.254/32'];
    expect(rule({ verdict: 'deny', cidrs })).toMatchObject({ cidrs, private: false, ports: [port(1, 65_535)] });
    expect(rule({ verdict: 'deny', hosts: ['metadata.google.internal'] }).verdict).toBe('deny');
  });
});
