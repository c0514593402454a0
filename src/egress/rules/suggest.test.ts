import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  addresses,
  aGrant,
  anyPort,
  hosts,
  methods,
  paths,
  toAddress,
  toHost,
} from '../../../test/support/arbitrary-rules.ts';
import { networkRule } from '../../admission/network-rule.ts';
import { readYaml } from '../../admission/policy-yaml.ts';
import { normalPath } from '../../network/request-path.ts';
import type { Target } from '../types.ts';
import { compileRules } from './compile.ts';
import { decide } from './decide.ts';
import { ruleYaml } from './rule-yaml.ts';
import { attemptOf, type ObservedFlow, type Suggestion, suggestRules } from './suggest.ts';

const flow = (host: string, keys: Partial<ObservedFlow> = {}): ObservedFlow => ({
  target: toHost(host),
  port: 443,
  protocol: 'tls',
  ...keys,
});
const rulesOf = (...question: Parameters<typeof suggestRules>): object[] =>
  suggestRules(...question).rules.map(({ rule }) => {
    const { id, hosts: names, cidrs, protocol, ports, methods: only, paths: below } = rule;
    const where = cidrs.length > 0 ? { cidrs } : { hosts: names };
    return { id, ...where, protocol, ports: ports.map(({ from, to }) => `${from}-${to}`).join(), only, below };
  });

