/**
 * Network rules and attempts by chance, of a world so small that they meet: a few hosts below each other, a few addresses,
 * three ports, two methods. Everything that a rule can say is said now and then.
 */
import fc from 'fast-check';
import type { NetworkGrant, NetworkNarrowing, NetworkRule } from '../../src/admission/network.ts';
import type { Attempt, AttemptContent, HttpRequest, Target } from '../../src/egress/types.ts';
import { type HostName, parseHostName } from '../../src/network/host-name.ts';
import { type IpAddress, parseIpAddress } from '../../src/network/ip-address.ts';

export function hostOf(text: string): HostName {
  const host = parseHostName(text);
  if (host === undefined) throw new Error(`no host name: ${text}`);
  return host;
}

export function addressOf(text: string): IpAddress {
  const address = parseIpAddress(text);
  if (address === undefined) throw new Error(`no address: ${text}`);
  return address;
}

export const toHost = (text: string): Target => ({ kind: 'host', host: hostOf(text) });
export const toAddress = (text: string): Target => ({ kind: 'address', address: addressOf(text) });

/** A rule that allows HTTPS to one host, but for what is said otherwise. */
export function aRule(id: string, keys: Partial<NetworkRule> = {}): NetworkRule {
  return {
    id,
    verdict: 'allow',
    hosts: keys.cidrs === undefined ? ['a.example'] : [],
    cidrs: [],
    private: false,
    protocol: 'https',
    ports: [{ from: 443, to: 443 }],
    inspect: 'auto',
    noSni: false,
    ech: false,
    websocket: false,
    ...keys,
  };
}

export function aGrant(
  rules: readonly NetworkRule[],
  keys: Partial<Exclude<NetworkGrant, { mode: 'deny' }>> = {},
): NetworkGrant {
  return { mode: 'allow', rules, phases: [], ...keys };
}

export const hosts = ['a.example', 'b.a.example', 'c.b.a.example', 'o.example', 'x.o.example'].map(hostOf);
/** Public ones, private ones, and one private one inside another. */
export const addresses = [
  '192.0.1.1',
  '192.0.1.2',
  '10.0.0.1',
  '10.0.1.1',
  '2600::1',
  '64:ff9b::a00:1',
  '64:ff9b::c000:101',
].map(addressOf);
const patterns = [...hosts, '*.a.example', '*.b.a.example', '*.o.example'];
const blocks = [
  '192.0.1.1/32',
  '192.0.1.0/24',
  '10.0.0.0/24',
  '10.0.0.0/8',
  '2600::/16',
  '64:ff9b::/96',
  '0.0.0.0/0',
  '::/0',
];
const ranges = [
  { from: 80, to: 80 },
  { from: 443, to: 443 },
  { from: 80, to: 443 },
  { from: 400, to: 8443 },
  { from: 1, to: 65_535 },
];
export const methods = ['GET', 'POST'];
const globs = ['/a', '/a/*', '/**', '/b/**', '/*/x'];
export const paths = ['/', '/a', '/a/x', '/b', '/b/c/d', '/c', '/b/../a', '/a//x', '/%61'];
export const phases = ['install', 'locked'];

const some = <Item>(items: readonly Item[], most = 2): fc.Arbitrary<Item[]> =>
  fc.subarray([...items], { minLength: 1, maxLength: most });
const rarely = <Value>(value: fc.Arbitrary<Value>): fc.Arbitrary<Value | undefined> =>
  fc.option(value, { nil: undefined, freq: 2 });
const seldom = fc.nat(3).map((number) => number === 0);

const place = fc.oneof(
  { weight: 3, arbitrary: fc.record({ hosts: some(patterns), cidrs: fc.constant([]), private: fc.constant(false) }) },
  fc.record({ hosts: fc.constant([]), cidrs: some(blocks), private: fc.boolean() }),
);
const columns = fc.record({ methods: rarely(some(methods)), paths: rarely(some(globs)), phases: rarely(some(phases)) });
const bareRule = fc.record({
  id: fc.constant(''),
  verdict: fc.nat(3).map((number) => (number === 0 ? ('deny' as const) : ('allow' as const))),
  protocol: fc.constantFrom('https' as const, 'https' as const, 'http' as const, 'tls' as const, 'tcp' as const),
  ports: some(ranges),
  inspect: fc.constantFrom('auto' as const, 'auto' as const, 'always' as const, 'never' as const),
  noSni: seldom,
  ech: seldom,
  websocket: seldom,
});

