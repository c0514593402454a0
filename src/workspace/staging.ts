/**
 * The folder in which one sandbox's inputs are collected. Whatever comes in, a host file or uploaded bytes, is counted
 * and hashed as it is written, lands read-only, and keeps its name byte for byte. Symbolic links stay links and are
 * never followed, and every step starts from an open folder, so that a tree which changes meanwhile leads nowhere else.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, opendir, readlink, rm, symlink } from 'node:fs/promises';
import { SallyportError } from '../errors/error.ts';
import { displayName } from '../units/display-name.ts';
import { errnoOf, isDiskFull } from './errno.ts';
import { invalid, reasonOf, tooLarge, unreadable } from './input-errors.ts';
import { bytesOf, checkedName, lastName, named } from './input-name.ts';
import { type InputLimits, InputTally } from './input-tally.ts';
import type { StagedInputs } from './types.ts';

/** After a failure nothing more can be added: `discard` it. */
export interface Staging {
  /**
   * Copies a host file, or a folder with all below it, under its own name.
   * @throws SallyportError `input_missing`, `input_unreadable`, `input_too_large`, `invalid_request`, `host_disk_full`
   */
  addPath(path: string | Buffer): Promise<void>;
  /** Writes a file from bytes as they come. @throws SallyportError as `addPath` */
  addBytes(name: string | Buffer, content: AsyncIterable<Buffer>): Promise<void>;
  /** Closes the folder for changes. Its root becomes readable for everybody inside; its parent must not be. */
  finish(): Promise<StagedInputs>;
  /** Removes all of it; safe to call twice. */
  discard(): Promise<void>;
}

/** Levels of a tree: each holds two open folders while it is copied. */
const maxDepth = 64;
const filesAtOnce = 8;
const chunkBytes = 256 * 1024;
const leastChunkBytes = 4096;
const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;
/** A FIFO must not hang the open, a link not redirect it, a terminal not become ours (FS-23). */
const readFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
const createFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;

/**
 * @param into made here, must not exist; lies in a folder that only root may enter
 */
