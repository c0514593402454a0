/** Oracle O3: what the host holds, so that a difference before and after shows whatever was left behind. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Inventory {
  readonly mounts: readonly string[];
  readonly cgroups: readonly string[];
  readonly processes: readonly string[];
  readonly networkNamespaces: readonly string[];
  readonly boxFolders: readonly string[];
  readonly uidRanges: readonly string[];
  readonly loopDevices: readonly string[];
  readonly fds: number;
}

const ownPrograms = /^(init|sallyport-init|sallyport-exec|launch|crun|runc)$/;

export function takeInventory(home: string): Inventory {
  const pids = names('/proc').filter((name) => /^\d+$/.test(name));
  return {
    mounts: read('/proc/self/mountinfo')
      .split('\n')
      .map((line) => line.split(' ')[4] ?? '')
      .sort(),
    cgroups: names('/sys/fs/cgroup')
      .flatMap((hierarchy) => tree(join('/sys/fs/cgroup', hierarchy, 'sallyport')))
      .sort(),
    processes: pids
      .filter((pid) => pid !== '1' && ownPrograms.test(read(`/proc/${pid}/comm`).trim()))
      .map((pid) => `${pid} ${read(`/proc/${pid}/comm`).trim()}`),
    networkNamespaces: [...new Set(pids.map((pid) => link(`/proc/${pid}/ns/net`)))]
      .filter((name) => name !== '')
      .sort(),
    boxFolders: names(join(home, 'run', 'boxes')).sort(),
    uidRanges: names('/run/sallyport/uids').sort(),
    loopDevices: names('/sys/block')
      .filter((name) => name.startsWith('loop') && read(`/sys/block/${name}/loop/backing_file`) !== '')
      .sort(),
    fds: names('/proc/self/fd').length,
  };
}

/** Waits for the kernel to finish what it does in the background. @returns what is still different, empty when nothing is */
export async function leftovers(home: string, before: Inventory, deadlineMs = 5_000): Promise<string[]> {
  const until = Date.now() + deadlineMs;
  for (;;) {
    const difference = compare(before, takeInventory(home));
    if (difference.length === 0 || Date.now() > until) return difference;
    await sleep(50);
  }
}

function compare(before: Inventory, after: Inventory): string[] {
  const lists = [
    'mounts',
    'cgroups',
    'processes',
    'networkNamespaces',
    'boxFolders',
    'uidRanges',
    'loopDevices',
  ] as const;
  const found = lists.flatMap((name) => {
    const known = new Set(before[name]);
    return after[name].filter((entry) => !known.has(entry)).map((entry) => `${name}: ${entry}`);
  });
  // a test's own lazily opened files may stay open; a leak grows with every sandbox
  return after.fds > before.fds + 2 ? [...found, `fds: ${before.fds} → ${after.fds}`] : found;
}

function tree(folder: string): string[] {
  const folders = names(folder).filter((name) => !name.includes('.') && !fileNames.has(name));
  return folders.map((name) => join(folder, name)).flatMap((path) => [path, ...tree(path)]);
}

const fileNames: ReadonlySet<string> = new Set(['tasks', 'notify_on_release', 'release_agent']);

function names(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function link(file: string): string {
  try {
    return readlinkSync(file);
  } catch {
    return '';
  }
}
