/**
 * The cgroups of our sandboxes, on v1, v2 and hybrid hosts behind one interface. The OCI runtime creates them and sets the
 * limits; this reads, watches, kills and removes. Kernel: Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst.
 */
import { closeSync, openSync, readdirSync, readFileSync, rmdirSync, watch, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { SallyportError } from '../errors/error.ts';
import { addon } from './addon.ts';
import { type CgroupMounts, parseCgroupMounts } from './cgroup-mounts.ts';
import { whenReadable } from './readiness.ts';
import type { Cgroup, CgroupTree, CgroupUsage } from './types.ts';

const parent = 'sallyport';
const pidsLookMs = 100;
const freezeDeadlineMs = 5_000;
const oomLooksMs = [0, 5, 20, 100, 500, 2_000];
const removeTries = 100;

/**
 * @param namespace one folder name that keeps the sandboxes of one home apart
 * @param mountinfo the text of /proc/self/mountinfo, for tests of hosts unlike this one
 */
export function openCgroupTree(
  namespace: string,
  mountinfo = readFileSync('/proc/self/mountinfo', 'utf8'),
): CgroupTree {
  const mounts = parseCgroupMounts(mountinfo);
  const roots = [...new Set([...mounts.v1.values(), ...(mounts.v2 === undefined ? [] : [mounts.v2])])];
  return {
    mode: mounts.mode,
    ...(mounts.mode === 'hybrid' && mounts.v2 !== undefined ? { unifiedMount: mounts.v2 } : {}),
    hasSwapLimit: mounts.mode === 'v2' || hasMemoryFile(mounts, 'memory.memsw.limit_in_bytes'),
    hasSocketLimit: hasMemoryFile(mounts, 'memory.kmem.tcp.limit_in_bytes'),
    sandbox: (id) => new SandboxCgroup(mounts, roots, `/${parent}/${namespace}/${id}`),
    list: () => [...new Set(roots.flatMap((root) => foldersIn(join(root, parent, namespace))))],
    removeEmptyParents: async () => {
      for (const root of roots)
        for (const path of [join(root, parent, namespace), join(root, parent)]) removeIfEmpty(path);
    },
  };
}

class SandboxCgroup implements Cgroup {
  readonly ociPath: string;
  readonly #mounts: CgroupMounts;
  readonly #roots: readonly string[];

  constructor(mounts: CgroupMounts, roots: readonly string[], ociPath: string) {
    this.#mounts = mounts;
    this.#roots = roots;
    this.ociPath = ociPath;
  }

  usage(): CgroupUsage {
    return this.#isV2() ? this.#usageV2() : this.#usageV1();
  }

  watch(onLimit: (limit: 'oom' | 'pids') => void): () => void {
    const told = new Set<string>();
    const look = (): void => {
      for (const [limit, count] of [
        ['oom', this.#oomKills()],
        ['pids', this.#pidsRefused()],
      ] as const) {
        if (count === 0 || told.has(limit)) continue;
        told.add(limit);
        onLimit(limit);
      }
    };
    const stops: (() => void)[] = [];
    const stop = (): void => {
      for (const one of stops.splice(0)) one();
    };
    try {
      stops.push(this.#watchOom(look));
      stops.push(this.#watchPids(look));
    } catch (error) {
      stop();
      throw error;
    }
    // a limit that was met before the watch began notifies nobody any more
    const first = setImmediate(look);
    stops.push(() => clearImmediate(first));
    return stop;
  }

  async freeze(): Promise<void> {
    const until = performance.now() + freezeDeadlineMs;
    while (!this.#freezeOnce()) {
      if (performance.now() > until) {
        await this.thaw();
        const seconds = freezeDeadlineMs / 1000;
        throw new SallyportError('deadline', `Cannot freeze ${this.ociPath}: not all stand still after ${seconds} s`);
      }
      await sleep(2);
    }
  }

  async thaw(): Promise<void> {
    if (this.#isV2()) writeFileSync(this.#file('pids', 'cgroup.freeze'), '0');
    else writeFileSync(this.#file('freezer', 'freezer.state'), 'THAWED');
  }

  pids(): number[] {
    return pidsBelow(this.#folder('pids'));
  }

  async kill(deadlineMs: number): Promise<void> {
    const until = performance.now() + deadlineMs;
    while (this.#killOnce()) {
      if (performance.now() > until)
        throw new SallyportError(
          'deadline',
          `Cannot end the processes of ${this.ociPath}: still there after ${deadlineMs} ms`,
        );
      await sleep(2);
    }
  }

  async remove(): Promise<void> {
    for (const root of this.#roots) await removeTree(join(root, this.ociPath));
  }

  /**
   * The kernel freezes in the background. v1 asks for the order to be given again while it says FREEZING
   * (freezer-subsystem.rst). @returns true when every process stands still
   */
  #freezeOnce(): boolean {
    if (this.#isV2()) {
      writeFileSync(this.#file('pids', 'cgroup.freeze'), '1');
      return readKey(this.#file('pids', 'cgroup.events'), 'frozen') === 1;
    }
    writeFileSync(this.#file('freezer', 'freezer.state'), 'FROZEN');
    return readText(this.#file('freezer', 'freezer.state')) === 'FROZEN';
  }

  /** @returns true while something is left */
  #killOnce(): boolean {
    const pids = this.pids();
    if (pids.length === 0) return false;
    // Linux 5.14: one write ends all, those that fork meanwhile too
    if (this.#isV2() && tryWrite(this.#file('pids', 'cgroup.kill'), '1')) return true;
    // a frozen process does not die before it is thawed
    if (!this.#isV2() && readText(this.#file('freezer', 'freezer.state')) !== 'THAWED')
      tryWrite(this.#file('freezer', 'freezer.state'), 'THAWED');
    for (const pid of pids) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    }
    return true;
  }

  #usageV1(): CgroupUsage {
    return {
      memoryBytes: readNumber(this.#file('memory', 'memory.usage_in_bytes')),
      memoryPeakBytes: readNumber(this.#file('memory', 'memory.max_usage_in_bytes')),
      cpuMicros: Math.floor(readNumber(this.#file('cpuacct', 'cpuacct.usage')) / 1000),
      throttledPeriods: readKey(this.#file('cpu', 'cpu.stat'), 'nr_throttled'),
      pids: readNumber(this.#file('pids', 'pids.current')),
      pidsRefused: this.#pidsRefused(),
      oomKills: this.#oomKills(),
    };
  }

  #usageV2(): CgroupUsage {
    const stat = this.#file('cpu', 'cpu.stat');
    return {
      memoryBytes: readNumber(this.#file('memory', 'memory.current')),
      memoryPeakBytes: readNumber(this.#file('memory', 'memory.peak')),
      cpuMicros: readKey(stat, 'usage_usec'),
      throttledPeriods: readKey(stat, 'nr_throttled'),
      pids: readNumber(this.#file('pids', 'pids.current')),
      pidsRefused: this.#pidsRefused(),
      oomKills: this.#oomKills(),
    };
  }

  #oomKills(): number {
    return readKey(this.#file('memory', this.#isV2() ? 'memory.events' : 'memory.oom_control'), 'oom_kill');
  }

  #pidsRefused(): number {
    return readKey(this.#file('pids', 'pids.events'), 'max');
  }

  #watchPids(look: () => void): () => void {
    if (this.#isV2()) return watchFile(this.#file('pids', 'pids.events'), look);
    // cgroup v1 counts refused forks but tells nobody: the file has to be read
    const timer = setInterval(look, pidsLookMs).unref();
    return () => clearInterval(timer);
  }

  #watchOom(look: () => void): () => void {
    if (this.#isV2()) return watchFile(this.#file('memory', 'memory.events'), look);
    return watchOomEvent(
      this.#file('memory', 'memory.oom_control'),
      this.#file('memory', 'cgroup.event_control'),
      look,
    );
  }

  #isV2(): boolean {
    return this.#mounts.mode === 'v2';
  }

  #folder(controller: string): string {
    const root = this.#isV2() ? this.#mounts.v2 : this.#mounts.v1.get(controller);
    if (root === undefined)
      throw new SallyportError('start_failed', `Cannot use cgroups: this host has no ${controller} controller`);
    return join(root, this.ociPath);
  }

  #file(controller: string, name: string): string {
    return join(this.#folder(controller), name);
  }
}

/** The kernel notifies these files on every change (kernfs_notify, seen as inotify MODIFY). */
function watchFile(file: string, look: () => void): () => void {
  const watcher = watch(file, { persistent: false }, look);
  watcher.on('error', () => watcher.close());
  return () => watcher.close();
}

/** cgroup v1 tells an eventfd of an OOM (memory.rst, "OOM Control"). The kill and its count follow the event by a moment. */
function watchOomEvent(oomControl: string, eventControl: string, look: () => void): () => void {
  const timers: NodeJS.Timeout[] = [];
  const control = openSync(oomControl, 'r');
  const event = addon().eventfd();
  try {
    writeFileSync(eventControl, `${event} ${control}`);
  } catch (error) {
    closeSync(event);
    throw error;
  } finally {
    closeSync(control);
  }
  const stop = whenReadable(event, () => {
    for (const delayMs of oomLooksMs) timers.push(setTimeout(look, delayMs).unref());
  });
  return () => {
    stop();
    for (const timer of timers) clearTimeout(timer);
    closeSync(event);
  };
}

function hasMemoryFile(mounts: CgroupMounts, name: string): boolean {
  const root = mounts.v1.get('memory');
  return root !== undefined && readText(join(root, name)) !== '';
}

function pidsBelow(folder: string): number[] {
  const own = readText(join(folder, 'cgroup.procs'))
    .split('\n')
    .filter((line) => line !== '' && line !== '0')
    .map(Number);
  return [...own, ...foldersIn(folder).flatMap((name) => pidsBelow(join(folder, name)))];
}

/** The kernel gives a cgroup free some milliseconds after its last process (EBUSY until then). */
async function removeTree(folder: string): Promise<void> {
  for (const name of foldersIn(folder)) await removeTree(join(folder, name));
  for (let attempt = 0; !removeIfEmpty(folder); attempt++) {
    if (attempt >= removeTries)
      throw new SallyportError('deadline', `Cannot remove the cgroup ${folder}: it stays busy`);
    await sleep(10);
  }
}

/** @returns false when it is in use */
function removeIfEmpty(folder: string): boolean {
  try {
    rmdirSync(folder);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return true;
    if (code === 'EBUSY' || code === 'ENOTEMPTY') return false;
    throw error;
  }
}

function foldersIn(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => entry.name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** '' where the file is not there (a cgroup that is gone, an older kernel). */
function readText(file: string): string {
  try {
    return readFileSync(file, 'latin1').trim();
  } catch (error) {
    if (['ENOENT', 'ENODEV', 'EOPNOTSUPP'].includes((error as NodeJS.ErrnoException).code ?? '')) return '';
    throw error;
  }
}

/** @returns false where the file is not there; never makes one */
function tryWrite(file: string, text: string): boolean {
  try {
    writeFileSync(file, text, { flag: 'r+' });
    return true;
  } catch (error) {
    if (['ENOENT', 'ENODEV'].includes((error as NodeJS.ErrnoException).code ?? '')) return false;
    throw error;
  }
}

function readNumber(file: string): number {
  const value = Number(readText(file));
  return Number.isFinite(value) ? value : 0;
}

function readKey(file: string, key: string): number {
  const line = readText(file)
    .split('\n')
    .find((entry) => entry.startsWith(`${key} `));
  return line === undefined ? 0 : Number(line.slice(key.length + 1));
}