export async function openStaging(into: string, limits: InputLimits): Promise<Staging> {
  await mkdir(into, { mode: 0o700 });
  const root = await open(into, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  const tally = new InputTally(limits);
  let isOpen = true;
  const close = async (): Promise<void> => {
    if (!isOpen) return;
    isOpen = false;
    await root.close();
  };
  return {
    addPath: (path) => addPath(root, tally, bytesOf(path)),
    addBytes: (name, content) => addBytes(root, tally, checkedName(bytesOf(name)), content),
    finish: async () => {
      await root.chmod(0o555);
      await close();
      return { folder: into, files: tally.sorted(), bytes: tally.bytes };
    },
    discard: async () => {
      await close();
      await rm(into, { recursive: true, force: true });
    },
  };
}

/** One entry on its way: where it is, where it goes, and what it is called below /inputs. */
interface Entry {
  /** Host path, or `/proc/self/fd/<open folder>/<name>`. */
  readonly source: Buffer;
  readonly target: Buffer;
  readonly name: Buffer;
}

/** A folder that is being copied. */
interface Level {
  readonly source: FileHandle;
  readonly target: FileHandle;
  readonly name: Buffer;
  /** Names nobody has looked at. */
  readonly left: Buffer[];
  /** Names of folders that are still to be copied. */
  readonly folders: Buffer[];
}

async function addPath(root: FileHandle, tally: InputTally, path: Buffer): Promise<void> {
  if (path.includes(0)) throw invalid(`the path ${displayName(path)} holds a NUL byte`);
  const source = named(path);
  const name = checkedName(lastName(source));
  const kind = await kindOfNamed(source, path);
  if (kind === 'symlink') throw unreadable(path, 'it is a symbolic link; name its target');
  await translateErrors(path, () => copyTree(root, tally, { source, target: beneath(root, name), name }));
}

async function kindOfNamed(source: Buffer, shown: Buffer): Promise<string> {
  try {
    return kindOf(await lstat(source));
  } catch (thrown) {
    const errno = errnoOf(thrown);
    if (errno !== 'ENOENT' && errno !== 'ENOTDIR') throw unreadable(shown, reasonOf(thrown));
    throw new SallyportError(
      'input_missing',
      `Cannot read the input ${displayName(shown)}: there is no such file or folder`,
    );
  }
}

/**
 * Depth first with a stack of its own, so that a deep tree costs a bounded number of open folders (FS-26). The files of
 * a folder go a few at a time: one alone spends its time waiting for the thread that makes the call.
 */
async function copyTree(root: FileHandle, tally: InputTally, top: Entry): Promise<void> {
  const into = await root.stat();
  const stack: Level[] = [];
  const descend = async (entry: Entry): Promise<void> => {
    const level = await openLevel(tally, entry);
    stack.push(level);
    const { dev, ino } = await level.source.stat();
    const isOurs = dev === into.dev && ino === into.ino;
    if (isOurs) throw unreadable(entry.name, 'it holds the folder that inputs are copied into');
    if (stack.length > maxDepth) throw tooLarge(`${displayName(entry.name)} is more than ${maxDepth} levels deep`);
  };
  try {
    if ((await copyEntry(tally, top)) === 'folder') await descend(top);
    for (let level = stack.at(-1); level !== undefined; level = stack.at(-1)) {
      const folder = level.left.length > 0 ? undefined : level.folders.pop();
      if (folder !== undefined) await descend(entryOf(level, folder));
      else if (level.left.length > 0) await copySome(tally, level);
      else await finishLevel(stack, level);
    }
  } finally {
    for (const level of stack) await closeLevel(level);
  }
}

/** All of them have ended when this ends, so that nothing is written after a failure was cleaned up. */
async function copySome(tally: InputTally, level: Level): Promise<void> {
  const names = level.left.splice(-filesAtOnce);
  const results = await Promise.allSettled(names.map((name) => copyEntry(tally, entryOf(level, name))));
  for (const [index, result] of results.entries()) {
    if (result.status === 'rejected') throw result.reason;
    const name = names[index];
    if (result.value === 'folder' && name !== undefined) level.folders.push(name);
  }
}

function entryOf(level: Level, name: Buffer): Entry {
  return {
    source: beneath(level.source, name),
    target: beneath(level.target, name),
    name: Buffer.concat([level.name, Buffer.from('/'), name]),
  };
}

async function finishLevel(stack: Level[], level: Level): Promise<void> {
  await level.target.chmod(0o555);
  stack.pop();
  await closeLevel(level);
}

async function closeLevel(level: Level): Promise<void> {
  await level.source.close();
  await level.target.close();
}

/** A folder is only counted: its content is copied after the files beside it. */
async function copyEntry(tally: InputTally, entry: Entry): Promise<'copied' | 'folder'> {
  tally.addEntry(entry.name);
  const kind = kindOf(await lstat(entry.source));
  if (kind === 'folder') return 'folder';
  if (kind === 'file') await copyFile(tally, entry);
  else if (kind === 'symlink') await copySymlink(tally, entry);
  else throw unreadable(entry.name, `it is a ${kind}; only files, folders and symbolic links can be inputs`);
  return 'copied';
}

async function openLevel(tally: InputTally, { source: from, target: to, name }: Entry): Promise<Level> {
  const source = await open(from, readFlags | O_DIRECTORY);
  try {
    const left = await namesIn(source, tally, name);
    await mkdir(to, { mode: 0o700 });
    const target = await open(to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    tally.record(name, { kind: 'folder', bytes: 0, mode: 0o555 });
    return { source, target, name, left, folders: [] };
  } catch (thrown) {
    await source.close();
    throw thrown;
  }
}

/** Bounded by what may still come: a folder of a million files is refused, not listed (FS-26). */
async function namesIn(folder: FileHandle, tally: InputTally, name: Buffer): Promise<Buffer[]> {
  const names: Buffer[] = [];
  // the entries' type for this encoding is bytes, which Node's own types leave out
  const entries = await opendir(`/proc/self/fd/${folder.fd}`, {
    encoding: 'buffer' as BufferEncoding,
    bufferSize: 256,
  });
  for await (const entry of entries) {
    names.push(entry.name as unknown as Buffer);
    if (names.length > tally.filesLeft) throw tooLarge(`${displayName(name)} holds more files than may still come`);
  }
  return names;
}

async function copySymlink(tally: InputTally, { source, target, name }: Entry): Promise<void> {
  const to = await readlink(source, { encoding: 'buffer' });
  tally.addBytes(to.length, name);
  await symlink(to, target);
  tally.record(name, {
    kind: 'symlink',
    bytes: to.length,
    mode: 0o777,
    sha256: createHash('sha256').update(to).digest('hex'),
  });
}

async function copyFile(tally: InputTally, { source, target, name }: Entry): Promise<void> {
  await using from = await open(source, readFlags);
  const { mode, size } = await from.stat();
  // looked at again: what was a file a moment ago may be something else now
  if ((mode & constants.S_IFMT) !== constants.S_IFREG) throw unreadable(name, 'it is no longer a file');
  tally.expect(size, name);
  await writeFile(tally, { target, name, executable: (mode & 0o111) !== 0 }, chunksOf(from, size));
}

/** To the end, not to the size that was seen first: a file may grow or shrink while it is read (FS-24). */
async function* chunksOf(handle: FileHandle, size: number): AsyncGenerator<Buffer> {
  const buffer = Buffer.allocUnsafe(Math.min(Math.max(size + 1, leastChunkBytes), chunkBytes));
  for (;;) {
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, null);
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
  }
}

interface NewFile {
  readonly target: Buffer;
  readonly name: Buffer;
  readonly executable: boolean;
}

async function writeFile(
  tally: InputTally,
  { target, name, executable }: NewFile,
  content: AsyncIterable<Buffer>,
): Promise<void> {
  await using to = await open(target, createFlags, 0o600);
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of content) {
    tally.addBytes(chunk.length, name);
    hash.update(chunk);
    await writeAll(to, chunk);
    bytes += chunk.length;
  }
  const mode = executable ? 0o555 : 0o444;
  await to.chmod(mode);
  tally.record(name, { kind: 'file', bytes, mode, sha256: hash.digest('hex') });
}

