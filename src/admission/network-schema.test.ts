/** The network column as it is written: what it becomes, and what is refused with which sentence. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { open, port, problemsIn, problemsOfRule, read, rule } from '../../test/support/network-column.ts';

const hosts = ['api.example'];
const cidrs = ['8.8.0.0/16'];

describe('the column', () => {
  test('is deny, or a mode with rules', () => {
    expect(read('deny')).toEqual({ mode: 'deny' });
    expect(read({ mode: 'allow', rules: [] })).toEqual({ mode: 'allow', rules: [], phases: [] });
    expect(open({ mode: 'observe', rules: [{ hosts }] }).mode).toBe('observe');
  });

  test.each(['none', 'allow', 'observe', '*', '0.0.0.0/0', true, null, undefined, 1, [], ['deny']])(
    '%j is refused: nothing opens by a word',
    (value) => {
      expect(problemsIn(value)).toEqual([
        `${value === undefined ? 'missing' : `saw ${JSON.stringify(value)}`}; allowed: deny, or an object with mode, rules, phases, budget`,
      ]);
    },
  );

  test.each([
    [{}, 'mode: missing; allowed: allow or observe'],
    [{ mode: 'deny', rules: [] }, 'mode: saw "deny"; allowed: allow or observe'],
    [{ mode: 'all', rules: [] }, 'mode: saw "all"; allowed: allow or observe'],
    [{ mode: 'allow' }, 'rules: missing; allowed: a list'],
    [{ mode: 'allow', rules: {} }, 'rules: saw {}; allowed: a list'],
    [{ mode: 'allow', rules: [], allow: [] }, 'unknown key "allow"; allowed: mode, rules, phases, budget'],
    [{ mode: 'allow', rules: [], phases: 'install' }, 'phases: saw "install"; allowed: a list'],
    [
      { mode: 'allow', rules: [], phases: ['Install'] },
      'phases[0]: saw "Install"; allowed: a small letter or a digit, then at most 63 of them and "-"',
    ],
    [{ mode: 'allow', rules: [], phases: ['a', 'b', 'a'] }, 'phases[2]: saw "a" again; allowed: each phase once'],
    [
      { mode: 'allow', rules: [], phases: Array.from({ length: 17 }, (_, at) => `p${at}`) },
      'phases: saw 17 entries; allowed: at most 16',
    ],
    [
      { mode: 'allow', rules: [], budget: {} },
      'budget: saw {}; allowed: at least one of connections, requests, up, down',
    ],
    [
      { mode: 'allow', rules: [], budget: null },
      'budget: saw null; allowed: an object with connections, requests, up, down',
    ],
    [
      { mode: 'allow', rules: ['api.example'] },
      /^rules\[0\]: saw "api.example"; allowed: an object with id, verdict, hosts, /,
    ],
    [
      { mode: 'allow', rules: [{ hosts, host: 'a' }] },
      /^rules\[0\]: unknown key "host"; allowed: id, verdict, hosts, cidrs, /,
    ],
  ])('%j is refused', (value, problem) => {
    const [first] = problemsIn(value);
    if (typeof problem === 'string') expect(first).toBe(problem);
    else expect(first).toMatch(problem);
  });

  test('has at most a thousand rules', () => {
    const rules = Array.from({ length: 1000 }, () => ({ hosts }));
    expect(open({ mode: 'allow', rules }).rules).toHaveLength(1000);
    expect(problemsIn({ mode: 'allow', rules: [...rules, { hosts }] })).toEqual([
      'rules: saw 1001 entries; allowed: at most 1000',
    ]);
  });

  test('has a budget and phases in their order', () => {
    const budget = { connections: 10, requests: 20, up: '1MiB', down: 4096 };
    expect(read({ mode: 'allow', rules: [], phases: ['install', 'locked'], budget })).toEqual({
      mode: 'allow',
      rules: [],
      phases: ['install', 'locked'],
      budget: { connections: 10, requests: 20, upBytes: 1024 ** 2, downBytes: 4096 },
    });
  });
});

describe('a rule', () => {
  test('says little, and the rest goes without saying', () => {
    expect(rule({ hosts: ['API.Example.', '*.cdn.example', 'bücher.example'] })).toEqual({
      id: 'rule-1',
      verdict: 'allow',
      hosts: ['api.example', '*.cdn.example', 'xn--bcher-kva.example'],
      cidrs: [],
      private: false,
      protocol: 'https',
      ports: [port(443)],
      inspect: 'auto',
      noSni: false,
      ech: false,
      websocket: false,
    });
  });

  test('says everything', () => {
    const written = {
      ...{ id: 'pypi', verdict: 'allow', hosts, protocol: 'https', ports: [443, '8000-8099'], inspect: 'always' },
      ...{ methods: ['GET', 'M-SEARCH'], paths: ['/simple/**', '/p/*/x-*'], noSni: true, ech: false, websocket: true },
      ...{ phases: ['install'], budget: { requests: 5, up: '1KB' }, bandwidth: { up: '10MiB', down: '1KiB' } },
    };
    expect(rule(written, { phases: ['install', 'locked'] })).toEqual({
      ...written,
      cidrs: [],
      private: false,
      ports: [port(443), port(8000, 8099)],
      budget: { requests: 5, upBytes: 1000 },
      bandwidth: { upBytesPerSecond: 10 * 1024 ** 2, downBytesPerSecond: 1024 },
    });
  });

  test.each([
    ['https', { hosts }, 'https', [port(443)]],
    ['tls', { hosts, protocol: 'tls' }, 'tls', [port(443)]],
    ['http', { hosts, protocol: 'http' }, 'http', [port(80)]],
    ['tcp', { hosts, protocol: 'tcp', ports: [22] }, 'tcp', [port(22)]],
    ['blocks', { cidrs, ports: [22] }, 'tcp', [port(22)]],
    ['TLS to blocks', { cidrs, protocol: 'tls', noSni: true }, 'tls', [port(443)]],
    ['what is denied', { hosts, verdict: 'deny' }, 'tcp', [port(1, 65_535)]],
    ['what is denied in one protocol', { hosts, verdict: 'deny', protocol: 'http' }, 'http', [port(1, 65_535)]],
    ['what is denied on one port', { hosts, verdict: 'deny', ports: [25] }, 'tcp', [port(25)]],
  ])('has a usual protocol and port for %s', (_name, written, protocol, ports) => {
    expect(rule(written)).toMatchObject({ protocol, ports });
  });

  test('without an id is named by its place', () => {
    const rules = [{ hosts }, { id: 'named', hosts }, { hosts }];
    expect(open({ mode: 'allow', rules }).rules.map(({ id }) => id)).toEqual(['rule-1', 'named', 'rule-3']);
  });

  test.each([
    [
      [
        { id: 'a', hosts },
        { id: 'a', hosts },
      ],
      'rules[1].id: saw "a"; allowed: an id that rules[0] has not',
    ],
    [[{ id: 'rule-2', hosts }, { hosts }], 'rules[1].id: saw "rule-2"; allowed: an id that rules[0] has not'],
  ])('has an id of its own: %j', (rules, problem) => {
    expect(problemsIn({ mode: 'allow', rules })).toEqual([problem]);
  });

  test.each(['', 'A', '-a', 'a_b', 'a b', 'x'.repeat(65), 1, null])('is not named %j', (id) => {
    expect(problemsOfRule({ id, hosts })[0]).toMatch(
      /^rules\[0\]\.id: saw .*; allowed: a small letter or a digit, then/,
    );
  });

  test('is for phases of its class', () => {
    const phases = ['install', 'locked'];
    expect(rule({ hosts, phases: ['locked'] }, { phases }).phases).toEqual(['locked']);
    expect(problemsOfRule({ hosts, phases: ['build'] }, { phases })).toEqual([
      'rules[0].phases[0]: saw "build"; allowed: phases of the class: install, locked',
    ]);
    expect(problemsOfRule({ hosts, phases: ['build'] })).toEqual([
      'rules[0].phases[0]: saw "build"; allowed: none, the class has no phases',
    ]);
    expect(problemsOfRule({ hosts, phases: [] }, { phases })).toEqual([
      'rules[0].phases: saw []; allowed: 1 to 16 entries',
    ]);
  });
});

