/** B11: create and destroy many times, a tenth killed in the middle of the creation; then `kill -9` of the daemon; then count what is left. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { home, startDaemon } from './lib/daemon.ts';
import { report } from './lib/report.ts';
import { round, summarize } from './lib/statistics.ts';

export async function churn(count: number): Promise<void> {
  const before = inventory();
  const samples: number[] = [];
  const rss: number[] = [];
  const daemon = await startDaemon();
  for (let index = 0; index < count; index++) {
    const began = performance.now();
    const id = await daemon.api.create({ class: 'analysis', limits: { pids: 64 } });
    await daemon.api.destroy(id);
    samples.push(performance.now() - began);
    if (index % 50 === 0) rss.push(rssMib(daemon.pid));
  }
  const fds = readdirSync(`/proc/${daemon.pid}/fd`).length;
  const half = await Promise.allSettled(
    Array.from({ length: 10 }, () => daemon.api.create({ class: 'analysis', limits: { pids: 64 } })),
  );
  const pending = Promise.allSettled(
    Array.from({ length: 4 }, () => daemon.api.create({ class: 'analysis', limits: { pids: 64 } })),
  );
  await sleep(15);
  daemon.child.kill('SIGKILL');
  await pending;
  const next = await startDaemon();
  await sleep(1_000);
  await next.stop();
  await sleep(1_000);
  const after = inventory();
  const left = Object.fromEntries(Object.entries(after).map(([name, value]) => [name, value - (before[name] ?? 0)]));
  report({
    name: 'churn',
    method: `${count} × create and destroy through the API; then kill -9 of the daemon with ${half.length} living sandboxes and 4 half made; then one start and stop; counted before and after`,
    summary: {
      'create + destroy': summarize(samples),
      'left behind': left,
      'daemon fds at the end': fds,
      'daemon RSS, MiB': rss.map(round),
    },
    raw: { samples, rss, before, after },
  });
  if (Object.values(left).some((value) => value > 0))
    throw new Error(`churn left something behind: ${JSON.stringify(left)}`);
}

function inventory(): Record<string, number> {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  // a zombie has ended: its parent, the host's PID 1, has not looked yet
  const programs = pids
    .filter((pid) => !text(`/proc/${pid}/stat`).includes(') Z '))
    .map((pid) => text(`/proc/${pid}/comm`).trim());
  return {
    processes: programs.filter((name) => /^(init|sallyport-init|sallyport-exec|launch|crun|runc)$/.test(name)).length,
    mounts: text('/proc/self/mountinfo').split('\n').length,
    cgroups: folders('/sys/fs/cgroup').reduce(
      (sum, hierarchy) => sum + depthFirst(join('/sys/fs/cgroup', hierarchy, 'sallyport')),
      0,
    ),
    'network namespaces': new Set(pids.map(namespace).filter((name) => name !== '')).size,
    'box folders': folders(join(home, 'run/boxes')).length,
    'uid ranges': folders('/run/sallyport/uids').length,
  };
}

function namespace(pid: string): string {
  try {
    return readlinkSync(`/proc/${pid}/ns/net`);
  } catch {
    return '';
  }
}

function depthFirst(folder: string): number {
  return folders(folder)
    .filter((name) => !name.includes('.') && !['tasks', 'notify_on_release', 'release_agent'].includes(name))
    .reduce((sum, name) => sum + 1 + depthFirst(join(folder, name)), 0);
}

function folders(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function text(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function rssMib(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(text(`/proc/${pid}/status`))?.[1] ?? Number.NaN) / 1024;
}