describe('suggested rules', () => {
  it('are none where nothing was observed', () => {
    expect(suggestRules([])).toEqual({ rules: [], uncovered: [] });
  });

  it('put together what needs the same', () => {
    const flows = [
      flow('a.example'),
      flow('b.a.example'),
      flow('a.example'),
      flow('o.example', { protocol: 'http', port: 80, method: 'GET', path: '/x' }),
      flow('o.example', { protocol: 'http', port: 80, method: 'HEAD', path: '/x' }),
      flow('o.example', { protocol: 'http', port: 80, method: 'POST', path: '/y' }),
      flow('o.example', { protocol: 'http', port: 8080, method: 'POST', path: '/y' }),
    ];
    expect(rulesOf(flows)).toEqual([
      { id: 'a-example', hosts: ['a.example', 'b.a.example'], protocol: 'https', ports: '443-443' },
      { id: 'o-example', hosts: ['o.example'], protocol: 'http', ports: '80-80', only: ['GET', 'HEAD'], below: ['/x'] },
      {
        id: 'o-example-2',
        hosts: ['o.example'],
        protocol: 'http',
        ports: '80-80,8080-8080',
        only: ['POST'],
        below: ['/y'],
      },
    ]);
  });

  it('say which flows each of them covers', () => {
    const flows = [flow('a.example'), flow('o.example', { port: 22, protocol: 'raw' }), flow('b.a.example')];
    expect(suggestRules(flows).rules.map((rule) => rule.flows)).toEqual([[flows[0], flows[2]], [flows[1]]]);
  });

  it('leave methods open where a connection was not seen into', () => {
    const flows = [flow('a.example', { method: 'GET', path: '/' }), flow('a.example')];
    expect(rulesOf(flows)).toMatchObject([{ hosts: ['a.example'], only: undefined, below: undefined }]);
  });

  it('let everything pass where raw bytes were sent', () => {
    const flows = [flow('a.example'), flow('a.example', { protocol: 'raw' })];
    expect(rulesOf(flows)).toMatchObject([{ hosts: ['a.example'], protocol: 'tcp' }]);
  });

  it('are for single addresses where no name was used', () => {
    const flows = ['192.0.1.1', '2600::1'].map((text) => ({
      target: toAddress(text),
      port: 443,
      protocol: 'tls' as const,
    }));
    expect(suggestRules(flows).rules).toMatchObject([
      { rule: { cidrs: ['192.0.1.1/32', '2600::1/128'], noSni: true } },
    ]);
  });

  it.each([
    ['a metadata service', flow('metadata.google.internal')],
    ['a metadata address', { ...flow('a.example'), target: toAddress('169.254.169.254') }],
    ['a private address', { ...flow('a.example'), target: toAddress('10.0.0.1') }],
    ['a path with two readings', flow('a.example', { method: 'GET', path: '/a/../b' })],
    ['CONNECT', flow('a.example', { protocol: 'http', method: 'CONNECT', path: '/' })],
  ])('are never for %s: it is told as not covered', (_what, odd) => {
    expect(suggestRules([odd])).toMatchObject({ rules: [], uncovered: [{ flow: odd, reason: expect.any(String) }] });
  });

  it('have a wildcard only when asked, above three names and more right below one parent that need the same', () => {
    const many = ['x', 'y', 'z'].map((label) => flow(`${label}.cdn.example`));
    expect(rulesOf(many)).toMatchObject([{ hosts: ['x.cdn.example', 'y.cdn.example', 'z.cdn.example'] }]);
    expect(rulesOf(many, { wildcards: true })).toMatchObject([{ hosts: ['*.cdn.example'] }]);
    expect(rulesOf(many.slice(1), { wildcards: true })).toMatchObject([{ hosts: ['y.cdn.example', 'z.cdn.example'] }]);
    const other = [...many.slice(1), flow('x.cdn.example', { port: 8443 })];
    expect(rulesOf(other, { wildcards: true })).toMatchObject([{ hosts: ['y.cdn.example', 'z.cdn.example'] }, {}]);
    const wide = ['x', 'y', 'z'].flatMap((label) => [flow(`${label}.example`), flow(`${label}.co.uk`)]);
    expect(JSON.stringify(rulesOf(wide, { wildcards: true }))).not.toContain('*');
    const deep = ['x.p', 'y.q', 'z.r'].map((label) => flow(`${label}.cdn.example`));
    expect(JSON.stringify(rulesOf(deep, { wildcards: true }))).not.toContain('*');
  });

  it('have wider paths only when asked', () => {
    const get = (path: string): ObservedFlow => flow('a.example', { method: 'GET', path });
    const flows = ['/simple/x/', '/simple/y/', '/simple/z/', '/about'].map(get);
    expect(rulesOf(flows)).toMatchObject([{ below: ['/about', '/simple/x/', '/simple/y/', '/simple/z/'] }]);
    expect(rulesOf(flows, { paths: 'siblings' })).toMatchObject([{ below: ['/about', '/simple/*/'] }]);
    expect(rulesOf(flows, { paths: 'any' })).toMatchObject([{ only: ['GET'], below: undefined }]);
  });

  it('are more where a list is longer than admission takes', () => {
    const flows = Array.from({ length: 100 }, (_, index) => flow(`h${index}.example`));
    const { rules } = suggestRules(flows);
    expect(rules.map(({ rule }) => rule.hosts.length)).toEqual([64, 36]);
    expect(rules.flatMap((rule) => rule.flows)).toHaveLength(100);
  });
});

const target = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...hosts).map((host): Target => ({ kind: 'host', host })) },
  fc.constantFrom(...addresses).map((address): Target => ({ kind: 'address', address })),
);
const anyFlow: fc.Arbitrary<ObservedFlow> = fc
  .record({
    target,
    port: anyPort,
    protocol: fc.constantFrom('tls' as const, 'tls' as const, 'http' as const, 'http' as const, 'raw' as const),
    request: fc.option(fc.record({ method: fc.constantFrom(...methods), path: fc.constantFrom(...paths) }), {
      nil: undefined,
      freq: 8,
    }),
    websocket: fc.boolean(),
    noSni: fc.nat(4).map((number) => number === 0),
    ech: fc.nat(8).map((number) => number === 0),
  })
  .map(({ request, websocket, noSni, ech, ...rest }): ObservedFlow => {
    const isAddress = rest.target.kind === 'address';
    if (rest.protocol === 'raw') return rest;
    const seen =
      request === undefined || (rest.protocol === 'tls' && (isAddress || ech)) ? {} : { ...request, websocket };
    return { ...rest, ...seen, ...(rest.protocol === 'tls' ? { noSni: isAddress || noSni, ech } : {}) };
  });