describe('the cells of a rule', () => {
  test.each([
    ['verdict', ['block', true, null], 'allow or deny'],
    ['protocol', ['udp', 'HTTPS', 'quic', 1], 'https or http or tls or tcp'],
    ['private', ['yes', 1], 'true or false'],
    ['noSni', ['no', null], 'true or false'],
    ['ech', [0], 'true or false'],
    ['websocket', ['true'], 'true or false'],
    ['inspect', [true, 'sometimes'], 'auto or always or never'],
    ['hosts', ['api.example', null, {}], 'a list'],
    ['ports', [443, '443'], 'a list'],
    ['methods', ['GET'], 'a list'],
    ['paths', ['/'], 'a list'],
    ['phases', ['install'], 'a list'],
  ])('%s refuses %j', (key, values, allowed) => {
    for (const value of values) {
      const expected = `rules[0].${key}: saw ${JSON.stringify(value)}; allowed: ${allowed}`;
      expect(problemsOfRule({ hosts, [key]: value })).toEqual([expected]);
    }
  });

  test.each(['hosts', 'cidrs', 'ports', 'methods', 'paths'])('%s has one entry at least and 64 at most', (key) => {
    const entry = { hosts: 'a.example', cidrs: '8.8.8.8', ports: 443, methods: 'GET', paths: '/' }[key];
    expect(problemsOfRule({ [key]: [] })[0]).toBe(`rules[0].${key}: saw []; allowed: 1 to 64 entries`);
    expect(problemsOfRule({ [key]: Array.from({ length: 65 }, () => entry) })[0]).toBe(
      `rules[0].${key}: saw 65 entries; allowed: 1 to 64 entries`,
    );
  });

  test.each([
    0,
    65_536,
    -1,
    1.5,
    '443',
    '0-5',
    '5-4',
    '1-65536',
    '01-2',
    ' 1-2',
    '1-',
    '-2',
    '1-2-3',
    'https',
    null,
    true,
    '*',
  ])('ports refuses %j', (entry) => {
    expect(problemsOfRule({ hosts, ports: [443, entry] })).toEqual([
      `rules[0].ports[1]: saw ${JSON.stringify(entry)}; allowed: a port from 1 to 65535, or a range such as "8000-8099"`,
    ]);
  });

  test.each(['get', 'G T', '', '*', 'GET/', 'CONNECT', 1, '-GET', 'X'.repeat(33)])('methods refuses %j', (entry) => {
    expect(problemsOfRule({ hosts, methods: [entry] })[0]).toMatch(
      /^rules\[0\]\.methods\[0\]: saw .*; allowed: a method in capital letters/,
    );
  });

  test.each([
    ...['', 'a', '*', '/a?b', '/a/../b', '/./a', '//a', '/a//b', '/a#b', '/%2e', '/%', '/%zz', '/a%2fb', '/a b'],
    ...['/a;b', '/a\\b', '/***', '/a**', '/\u0000', '/ü', `/${'x'.repeat(1024)}`, 1],
  ])('NX-24: paths refuses %j', (entry) => {
    expect(problemsOfRule({ hosts, paths: [entry] })[0]).toMatch(
      /^rules\[0\]\.paths\[0\]: saw .*; allowed: a path that begins/,
    );
  });

  test.each(['/', '/**', '/a/*', '/a/**/b', '/v1/x-*.json', '/a%20b'])('paths takes %j', (entry) => {
    expect(rule({ hosts, paths: [entry] }).paths).toEqual([entry]);
  });

  test.each([
    ['budget', { connections: 0 }, 'budget.connections'],
    ['budget', { connections: '10' }, 'budget.connections'],
    ['budget', { requests: 1.5 }, 'budget.requests'],
    ['budget', { up: -1 }, 'budget.up'],
    ['budget', { down: '1,5GB' }, 'budget.down'],
    ['budget', { down: 'unlimited' }, 'budget.down'],
    ['bandwidth', { up: 1023 }, 'bandwidth.up'],
    ['bandwidth', { down: '10Mbit' }, 'bandwidth.down'],
    ['bandwidth', { down: '10MiB/s' }, 'bandwidth.down'],
    ['bandwidth', {}, 'bandwidth'],
    ['budget', {}, 'budget'],
  ])('%s refuses %j', (key, value, path) => {
    const [first = ''] = problemsOfRule({ hosts, [key]: value });
    expect(first.startsWith(`rules[0].${path}: saw `)).toBe(true);
    expect(first).toContain('; allowed: ');
  });
});

