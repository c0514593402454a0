/**
 * Folders under /run that all sandboxes of a host share: the pool of uid ranges, and empty mount points. Each launcher mounts on them
 * in a mount namespace of its own, so one set serves every sandbox at once and nothing ever lies in them.
 */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface HostFolders {
  readonly uidRanges: string;
  /** Where the root of a sandbox is put together. Root of the sandbox's user namespace must reach it, so its parents are 0711. */
  readonly rootfs: string;
  /** Where its writable filesystem is attached. */
  readonly scratch: string;
  /** An empty file over which the sandbox's network namespace is bound for the runtime. */
  readonly netns: string;
}

/** Gone at a reboot, like all that they count. */
const parent = '/run/sallyport';

export function makeHostFolders(): HostFolders {
  const folders = {
    uidRanges: join(parent, 'uids'),
    rootfs: join(parent, 'rootfs'),
    scratch: join(parent, 'scratch'),
    netns: join(parent, 'netns'),
  };
  makeFolder(parent, 0o711);
  makeFolder(folders.uidRanges, 0o700);
  makeFolder(folders.rootfs, 0o755);
  makeFolder(folders.scratch, 0o700);
  writeFileSync(folders.netns, '', { mode: 0o600 });
  return folders;
}

/** The mode holds whatever the umask is, and also for a folder that was there. */
function makeFolder(path: string, mode: number): void {
  mkdirSync(path, { recursive: true });
  chmodSync(path, mode);
}
