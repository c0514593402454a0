/**
 * The topmost read-only layer of every image: PID 1, the mount points, and the few files of /etc that say "this is a
 * sandbox". It makes images of any origin alike, and replaces what an image brings at these paths.
 */
import { readFileSync, statSync } from 'node:fs';
import { nativeFile } from '../linux/addon.ts';
import { makeSkeleton, type Skeleton } from './skeleton.ts';

/** Every question ends at our resolver, whoever it is sent to; this one is as good as another. */
const resolvers = 'nameserver 127.0.0.1\noptions timeout:3 attempts:2\n';

export function sandboxSkeleton(init: Buffer): Skeleton {
  return [
    { kind: 'folder', path: '.sallyport', mode: 0o755 },
    { kind: 'file', path: '.sallyport/init', mode: 0o555, content: init },
    { kind: 'folder', path: 'dev', mode: 0o755 },
    { kind: 'folder', path: 'etc', mode: 0o755 },
    { kind: 'file', path: 'etc/hostname', mode: 0o644, content: 'sandbox\n' },
    { kind: 'file', path: 'etc/hosts', mode: 0o644, content: '127.0.0.1 localhost sandbox\n::1 localhost sandbox\n' },
    { kind: 'file', path: 'etc/resolv.conf', mode: 0o644, content: resolvers },
    { kind: 'folder', path: 'inputs', mode: 0o755 },
    { kind: 'folder', path: 'proc', mode: 0o555 },
    { kind: 'folder', path: 'run', mode: 0o755 },
    { kind: 'folder', path: 'sys', mode: 0o555 },
    { kind: 'folder', path: 'tmp', mode: 0o1777 },
  ];
}

/**
 * Makes the layer from the built init, once for each build of it.
 * @returns a function that gives the layer's folder. It throws SallyportError `native_missing`
 */
export function openSandboxSkeleton(parent: string): () => Promise<string> {
  let made: { readonly version: string; readonly folder: Promise<string> } | undefined;
  return () => {
    const file = nativeFile('init');
    const { ino, mtimeMs, size } = statSync(file);
    const version = `${ino}:${mtimeMs}:${size}`;
    if (made?.version === version) return made.folder;
    const folder = makeSkeleton(parent, sandboxSkeleton(readFileSync(file)));
    made = { version, folder };
    // a failed attempt is not kept: the disk may have room later
    folder.catch(() => {
      made = undefined;
    });
    return folder;
  };
}
