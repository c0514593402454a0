/** The cgroups of this host, for real: a process in one, its counters, its limits, its end. Needs root. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openCgroupTree } from './cgroup.ts';
import { parseCgroupMounts } from './cgroup-mounts.ts';
import type { Cgroup } from './types.ts';

const mounts = parseCgroupMounts(readFileSync('/proc/self/mountinfo', 'utf8'));
const roots = mounts.mode === 'v2' ? [mounts.v2 ?? ''] : [...new Set(mounts.v1.values())];
const namespace = `test-${process.pid}`;
const tree = openCgroupTree(namespace);

let cgroup: Cgroup;
let children: ChildProcess[];

/** What the OCI runtime does before it starts PID 1. */
function make(limits: { readonly memoryBytes?: number; readonly pids?: number }): void {
  const isV2 = mounts.mode === 'v2';
  for (const root of roots) {
    if (isV2) for (const parent of ['', 'sallyport', `sallyport/${namespace}`]) enableControllers(join(root, parent));
    const folder = join(root, cgroup.ociPath);
    mkdirSync(folder, { recursive: true });
    for (const name of ['cpuset.cpus', 'cpuset.mems']) copyFromParent(folder, name);
  }
  const file = (controller: string, name: string): string =>
    join(isV2 ? (mounts.v2 ?? '') : (mounts.v1.get(controller) ?? ''), cgroup.ociPath, name);
  if (limits.memoryBytes !== undefined)
    writeFileSync(file('memory', isV2 ? 'memory.max' : 'memory.limit_in_bytes'), String(limits.memoryBytes));
  if (limits.pids !== undefined) writeFileSync(file('pids', 'pids.max'), String(limits.pids));
}

function enableControllers(folder: string): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'cgroup.subtree_control'), '+memory +pids +cpu');
}

/** A fresh cpuset of v1 is empty and takes no process: each level gets what its parent has. */
function copyFromParent(folder: string, name: string): void {
  const root = mounts.v1.get('cpuset');
  if (root === undefined || !folder.startsWith(`${root}/`)) return;
  const levels = folder.slice(root.length + 1).split('/');
  levels.reduce((parent, level) => {
    const child = join(parent, level);
    writeFileSync(join(child, name), readFileSync(join(parent, name), 'utf8'));
    return child;
  }, root);
}

/** A shell that joins the cgroup before it does anything. */
function runIn(script: string): ChildProcess {
  const join = roots.map((root) => `echo $$ > ${root}${cgroup.ociPath}/cgroup.procs`).join('; ');
  const child = spawn('sh', ['-c', `${join}; ${script}`], { stdio: 'ignore' });
  children.push(child);
  return child;
}

beforeEach(() => {
  cgroup = tree.sandbox('one');
  children = [];
});

afterEach(async () => {
  await cgroup.kill(5_000);
  await cgroup.remove();
  await tree.removeEmptyParents();
});

describe('a cgroup', () => {
  it('is listed, counts its processes, and is gone after kill and remove', async () => {
    make({ pids: 50 });
    runIn('sleep 60 & sleep 60');
    await expect.poll(() => cgroup.pids().length).toBeGreaterThanOrEqual(2);
    expect(tree.list()).toEqual(['one']);
    expect(cgroup.usage()).toMatchObject({ pidsRefused: 0, oomKills: 0 });
    expect(cgroup.usage().pids).toBeGreaterThanOrEqual(2);
    await cgroup.kill(5_000);
    expect(cgroup.pids()).toEqual([]);
    await cgroup.remove();
    expect(tree.list()).toEqual([]);
    for (const root of roots) expect(readdirSync(root)).not.toContain(namespace);
  });

  it('tells of an OOM kill', async () => {
    make({ memoryBytes: 32 << 20 });
    const told: string[] = [];
    const stop = cgroup.watch((limit) => told.push(limit));
    runIn('tail /dev/zero');
    await expect.poll(() => told, { timeout: 10_000 }).toContain('oom');
    stop();
    expect(cgroup.usage().oomKills).toBeGreaterThan(0);
  });

  it('tells of a refused fork', async () => {
    make({ pids: 4 });
    const told: string[] = [];
    const stop = cgroup.watch((limit) => told.push(limit));
    runIn('for i in 1 2 3 4 5 6; do sleep 30 & done; wait');
    await expect.poll(() => told, { timeout: 10_000 }).toEqual(['pids']);
    stop();
  });

  it('stops while frozen, goes on when thawed, and is killed also when frozen', async () => {
    make({});
    const child = runIn('while :; do :; done');
    await expect.poll(() => cgroup.usage().cpuMicros).toBeGreaterThan(20_000);
    await cgroup.freeze();
    const frozen = cgroup.usage().cpuMicros;
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(cgroup.usage().cpuMicros - frozen).toBeLessThan(1_000);
    await cgroup.thaw();
    const thawed = cgroup.usage().cpuMicros;
    await expect.poll(() => cgroup.usage().cpuMicros - thawed).toBeGreaterThan(20_000);
    await cgroup.freeze();
    await cgroup.kill(5_000);
    await expect.poll(() => child.signalCode).toBe('SIGKILL');
  });

  it('is emptied while its processes fork as fast as they can', async () => {
    make({ pids: 200 });
    runIn('f() { f & f & wait; }; f');
    await expect.poll(() => cgroup.pids().length, { timeout: 10_000 }).toBeGreaterThan(20);
    await cgroup.kill(10_000);
    expect(cgroup.pids()).toEqual([]);
  });

  it('that was never made is empty, and removing it is no error', async () => {
    expect(cgroup.pids()).toEqual([]);
    await cgroup.kill(100);
    await cgroup.remove();
  });
});

describe.skipIf(mounts.v2 === undefined)('a cgroup of cgroup2, also where it hangs beside v1', () => {
  const line = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .find((one) => one.includes(' - cgroup2 '));
  const unified = openCgroupTree(`${namespace}-v2`, line ?? '');

  it('stands still while frozen, and cgroup.kill ends it, those that fork and the nested too', async () => {
    const one = unified.sandbox('one');
    const nested = join(mounts.v2 ?? '', one.ociPath, 'nested');
    mkdirSync(nested, { recursive: true });
    const forks = 'while :; do sleep 0.01; done';
    const child = spawn('sh', ['-c', `echo $$ > ${nested}/cgroup.procs; (${forks}) & (${forks}) & ${forks}`], {
      stdio: 'ignore',
    });
    try {
      await expect.poll(() => one.pids().length).toBeGreaterThan(3);
      await one.freeze();
      const frozen = one.pids();
      await new Promise((resolve) => setTimeout(resolve, 50));
      expect(one.pids()).toEqual(frozen);
    } finally {
      await one.kill(5_000);
    }
    await expect.poll(() => child.signalCode).toBe('SIGKILL');
    expect(one.pids()).toEqual([]);
    await one.remove();
    await unified.removeEmptyParents();
    expect(unified.list()).toEqual([]);
  });
});