const anyFlows = fc.array(anyFlow, { maxLength: 12 });
const anyOptions = fc.record({
  wildcards: fc.boolean(),
  paths: fc.constantFrom('exact' as const, 'siblings' as const, 'any' as const),
});

const isAllowed = ({ rules }: Suggestion, asked: ObservedFlow): boolean =>
  decide(compileRules(aGrant(rules.map(({ rule }) => rule))), undefined, attemptOf(asked)).verdict === 'allow';

describe('suggested rules, whatever was observed,', () => {
  it('allow all of it that is not told as not covered, with every option', () => {
    fc.assert(
      fc.property(anyFlows, anyOptions, (flows, options) => {
        const suggestion = suggestRules(flows, options);
        const uncovered = new Set(suggestion.uncovered.map((entry) => entry.flow));
        for (const observed of flows) expect(uncovered.has(observed) || isAllowed(suggestion, observed)).toBe(true);
      }),
      { numRuns: 2_000 },
    );
  });

  it('allow nothing else', () => {
    fc.assert(
      fc.property(anyFlows, anyFlow, (flows, other) => {
        const suggestion = suggestRules(flows);
        const uncovered = new Set(suggestion.uncovered.map((entry) => entry.flow));
        const observed = flows.filter((one) => !uncovered.has(one) && isAlike(one, other));
        if (isAllowed(suggestion, other)) expect(observed.length).toBeGreaterThan(0);
      }),
      { numRuns: 5_000 },
    );
  });

  it('have each flow in one rule, and different ids', () => {
    fc.assert(
      fc.property(anyFlows, anyOptions, (flows, options) => {
        const { rules, uncovered } = suggestRules(flows, options);
        const told = [...rules.flatMap((rule) => rule.flows), ...uncovered.map((entry) => entry.flow)];
        expect(new Set(told)).toEqual(new Set(flows));
        expect(told).toHaveLength(flows.length);
        expect(new Set(rules.map(({ rule }) => rule.id)).size).toBe(rules.length);
      }),
    );
  });

  it('are the same rules for the same flows twice', () => {
    fc.assert(
      fc.property(anyFlows, (flows) => {
        expect(suggestRules([...flows, ...flows]).rules.map(({ rule }) => rule)).toEqual(
          suggestRules(flows).rules.map(({ rule }) => rule),
        );
      }),
    );
  });

  it('are read by admission as they are', () => {
    fc.assert(
      fc.property(anyFlows, anyOptions, (flows, options) => {
        for (const { rule } of suggestRules(flows, options).rules) {
          // admission takes what NAT64 makes of public addresses for special
          if (rule.cidrs.some((text) => text.startsWith('64:'))) continue;
          const yaml = readYaml(ruleYaml(rule));
          if (!yaml.ok) throw new Error(yaml.problems.join());
          const [entry] = yaml.value as unknown[];
          expect(networkRule.parse(entry)).toEqual(rule);
        }
      }),
      { numRuns: 500 },
    );
  });
});

/** Whether who allows the one must allow the other: as far as rules can tell them apart. */
function isAlike(observed: ObservedFlow, other: ObservedFlow): boolean {
  const place = ({ target: to, port }: ObservedFlow): string => JSON.stringify([to, port]);
  if (place(observed) !== place(other)) return false;
  // of HTTP without a request no more is known than the port
  if (observed.protocol === 'raw' || (other.protocol === 'http' && other.method === undefined)) return true;
  if (observed.protocol !== other.protocol) return false;
  // a connection is allowed as soon as one request on it may be
  if (observed.method === undefined || other.method === undefined) return true;
  // nothing is seen under a hidden name
  if (observed.ech === true) return true;
  return observed.method === other.method && spelling(observed.path) === spelling(other.path);
}

function spelling(path = '/'): string {
  const normal = normalPath(path);
  return 'path' in normal ? normal.path : path;
}
