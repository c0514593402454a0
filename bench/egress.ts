/**
 * B6: what the way out costs. One HTTPS upstream, one client program: on the host directly, on the host through a bare Node splice, in
 * a sandbox through the trap with its server name checked, and in a sandbox with its TLS opened. Interleaved.
 */
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { type Daemon, startDaemon } from './lib/daemon.ts';
import { benchHost, clientText, type Parts, startParts } from './lib/egress-parts.ts';
import { report } from './lib/report.ts';
import { round, summarize } from './lib/statistics.ts';

const downloadBytes = 1_000_000_000;
const downloads = 5;
const held = 500;
const ways = ['direct', 'splice', 'sealed', 'opened'] as const;
type Way = (typeof ways)[number];
type Ask = (way: Way, mode: string, count: number) => Promise<string>;

export async function egress(n: number): Promise<void> {
  const parts = await startParts();
  const policy = join(parts.folder, 'policy.yaml');
  writeFileSync(policy, policyOf(parts));
  const options = ['--policy', policy, '--resolver', parts.resolver, '--upstream-ca', join(parts.folder, 'ca.pem')];
  const daemon = await startDaemon(options);
  try {
    const id = await daemon.api.create({ class: 'bench' });
    await measure(n, daemon, id, askerOf(daemon, parts, id));
    await daemon.api.destroy(id);
  } finally {
    await daemon.stop();
    parts.close();
  }
}

async function measure(n: number, daemon: Daemon, id: string, ask: Ask): Promise<void> {
  // first, while the daemon has grown for no other reason
  const memory = await memoryOfFlows(daemon, id, ask);
  const requests = await interleaved(5, async (way) => JSON.parse(await ask(way, 'requests', n / 5)) as number[]);
  const connections = await interleaved(
    5,
    async (way) => JSON.parse(await ask(way, 'connections', n / 25)) as number[],
  );
  const rates = await interleaved(downloads, async (way) => {
    const { ms } = JSON.parse(await ask(way, 'download', downloadBytes)) as { ms: number };
    return [downloadBytes / 1e6 / (ms / 1000)];
  });
  const p50 = (way: Way): number => summarize(requests[way]).p50;
  const middle = (way: Way): number => summarize(rates[way]).p50;
  report({
    name: 'egress',
    method: `an HTTPS client and an HTTPS upstream, both Node: direct over loopback, through a bare Node splice, from a sandbox (process tier) with its server name checked, from a sandbox with TLS opened; ${n} requests on one connection, ${n / 5} connections with a request each, ${downloads} downloads of 1 GB, in turn; ${held} connections held`,
    summary: {
      'request, ms': each(requests, summarize),
      'requests a second': each(requests, (samples) =>
        round(1000 / (samples.reduce((a, b) => a + b, 0) / samples.length)),
      ),
      'connection and request, ms': each(connections, summarize),
      'MB/s': each(rates, (values) => values.map(round)),
      'sealed: added p50 over direct, ms': round(p50('sealed') - p50('direct')),
      'opened ÷ sealed (p50)': round(p50('opened') / p50('sealed')),
      'sealed ÷ splice (MB/s, p50 of each)': round(middle('sealed') / middle('splice')),
      'opened ÷ splice (MB/s, p50 of each)': round(middle('opened') / middle('splice')),
      ...memory,
    },
    raw: { requests, connections, rates, memory },
  });
}

async function interleaved(rounds: number, run: (way: Way) => Promise<number[]>): Promise<Record<Way, number[]>> {
  const samples: Record<Way, number[]> = { direct: [], splice: [], sealed: [], opened: [] };
  for (let index = 0; index < rounds; index++) for (const way of ways) samples[way].push(...(await run(way)));
  return samples;
}

function each<T>(samples: Record<Way, number[]>, show: (values: number[]) => T): Record<Way, T> {
  return Object.fromEntries(ways.map((way) => [way, show(samples[way])])) as Record<Way, T>;
}

async function memoryOfFlows(daemon: Daemon, id: string, ask: Ask): Promise<Record<string, unknown>> {
  const before = rssMib(daemon.pid);
  await ask('sealed', 'hold', held);
  for (let waited = 0; waited < 60 && (await openFlows(daemon, id)) < held; waited++) await sleep(250);
  const flows = await openFlows(daemon, id);
  const during = rssMib(daemon.pid);
  return { 'flows open': flows, 'daemon RSS growth with them, MiB': round(during - before) };
}

async function openFlows({ api }: Daemon, id: string): Promise<number> {
  return (await api.call<{ connections: number }>('GET', `/v1/sandboxes/${id}/egress?after=1000000000`)).connections;
}

function askerOf({ api }: Daemon, { ports, splicePort }: Parts, id: string): Ask {
  const [sealed, opened] = ports;
  return async (way, mode, count) => {
    if (way === 'direct' || way === 'splice') {
      const port = way === 'direct' ? sealed : splicePort;
      const args = ['-e', clientText, '127.0.0.1', String(port), mode, String(count), String(sealed)];
      return (await promisify(execFile)(process.execPath, args, { maxBuffer: 64e6 })).stdout;
    }
    const port = String(way === 'sealed' ? sealed : opened);
    const argv = ['node', '-e', clientText, benchHost, port, mode, String(count), port];
    if (mode === 'hold') return api.call('POST', `/v1/sandboxes/${id}/exec`, { argv, background: true });
    const answer = await api.exec(id, argv);
    if (answer.result.exitCode !== 0) throw new Error(`${way} ${mode} ended with ${JSON.stringify(answer)}`);
    return answer.stdout.text ?? '';
  };
}

function policyOf({ ports: [sealed, opened] }: Parts): string {
  return `version: 1
classes:
  bench:
    isolation: { tier: process, atLeast: process, root: false }
    image: { default: host, allow: [] }
    files: { workdir: /home/user, inputBytes: 1MiB, inputFiles: 10 }
    network:
      mode: allow
      rules:
        - { id: sealed, hosts: [${benchHost}], ports: [${sealed}] }
        - { id: opened, hosts: [${benchHost}], ports: [${opened}], inspect: always }
        - { id: loopback, cidrs: [127.0.0.0/8], private: true, ports: [${sealed}, ${opened}] }
    packages: none
    secrets: none
    limits: { cpuShares: 1024, cpuMillis: 2000, memory: 1GiB, pids: 128, openFiles: 4096, disk: 16MiB, inodes: 1000, exec: 10m, output: 64MiB }
    env: { set: { PATH: "/usr/local/bin:/usr/bin:/bin", HOME: /home/user }, allow: [] }
    artifacts: { bytes: 1MiB, files: 10 }
    tools: []
    lifetime: { wall: 30m, idle: 10m }
`;
}

function rssMib(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? Number.NaN) / 1024;
}
