/**
 * B1, TTI: from the create call to the read output of `node -v`, through the HTTP API, no pool; floor: a bare runtime that
 * runs `node -v` with the configuration of a live sandbox on a root mounted beforehand. Interleaved, untrimmed.
 */
import { spawnSync } from 'node:child_process';
import { BareRuntime } from './lib/bare.ts';
import { type Daemon, startDaemon } from './lib/daemon.ts';
import { report } from './lib/report.ts';
import { round, summarize } from './lib/statistics.ts';

export async function tti(n: number): Promise<void> {
  const daemon = await startDaemon();
  try {
    const bare = { crun: await BareRuntime.open(daemon.api, 'crun'), runc: await BareRuntime.open(daemon.api, 'runc') };
    const samples: Record<string, number[]> = {
      container: [],
      process: [],
      'bare crun run': [],
      'bare runc run': [],
      podman: [],
    };
    const hasPodman = podman(bare.crun.image) !== undefined;
    try {
      for (let round = 0; round < n; round++) {
        samples['container']?.push(await viaApi(daemon, 'container'));
        samples['bare crun run']?.push(bare.crun.run());
        samples['process']?.push(await viaApi(daemon, 'process'));
        samples['bare runc run']?.push(bare.runc.run());
        const peer = hasPodman ? podman(bare.crun.image) : undefined;
        if (peer !== undefined) samples['podman']?.push(peer);
      }
    } finally {
      await bare.crun.close();
      await bare.runc.close();
    }
    const bursts = { 10: await burst(daemon, 10), 50: await burst(daemon, 50) };
    const summaries = Object.fromEntries(
      Object.entries(samples)
        .filter(([, list]) => list.length > 0)
        .map(([name, list]) => [name, summarize(list)]),
    );
    const ratio = round((summaries['container']?.p50 ?? Number.NaN) / (summaries['bare crun run']?.p50 ?? Number.NaN));
    report({
      name: 'tti',
      method: `POST /v1/sandboxes, then exec "node -v" read back (process tier: the host's node); ${n} interleaved rounds, created boxes destroyed outside the clock; bursts: all at once, container`,
      summary: {
        ...summaries,
        'container ÷ bare crun (p50)': ratio,
        'burst 10': summarize(bursts[10]),
        'burst 50': summarize(bursts[50]),
        ...(hasPodman ? {} : { podman: 'not measured: it is not installed or does not start here' }),
      },
      raw: { ...samples, burst10: bursts[10], burst50: bursts[50] },
    });
  } finally {
    await daemon.stop();
  }
}

async function viaApi({ api }: Daemon, tier: string): Promise<number> {
  const began = performance.now();
  const id = await api.create({ class: 'analysis', tier, limits: { pids: 64 } });
  const { stdout, result } = await api.exec(id, ['node', '-v']);
  const took = performance.now() - began;
  if (result.exitCode !== 0 || !stdout.text?.startsWith('v'))
    throw new Error(`node -v answered ${JSON.stringify(stdout)}`);
  await api.destroy(id);
  return took;
}

async function burst(daemon: Daemon, count: number): Promise<number[]> {
  return Promise.all(Array.from({ length: count }, () => viaApi(daemon, 'container')));
}

/**
 * The peer's own way to run the same image without a network, on runc: its crun refuses this kind of host (cgroup hybrid). The
 * ulimits are those that a host without CAP_SYS_RESOURCE can give. @returns undefined when it cannot
 */
function podman(image: string): number | undefined {
  const began = performance.now();
  const limits = ['--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=1000:1000'];
  const command = [
    '--runtime',
    'runc',
    'run',
    '--rm',
    '--network=none',
    ...limits,
    '--rootfs',
    `${image}:O`,
    'node',
    '-v',
  ];
  const { status } = spawnSync('podman', command, { timeout: 60_000 });
  return status === 0 ? performance.now() - began : undefined;
}
