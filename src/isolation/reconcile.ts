/**
 * What a killed daemon left: boxes whose PID 1 may still be ending, cgroups, folders, uid ranges. Each is removed
 * only when its owner is dead, so a living daemon and a `sallyport run` beside it never touch each other's.
 */
import { SallyportError } from '../errors/error.ts';
import type { CgroupTree } from '../linux/types.ts';
import { boxFolder, listBoxFolders, removeBoxFolder } from './box-folder.ts';
import type { HostFolders } from './host-folders.ts';
import { releaseOrphanedRanges } from './uid-range.ts';

const killDeadlineMs = 3_000;

export interface ReconcileInput {
  readonly home: string;
  readonly cgroups: CgroupTree;
  readonly folders: HostFolders;
}

export async function reconcile({
  home,
  cgroups,
  folders,
}: ReconcileInput): Promise<{ removed: string[]; stuck: string[]; uidRanges: number }> {
  // cgroups first: a box has its folder before its cgroup, so one that is listed here without a folder is nobody's
  const withCgroup = cgroups.list();
  const left = listBoxFolders(home);
  const known = new Set(left.map(({ id }) => id));
  const orphans = [
    ...left.filter(({ orphaned }) => orphaned).map(({ id }) => id),
    ...withCgroup.filter((id) => !known.has(id)),
  ];
  const removed: string[] = [];
  const stuck: string[] = [];
  for (const id of orphans) ((await isRemoved(home, cgroups, id)) ? removed : stuck).push(id);
  // while something of a dead owner still runs, its uids are not free
  const uidRanges = stuck.length > 0 ? 0 : releaseOrphanedRanges(folders.uidRanges);
  return { removed, stuck, uidRanges };
}

/** One that does not end yet (a disk that is slow to let go) must not keep the others, or the start. */
async function isRemoved(home: string, cgroups: CgroupTree, id: string): Promise<boolean> {
  try {
    await removeOrphan(home, cgroups, id);
    return true;
  } catch (error) {
    if (error instanceof SallyportError && error.code === 'deadline') return false;
    throw error;
  }
}

/** The cgroup first: a folder without a cgroup is found again, a cgroup of a forgotten box might not be. */
async function removeOrphan(home: string, cgroups: CgroupTree, id: string): Promise<void> {
  const cgroup = cgroups.sandbox(id);
  await cgroup.kill(killDeadlineMs);
  await cgroup.remove();
  removeBoxFolder(boxFolder(home, id));
}
