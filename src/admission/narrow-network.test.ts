/** What a request leaves of the network of its class, and that it is never more than that. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SallyportError } from '../errors/error.ts';
import { coversPattern, type HostPattern, parseHostPattern } from '../network/host-pattern.ts';
import { narrowed, narrowNetwork, reasonsAgainst } from './narrow-network.ts';
import type { NetworkGrant, NetworkRequest } from './network.ts';
import { network as networkColumn } from './network-schema.ts';

type OpenNetwork = Exclude<NetworkGrant, { readonly mode: 'deny' }>;

const column = networkColumn.parse({
  mode: 'allow',
  rules: [
    { id: 'pypi', hosts: ['pypi.example', '*.files.example'], paths: ['/simple/**'] },
    { id: 'api', hosts: ['api.example'] },
    { id: 'db', cidrs: ['10.0.0.0/24'], private: true, ports: [5432] },
    { id: 'not-old', hosts: ['old.files.example'], verdict: 'deny' },
  ],
});
const network = column.mode === 'deny' ? expect.unreachable() : column;

describe('a request', () => {
  test('that says nothing about the network, or nothing in it, leaves it as it is', () => {
    expect(narrowed(network, undefined)).toBe(network);
    expect(narrowed(network, {})).toBe(network);
  });

  test('for none leaves none, of any network', () => {
    for (const any of [network, { mode: 'deny' } as const]) {
      expect(reasonsAgainst(any, 'deny')).toEqual([]);
      expect(narrowNetwork(any, 'deny')).toEqual({ mode: 'deny' });
    }
  });

  test('is kept beside the rules, which stay as they are', () => {
    expect(narrowNetwork(network, { rules: ['api'], hosts: ['api.example'] })).toEqual({
      ...network,
      narrowing: { rules: ['api', 'not-old'], hosts: ['api.example'] },
    });
  });

  test('has one form: sorted, each once, in canonical spelling', () => {
    const one = narrowNetwork(network, { rules: ['pypi', 'api', 'pypi'], hosts: ['PyPI.Example.', 'a.files.example'] });
    const other = narrowNetwork(network, { hosts: ['a.files.example', 'pypi.example'], rules: ['api', 'pypi'] });
    expect(one).toEqual(other);
    expect(one).toMatchObject({
      narrowing: { rules: ['api', 'not-old', 'pypi'], hosts: ['a.files.example', 'pypi.example'] },
    });
  });

  test('cannot leave out what its class denies', () => {
    expect(narrowNetwork(network, { rules: [] })).toMatchObject({ narrowing: { rules: ['not-old'] } });
  });

  test('may leave nothing: an empty list is no list of all', () => {
    expect(narrowNetwork(network, { hosts: [] })).toMatchObject({ narrowing: { hosts: [] } });
  });

  test.each([
    [{ rules: ['web'] }, 'network rule web: the class has pypi, api, db, not-old'],
    [{ rules: ['API'] }, 'network rule API: the class has pypi, api, db, not-old'],
    [{ hosts: ['evil.example'] }, 'network host evil.example: allowed are pypi.example, *.files.example, api.example'],
    [
      { hosts: ['files.example'] },
      'network host files.example: allowed are pypi.example, *.files.example, api.example',
    ],
    [{ hosts: ['*.example'] }, 'network host *.example: allowed are pypi.example, *.files.example, api.example'],
    [
      { hosts: ['*.api.example'] },
      'network host *.api.example: allowed are pypi.example, *.files.example, api.example',
    ],
    [{ hosts: ['10.0.0.1'] }, 'network host 10.0.0.1: allowed are pypi.example, *.files.example, api.example'],
    [{ rules: ['api'], hosts: ['pypi.example'] }, 'network host pypi.example: allowed are api.example'],
    [{ rules: ['db'], hosts: ['pypi.example'] }, 'network host pypi.example: no host is allowed'],
  ])('for %j is for more', (request, reason) => {
    expect(reasonsAgainst(network, request)).toEqual([reason]);
    expect(() => narrowNetwork(network, request)).toThrow(
      new SallyportError('request_widens', `Cannot narrow the network: ${reason}`),
    );
  });

  test('a host that only a rule that denies names is not allowed', () => {
    const denying = networkColumn.parse({ mode: 'observe', rules: [{ hosts: ['old.example'], verdict: 'deny' }] });
    expect(reasonsAgainst(denying, { hosts: ['old.example'] })).toEqual([
      'network host old.example: no host is allowed',
    ]);
  });

  test('of a class without a network is for more as soon as it names anything', () => {
    expect(reasonsAgainst({ mode: 'deny' }, { rules: [], hosts: [] })).toEqual([]);
    expect(narrowNetwork({ mode: 'deny' }, { rules: [] })).toEqual({ mode: 'deny' });
    expect(reasonsAgainst({ mode: 'deny' }, { rules: ['a'], hosts: ['b.example'] })).toEqual([
      'network a, b.example: the class allows no network',
    ]);
  });

  test('for very much has a short answer', () => {
    const rules = Array.from({ length: 1000 }, (_, index) => `r${index}`);
    expect(reasonsAgainst(network, { rules })[0]).toMatch(/^network rule r0, .* and 990 more: the class has /);
  });
});

describe('a second request, of a sandbox that runs', () => {
  const first = narrowNetwork(network, { rules: ['pypi', 'api'], hosts: ['*.files.example', 'api.example'] });

  test('narrows what the first one left', () => {
    expect(narrowNetwork(first, { hosts: ['a.files.example'] })).toMatchObject({
      narrowing: { rules: ['api', 'not-old', 'pypi'], hosts: ['a.files.example'] },
    });
    expect(narrowNetwork(first, { rules: ['pypi'] })).toMatchObject({
      narrowing: { rules: ['not-old', 'pypi'], hosts: ['*.files.example', 'api.example'] },
    });
  });

  test.each([
    [{ rules: ['db'] }, 'network rule db: the class has pypi, api, not-old'],
    [{ hosts: ['pypi.example'] }, 'network host pypi.example: allowed are *.files.example, api.example'],
    [{ rules: ['pypi'], hosts: ['api.example'] }, 'network host api.example: allowed are *.files.example, api.example'],
  ])('gets nothing back with %j', (request, reason) => {
    expect(reasonsAgainst(first, request)).toEqual([reason]);
  });
});

describe('for any network and any request', () => {
  const name = fc.constantFrom('a.example', 'b.a.example', 'c.b.a.example', 'b.example', 'x.b.example');
  const pattern = fc.tuple(fc.constantFrom('', '*.'), name).map((parts) => parts.join(''));
  const id = fc.constantFrom('r1', 'r2', 'r3', 'r4');
  const rule = fc.record({
    verdict: fc.constantFrom('allow', 'deny'),
    hosts: fc.array(pattern, { minLength: 1, maxLength: 3 }),
  });
  const networks = fc
    .record({ mode: fc.constantFrom('allow', 'observe'), rules: fc.array(rule, { maxLength: 4 }) })
    .map(({ mode, rules }) =>
      networkColumn.parse({ mode, rules: rules.map((each, at) => ({ id: `r${at + 1}`, ...each })) }),
    );
  const requests: fc.Arbitrary<NetworkRequest> = fc.oneof(
    { weight: 1, arbitrary: fc.constant('deny' as const) },
    {
      weight: 9,
      arbitrary: fc.record(
        { rules: fc.array(id, { maxLength: 3 }), hosts: fc.array(pattern, { maxLength: 3 }) },
        { requiredKeys: [] },
      ),
    },
  );

  test('what is left is never more: the same rules, no weaker mode, ids of the class, hosts within its hosts', () => {
    let kept = 0;
    fc.assert(
      fc.property(networks, requests, requests, (whole, ...wanted) => {
        let left = whole;
        for (const request of wanted) {
          if (reasonsAgainst(left, request).length > 0) {
            expect(() => narrowNetwork(left, request)).toThrow(SallyportError);
            continue;
          }
          const next = narrowNetwork(left, request);
          expectNoWider(next, left);
          if (next.mode !== 'deny') kept += 1;
          left = next;
        }
      }),
      { numRuns: 2000 },
    );
    expect(kept).toBeGreaterThan(500);
  });

  test('a host is refused exactly when no pattern of a kept rule that allows covers it', () => {
    fc.assert(
      fc.property(networks, pattern, (whole, wanted) => {
        if (whole.mode === 'deny') return;
        const isCovered = hostsOf(whole).some((outer) => coversPattern(outer, parsed(wanted)));
        expect(reasonsAgainst(whole, { hosts: [wanted] }).length === 0).toBe(isCovered);
      }),
    );
  });

  function expectNoWider(next: NetworkGrant, before: NetworkGrant): void {
    if (next.mode === 'deny') return;
    if (before.mode === 'deny') throw new Error('a network came from none');
    const { narrowing, ...rest } = next;
    const { narrowing: earlier, ...restBefore } = before;
    expect(rest).toEqual(restBefore);
    const denying = before.rules.filter(({ verdict }) => verdict === 'deny').map(({ id }) => id);
    const ids = earlier?.rules ?? before.rules.map((each) => each.id);
    if (earlier?.rules !== undefined) expect(narrowing?.rules).toBeDefined();
    expect(ids).toEqual(expect.arrayContaining([...(narrowing?.rules ?? [])]));
    if (narrowing?.rules !== undefined) expect(narrowing.rules).toEqual(expect.arrayContaining(denying));
    if (earlier?.hosts !== undefined) expect(narrowing?.hosts).toBeDefined();
    const outer = earlier?.hosts?.map(parsed) ?? hostsOf(before);
    for (const text of narrowing?.hosts ?? []) {
      expect(outer.some((candidate) => coversPattern(candidate, parsed(text)))).toBe(true);
    }
  }

  function hostsOf({ rules }: OpenNetwork): HostPattern[] {
    return rules.filter(({ verdict }) => verdict === 'allow').flatMap(({ hosts }) => hosts.map(parsed));
  }

  function parsed(text: string): HostPattern {
    return parseHostPattern(text) ?? expect.unreachable();
  }
});