test('whatever is written is read or refused by name', () => {
  const keys = [
    ...['id', 'verdict', 'hosts', 'cidrs', 'private', 'protocol', 'ports', 'methods', 'paths', 'inspect', 'noSni'],
    ...['ech', 'websocket', 'phases', 'budget', 'bandwidth', 'other'],
  ];
  const cell = fc.oneof(
    fc.constantFrom('allow', 'deny', 'https', 'tcp', 'tls', true, ['a.example'], ['8.8.8.8'], [443], ['/x'], ['GET']),
    fc.jsonValue({ maxDepth: 2 }),
  );
  const written = fc.dictionary(fc.constantFrom(...keys), cell, { maxKeys: 5 });
  fc.assert(
    fc.property(fc.constantFrom('allow', 'observe'), fc.array(written, { maxLength: 3 }), (mode, rules) => {
      const problems = problemsIn({ mode, rules });
      for (const problem of problems) expect(problem).toMatch(/^rules\[\d\].*allowed( there)?: /);
      if (problems.length > 0) return;
      for (const { hosts, cidrs, ports } of open({ mode, rules }).rules) {
        expect(hosts.length > 0).not.toBe(cidrs.length > 0);
        expect(ports.length).toBeGreaterThan(0);
      }
    }),
    { numRuns: 2000 },
  );
});
