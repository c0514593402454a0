/** What a cgroup says, from recorded files in folders that stand for a host's hierarchies. */
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openCgroupTree } from './cgroup.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-cgroup-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

/** @param files name → text, below the folder of sandbox `one` in this hierarchy */
function record(hierarchy: string, files: Readonly<Record<string, string>>): void {
  const place = join(folder, hierarchy, 'sallyport/home/one');
  mkdirSync(place, { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(place, name), text);
}

const v2 = (): string => `34 25 0:29 / ${folder} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n`;
const v1 = (): string =>
  ['cpu', 'cpuacct', 'freezer', 'memory', 'pids']
    .map((name) => `30 25 0:26 / ${folder}/${name} rw,relatime shared:9 - cgroup cgroup rw,${name}\n`)
    .join('');

const recordedV2 = {
  'memory.current': '7340032\n',
  'memory.peak': '9437184\n',
  'memory.events': 'low 0\nhigh 0\nmax 41\noom 2\noom_kill 1\noom_group_kill 0\n',
  'pids.current': '12\n',
  'pids.events': 'max 3\n',
  'cpu.stat': 'usage_usec 2500123\nuser_usec 2000000\nsystem_usec 500123\nnr_periods 30\nnr_throttled 4\n',
  'cgroup.procs': '101\n102\n',
};

describe('usage', () => {
  it('v2: from the files of one folder', () => {
    record('', recordedV2);
    expect(openCgroupTree('home', v2()).sandbox('one').usage()).toEqual({
      memoryBytes: 7_340_032,
      memoryPeakBytes: 9_437_184,
      cpuMicros: 2_500_123,
      throttledPeriods: 4,
      pids: 12,
      pidsRefused: 3,
      oomKills: 1,
    });
  });

  it('v1: from the files of each controller, CPU time from nanoseconds', () => {
    record('memory', {
      'memory.usage_in_bytes': '4096\n',
      'memory.max_usage_in_bytes': '8192\n',
      'memory.oom_control': 'oom_kill_disable 0\nunder_oom 0\noom_kill 2\n',
    });
    record('cpuacct', { 'cpuacct.usage': '1999999\n' });
    record('cpu', { 'cpu.stat': 'nr_periods 9\nnr_throttled 5\nthrottled_time 77\n' });
    record('pids', { 'pids.current': '6\n', 'pids.events': 'max 1\n' });
    expect(openCgroupTree('home', v1()).sandbox('one').usage()).toEqual({
      memoryBytes: 4096,
      memoryPeakBytes: 8192,
      cpuMicros: 1999,
      throttledPeriods: 5,
      pids: 6,
      pidsRefused: 1,
      oomKills: 2,
    });
  });

  it('is nothing for a cgroup that is gone', () => {
    const { pids, memoryBytes, oomKills } = openCgroupTree('home', v2()).sandbox('none').usage();
    expect([pids, memoryBytes, oomKills]).toEqual([0, 0, 0]);
  });

  it('is refused on a host without the controller, by name', () => {
    const cgroup = openCgroupTree('home', `30 25 0:26 / ${folder}/cpu rw - cgroup cgroup rw,cpu\n`).sandbox('one');
    expect(() => cgroup.usage()).toThrow('this host has no memory controller');
  });
});

describe('a tree', () => {
  it('says where a hybrid host has its cgroup2, and only there', () => {
    const hybrid = openCgroupTree('home', `${v1()}41 31 0:38 / ${folder}/unified rw - cgroup2 cgroup2 rw\n`);
    expect([hybrid.mode, hybrid.unifiedMount]).toEqual(['hybrid', `${folder}/unified`]);
    expect(openCgroupTree('home', v2())).not.toHaveProperty('unifiedMount');
  });

  it('lists what any hierarchy still has, once, and its own namespace only', () => {
    record('memory', {});
    record('pids', {});
    mkdirSync(join(folder, 'pids/sallyport/home/two'));
    mkdirSync(join(folder, 'pids/sallyport/other/three'), { recursive: true });
    expect(openCgroupTree('home', v1()).list().sort()).toEqual(['one', 'two']);
  });

  it('removes its parents when they are empty, and not before', async () => {
    record('', {});
    const tree = openCgroupTree('home', v2());
    await tree.removeEmptyParents();
    expect(tree.list()).toEqual(['one']);
    await tree.sandbox('one').remove();
    await tree.removeEmptyParents();
    expect(() => rmSync(join(folder, 'sallyport'))).toThrow('ENOENT');
  });

  it('finds processes in nested folders too', () => {
    record('', recordedV2);
    mkdirSync(join(folder, 'sallyport/home/one/nested'));
    writeFileSync(join(folder, 'sallyport/home/one/nested/cgroup.procs'), '103\n');
    expect(openCgroupTree('home', v2()).sandbox('one').pids()).toEqual([101, 102, 103]);
  });
});

describe('watch on v2', () => {
  const quiet = { ...recordedV2, 'memory.events': 'oom_kill 0\n', 'pids.events': 'max 0\n' };

  it('tells each limit once, whichever file says so', async () => {
    record('', quiet);
    const told: string[] = [];
    const stop = openCgroupTree('home', v2())
      .sandbox('one')
      .watch((limit) => told.push(limit));
    writeFileSync(join(folder, 'sallyport/home/one/pids.events'), 'max 1\n');
    await expect.poll(() => told).toEqual(['pids']);
    writeFileSync(join(folder, 'sallyport/home/one/memory.events'), 'oom_kill 1\n');
    await expect.poll(() => told).toEqual(['pids', 'oom']);
    appendFileSync(join(folder, 'sallyport/home/one/pids.events'), '\n');
    stop();
    expect(told).toHaveLength(2);
  });

  it('tells what was met before it began', async () => {
    record('', recordedV2);
    const told: string[] = [];
    const stop = openCgroupTree('home', v2())
      .sandbox('one')
      .watch((limit) => told.push(limit));
    expect(told).toEqual([]);
    await expect.poll(() => told).toEqual(['oom', 'pids']);
    stop();
  });

  it('of a cgroup that is not there is refused', () => {
    const cgroup = openCgroupTree('home', v2()).sandbox('none');
    expect(() => cgroup.watch(() => undefined)).toThrow('ENOENT');
  });
});
