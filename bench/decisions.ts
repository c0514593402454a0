/** What a decision about an attempt costs with 1,000 rules, in microseconds: names, connections, requests, addresses, denials. */
import { report } from './lib/report.ts';
import { round, summarize } from './lib/statistics.ts';

/** What is measured is what is shipped: the built modules, known here by as much as is asked of them. */
interface Decisions {
  readonly compileRules: (grant: object) => object;
  readonly decide: (rules: object, phase: string, attempt: object) => { readonly verdict: 'allow' | 'deny' };
  readonly parseHostName: (text: string) => string | undefined;
  readonly parseIpAddress: (text: string) => object | undefined;
}

const ruleCount = 1_000;
/** So many samples of each kind are kept in the raw result. */
const keptSamples = 500;

export async function decisions(count: number): Promise<void> {
  const built = await builtModules();
  const began = performance.now();
  const rules = built.compileRules({ mode: 'allow', rules: manyRules(), phases: ['install', 'locked'] });
  const compileMs = round(performance.now() - began);
  const attempts = manyAttempts(built);
  for (const { kind, attempt, verdict } of attempts) {
    if (built.decide(rules, 'locked', attempt).verdict !== verdict) throw new Error(`${kind}: not ${verdict}`);
  }
  const ask = (attempt: object): number => {
    const start = process.hrtime.bigint();
    built.decide(rules, 'locked', attempt);
    return Number(process.hrtime.bigint() - start) / 1000;
  };
  for (let warm = 0; warm < 20_000; warm++) for (const { attempt } of attempts) ask(attempt);
  const samples = new Map(attempts.map(({ kind }) => [kind, [] as number[]]));
  for (let taken = 0; taken < count; taken++) {
    for (const { kind, attempt } of attempts) samples.get(kind)?.push(ask(attempt));
  }
  const all = [...samples.values()].flat();
  const clock = summarize(Array.from({ length: count }, () => clockCost()));
  report({
    name: 'decisions',
    method: `decide() with ${ruleCount} rules (exact hosts, wildcards, blocks, denials, methods and paths) in microseconds; each kind asked ${count} times in turn, each call timed alone, the clock's own cost included`,
    summary: {
      'all kinds, µs': summarize(all),
      ...Object.fromEntries([...samples].map(([kind, times]) => [`${kind}, µs`, summarize(times)])),
      'the clock alone, µs': clock,
      'compiling the rules, ms': compileMs,
    },
    raw: Object.fromEntries([...samples].map(([kind, times]) => [kind, times.slice(0, keptSamples).map(round)])),
  });
}

async function builtModules(): Promise<Decisions> {
  const names = ['egress/rules/compile.js', 'egress/rules/decide.js', 'network/host-name.js', 'network/ip-address.js'];
  const urls = names.map((name) => new URL(`../../dist/${name}`, import.meta.url).href);
  return Object.assign({}, ...(await Promise.all(urls.map((url) => import(url))))) as Decisions;
}

function clockCost(): number {
  const start = process.hrtime.bigint();
  return Number(process.hrtime.bigint() - start) / 1000;
}

function manyRules(): object[] {
  return Array.from({ length: ruleCount }, (_, index) => ({ ...plain, id: `rule-${index}`, ...keysOf(index) }));
}

const plain = {
  verdict: 'allow',
  hosts: [],
  cidrs: [],
  private: false,
  protocol: 'https',
  ports: [{ from: 443, to: 443 }],
  inspect: 'auto',
  noSni: false,
  ech: false,
  websocket: false,
};

function keysOf(index: number): object {
  const name = `service-${index}.team-${index % 40}.example`;
  const block = `192.${index % 200 === 0 ? 1 : index % 200}.${index % 250}.0/${24 + (index % 4)}`;
  const kinds: readonly object[] = [
    { hosts: [name] },
    {
      hosts: [name, `mirror.${name}`],
      ports: [
        { from: 443, to: 443 },
        { from: 8000, to: 8099 },
      ],
    },
    { hosts: [`*.${name}`] },
    { hosts: [`*.team-${index % 40}.example`], methods: ['GET', 'HEAD'], phases: ['locked'] },
    { hosts: [name], methods: ['GET'], paths: ['/api/*/items/**', '/health', '/static/*.js'] },
    { hosts: [name], phases: ['install'] },
    { cidrs: [block], protocol: 'tcp', ports: [{ from: 5432, to: 5432 }] },
    { cidrs: [`10.${index % 250}.0.0/16`], private: true, protocol: 'tcp', ports: [{ from: 1, to: 65_535 }] },
    { hosts: [`*.bad-${index}.example`], verdict: 'deny', protocol: 'tcp', ports: [{ from: 1, to: 65_535 }] },
    { hosts: [name], verdict: 'deny', protocol: 'tcp', ports: [{ from: 22, to: 22 }] },
  ];
  return kinds[index % kinds.length] ?? {};
}

interface Question {
  readonly kind: string;
  readonly verdict: 'allow' | 'deny';
  readonly attempt: object;
}

function manyAttempts({ parseHostName, parseIpAddress }: Decisions): Question[] {
  const toHost = (text: string) => ({ target: { kind: 'host', host: parseHostName(text) } });
  const toAddress = (text: string) => ({ target: { kind: 'address', address: parseIpAddress(text) } });
  const tls = (text: string, path?: string): object => {
    const host = parseHostName(text);
    const request = path === undefined ? {} : { request: { host, method: 'GET', path, websocket: false } };
    return {
      ...toHost(text),
      port: 443,
      content: { protocol: 'tls', serverName: host, encryptedHello: false, ...request },
    };
  };
  const content = { protocol: 'raw' };
  return [
    { kind: 'name, allowed', verdict: 'allow', attempt: toHost('service-500.team-20.example') },
    { kind: 'name, no rule', verdict: 'deny', attempt: toHost('a.very.long.name.of.an.unknown.host.example') },
    { kind: 'TLS, exact host', verdict: 'allow', attempt: tls('service-500.team-20.example') },
    { kind: 'TLS, wildcard', verdict: 'allow', attempt: tls('x.y.service-2.team-2.example') },
    { kind: 'TLS, denied below a wildcard', verdict: 'deny', attempt: tls('x.bad-8.example') },
    {
      kind: 'request, three globs',
      verdict: 'allow',
      attempt: tls('service-4.team-4.example', '/api/v1/items/17/parts'),
    },
    { kind: 'request, path denied', verdict: 'deny', attempt: tls('service-4.team-4.example', '/admin/users') },
    { kind: 'address, allowed', verdict: 'allow', attempt: { ...toAddress('192.6.6.1'), port: 5432, content } },
    { kind: 'address, private', verdict: 'allow', attempt: { ...toAddress('10.7.1.1'), port: 6379, content } },
    { kind: 'address, no rule', verdict: 'deny', attempt: { ...toAddress('2600:1f18::1'), port: 443 } },
  ];
}
