/**
 * A small tree of folders, files and links that we make ourselves, first as a value, then on disk. Its name is the
 * digest of the value: what has the name is complete, because it is made beside its place and renamed.
 */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, lchown, mkdir, readdir, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { digestOf, sha256Hex } from '../digest/digest.ts';
import { errnoOf } from './errno.ts';

export type SkeletonEntry =
  | { readonly kind: 'folder'; readonly path: string; readonly mode: number; readonly owner?: number }
  | { readonly kind: 'file'; readonly path: string; readonly mode: number; readonly content: string | Buffer }
  | { readonly kind: 'symlink'; readonly path: string; readonly target: string };

/** Entries in the order they are made: a folder before what lies in it. Paths are relative and ours. */
export type Skeleton = readonly SkeletonEntry[];

const partialAgeMs = 10 * 60 * 1000;

/** Lower-case hex over every path, kind, mode, owner, target and content. */
export function skeletonDigest(skeleton: Skeleton): string {
  const described = skeleton.map((entry) =>
    entry.kind === 'file' ? { ...entry, content: sha256Hex(entry.content) } : { ...entry },
  );
  return digestOf(described);
}

/**
 * @param parent folder of all skeletons, only root may enter it
 * @returns the folder with exactly these entries, owned by root inside
 */
export async function makeSkeleton(parent: string, skeleton: Skeleton): Promise<string> {
  const digest = skeletonDigest(skeleton);
  const place = join(parent, digest);
  if (existsSync(place)) return place;
  await mkdir(parent, { recursive: true, mode: 0o700 });
  await removeOldPartials(parent);
  const partial = `${place}.${randomBytes(8).toString('hex')}.partial`;
  try {
    await mkdir(partial, { mode: 0o755 });
    // an explicit chmod everywhere: a mode given at creation is cut by the umask
    await chmod(partial, 0o755);
    for (const entry of skeleton) await makeEntry(partial, entry);
    await rename(partial, place);
  } catch (thrown) {
    await rm(partial, { recursive: true, force: true });
    // another process was first, with the same content
    if (errnoOf(thrown) !== 'ENOTEMPTY' && errnoOf(thrown) !== 'EEXIST') throw thrown;
  }
  return place;
}

async function makeEntry(root: string, entry: SkeletonEntry): Promise<void> {
  const path = join(root, entry.path);
  if (entry.kind === 'symlink') return symlink(entry.target, path);
  if (entry.kind === 'file') await writeFile(path, entry.content, { flag: 'wx' });
  else await mkdir(path);
  if (entry.kind === 'folder' && entry.owner !== undefined) await lchown(path, entry.owner, entry.owner);
  await chmod(path, entry.mode);
}

/** What a process left that was killed half-way; a living one is done in far less time. */
async function removeOldPartials(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    if (!name.endsWith('.partial')) continue;
    const path = join(parent, name);
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Date.now() }));
    if (Date.now() - mtimeMs > partialAgeMs) await rm(path, { recursive: true, force: true });
  }
}