async function writeAll(handle: FileHandle, chunk: Buffer): Promise<void> {
  for (let written = 0; written < chunk.length; ) {
    written += (await handle.write(chunk, written)).bytesWritten;
  }
}

async function addBytes(
  root: FileHandle,
  tally: InputTally,
  name: Buffer,
  content: AsyncIterable<Buffer>,
): Promise<void> {
  tally.addEntry(name);
  await translateErrors(name, () =>
    writeFile(tally, { target: beneath(root, name), name, executable: false }, content),
  );
}

/** An entry of an open folder, wherever that folder is by now: the kernel follows the link to the folder itself. */
function beneath(folder: FileHandle, name: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`/proc/self/fd/${folder.fd}/`), name]);
}

function kindOf(stats: { readonly mode: number }): string {
  return kinds.get(stats.mode & constants.S_IFMT) ?? 'special file';
}

const kinds: ReadonlyMap<number, string> = new Map([
  [constants.S_IFREG, 'file'],
  [constants.S_IFDIR, 'folder'],
  [constants.S_IFLNK, 'symlink'],
  [constants.S_IFIFO, 'FIFO'],
  [constants.S_IFSOCK, 'socket'],
  [constants.S_IFBLK, 'block device'],
  [constants.S_IFCHR, 'character device'],
]);

async function translateErrors(shown: Buffer, work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (thrown) {
    if (thrown instanceof SallyportError) throw thrown;
    if (isDiskFull(thrown)) {
      const message = `Cannot copy the input ${displayName(shown)}: the host's disk is full`;
      throw new SallyportError('host_disk_full', message, { cause: thrown });
    }
    if (errnoOf(thrown) === 'EEXIST') throw invalid(`two inputs are called ${displayName(lastName(shown))}`);
    throw unreadable(shown, reasonOf(thrown));
  }
}