export const anyRule: fc.Arbitrary<NetworkRule> = fc
  .tuple(bareRule, place, columns, seldom)
  .map(([rule, where, { methods: only, paths: below, phases: during }, isCounted]) => ({
    ...rule,
    ...where,
    ...(only === undefined ? {} : { methods: only }),
    ...(below === undefined ? {} : { paths: below }),
    ...(during === undefined ? {} : { phases: during }),
    ...(isCounted ? { budget: { requests: 10 } } : {}),
  }));

export const anyRules = fc
  .array(anyRule, { maxLength: 6 })
  .map((rules) => rules.map((rule, index): NetworkRule => ({ ...rule, id: `r${index}` })));

const anyNarrowing: fc.Arbitrary<NetworkNarrowing> = fc.record(
  { rules: fc.subarray(['r0', 'r1', 'r2', 'r3']), hosts: fc.subarray(patterns) },
  { requiredKeys: [] },
);

export const anyGrant: fc.Arbitrary<NetworkGrant> = fc
  .tuple(anyRules, fc.constantFrom('allow' as const, 'allow' as const, 'observe' as const), rarely(anyNarrowing))
  .map(([rules, mode, narrowing]) => ({ mode, rules, phases, ...(narrowing === undefined ? {} : { narrowing }) }));

export const anyPhase = fc.constantFrom('install', 'locked', undefined);
export const anyHost: fc.Arbitrary<Target> = fc.constantFrom(...hosts).map((host) => ({ kind: 'host', host }));
export const anyTarget: fc.Arbitrary<Target> = fc.oneof(
  { weight: 3, arbitrary: anyHost },
  fc.constantFrom(...addresses).map((address): Target => ({ kind: 'address', address })),
);

/** Mostly as a client sends it, for the host that it goes to. */
export function anyContent(target: Target, port: number): fc.Arbitrary<AttemptContent> {
  const own = target.kind === 'host' ? target.host : undefined;
  const host = fc.oneof({ weight: 6, arbitrary: fc.constant(own) }, fc.constantFrom(...hosts, undefined));
  const request: fc.Arbitrary<HttpRequest> = fc
    .record({
      host,
      port: fc.constantFrom(port, port, undefined, 81),
      method: fc.constantFrom(...methods, 'PUT', 'CONNECT'),
      path: fc.constantFrom(...paths),
      websocket: seldom,
    })
    .map(({ host: name, port: to, ...rest }) => ({
      ...rest,
      ...(name === undefined ? {} : { host: name }),
      ...(to === undefined ? {} : { port: to }),
    }));
  return fc.oneof(
    fc.constant({ protocol: 'raw' as const }),
    request.map((http) => ({ protocol: 'http' as const, request: http })),
    fc.tuple(host, seldom, fc.option(request, { nil: undefined })).map(([name, encryptedHello, opened]) => ({
      protocol: 'tls' as const,
      encryptedHello,
      ...(name === undefined ? {} : { serverName: name }),
      ...(opened === undefined ? {} : { request: opened }),
    })),
  );
}

export const anyPort = fc.constantFrom(80, 443, 8443, 9000);

/** Known whole: where it goes, and what it is. */
export const anyFullAttempt: fc.Arbitrary<Attempt> = fc
  .tuple(anyTarget, anyPort)
  .chain(([target, port]) => anyContent(target, port).map((content) => ({ target, port, content })));

export const anyAttempt: fc.Arbitrary<Attempt> = fc
  .tuple(anyFullAttempt, fc.nat(5))
  .map(([attempt, known]) => prefixesOf(attempt)[known] ?? attempt);

/** The same attempt when less of it was known. */
export function prefixesOf({ target, port, content }: Attempt): Attempt[] {
  const prefixes: Attempt[] = [{ target }];
  if (port === undefined) return prefixes;
  prefixes.push({ target, port });
  if (content?.protocol !== 'tls' || content.request === undefined) return prefixes;
  const { request: _request, ...sealed } = content;
  return [...prefixes, { target, port, content: sealed }];
}
