/**
 * File operations of one sandbox: each is done by init inside, as the sandbox's user, and arrives here as bytes and
 * records. No path of the sandbox is ever opened on the host (invariant 2).
 */
import { posix } from 'node:path';
import { SallyportError } from '../errors/error.ts';
import { errnoName } from '../init/errno.ts';
import { decodeEntries, decodeWatch } from '../init/records.ts';
import type { FileOperation, Identity, InitClient, InitStream } from '../init/types.ts';
import type { FileEntry, Files, WatchEvent } from './types.ts';

const defaultListMax = 10_000;
/** Names of one listing, together; see docs/limits.md. */
const listNameBytes = 16 * 1024 * 1024;

export interface FilesOptions {
  readonly client: InitClient;
  readonly identity: Identity;
  readonly workdir: string;
  /** Called at the start of every operation; throws when the sandbox has ended. */
  readonly onUse: () => void;
  /** Why the sandbox has ended, once it has: then this is what an operation that was under way says. */
  readonly endedError: () => SallyportError | undefined;
}

export function openFiles(options: FilesOptions): Files {
  const files = operationsOf(options);
  const told = (thrown: unknown): unknown => {
    const isLost = thrown instanceof SallyportError && thrown.code === 'init_lost';
    return isLost ? (options.endedError() ?? thrown) : thrown;
  };
  const explained = <T>(work: Promise<T>): Promise<T> => work.catch((thrown: unknown) => Promise.reject(told(thrown)));
  const explainedEach = async function* <T>(items: AsyncIterable<T>): AsyncGenerator<T> {
    try {
      yield* items;
    } catch (thrown) {
      throw told(thrown);
    }
  };
  return {
    read: (path, range) => explainedEach(files.read(path, range)),
    write: (path, content, settings) => explained(files.write(path, content, settings)),
    list: (path, settings) => explained(files.list(path, settings)),
    stat: (path) => explained(files.stat(path)),
    change: (operation) => explained(files.change(operation)),
    watch: (path, settings) => explainedEach(files.watch(path, settings)),
  };
}

function operationsOf(options: FilesOptions): Files {
  const { workdir } = options;
  const begin = (operation: FileOperation): InitStream => {
    options.onUse();
    return options.client.file(options.identity, operation);
  };
  const at = (path: Buffer): Buffer => absolutePath(workdir, path);
  return {
    read: (path, range) => readFile(begin, () => ({ op: 'read', path: at(path), ...range })),
    write: async (path, content, settings) => writeFile(begin, { op: 'write', path: at(path), ...settings }, content),
    list: async (path, settings = {}) => {
      const operation = {
        op: 'list',
        path: at(path),
        depth: settings.depth ?? 1,
        max: settings.max ?? defaultListMax,
      } as const;
      const stream = begin(operation);
      const { entries, isCut } = await collectEntries(stream);
      if (!isCut) return { entries, truncated: (await finish(stream, operation)) === 1 };
      stream.kill(0);
      return { entries, truncated: true };
    },
    stat: async (path) => {
      const operation = { op: 'stat', path: at(path), followLink: false } as const;
      const stream = begin(operation);
      const { entries } = await collectEntries(stream);
      await finish(stream, operation);
      const [entry] = entries;
      if (entry === undefined) throw new SallyportError('init_protocol', 'Cannot stat: init sent no record');
      return entry;
    },
    change: async (operation) => {
      const resolved = resolvePaths(operation, at);
      const stream = begin(resolved);
      await finish(stream, resolved);
    },
    watch: (path, { recursive, signal }) =>
      watchFolder(begin, () => ({ op: 'watch', path: at(path), recursive }), signal),
  };
}

/** Joins as bytes, so that a name which is not UTF-8 stays what it is. @throws SallyportError `path_invalid` */
function absolutePath(workdir: string, path: Buffer): Buffer {
  if (path.length === 0) throw new SallyportError('path_invalid', 'Cannot use an empty path');
  if (path.includes(0))
    throw new SallyportError('path_invalid', `Cannot use the path ${JSON.stringify(path.toString())}: it holds a NUL`);
  const absolute = path[0] === 0x2f ? path : Buffer.concat([Buffer.from(posix.join(workdir, '/')), path]);
  if (absolute.length <= 4095) return absolute;
  throw new SallyportError('path_invalid', `Cannot use the path: it has ${absolute.length} bytes, the limit is 4095`);
}

type Change = Parameters<Files['change']>[0];
type Begin = (operation: FileOperation) => InitStream;

function resolvePaths(operation: Change, at: (path: Buffer) => Buffer): Change {
  if (operation.op === 'rename') return { ...operation, path: at(operation.path), to: at(operation.to) };
  return { ...operation, path: at(operation.path) };
}

/** @param make makes the operation when the first byte is asked for, so that a bad path is an error of the reading */
async function* readFile(begin: Begin, make: () => FileOperation): AsyncGenerator<Buffer> {
  const operation = make();
  const stream = begin(operation);
  try {
    for await (const { data } of stream.output) yield data;
    await finish(stream, operation);
  } finally {
    stream.kill(0);
  }
}

async function writeFile(begin: Begin, operation: FileOperation, content: AsyncIterable<Buffer>): Promise<void> {
  const stream = begin(operation);
  let complete = false;
  try {
    for await (const chunk of content) await writeChunk(stream, chunk, operation);
    stream.endStdin();
    complete = true;
    await finish(stream, operation);
  } finally {
    // a source that failed half-way: init removes its temp file, the old content stays
    if (!complete) stream.kill(0);
  }
}

/** A write that init refused ends the stream: then its reason counts, not the broken pipe. */
async function writeChunk(stream: InitStream, chunk: Buffer, operation: FileOperation): Promise<void> {
  const refused = stream.exit.then(() => 'refused' as const);
  const outcome = await Promise.race([stream.write(chunk).then(() => 'written' as const), refused]).catch(
    () => 'refused' as const,
  );
  if (outcome === 'written') return;
  await finish(stream, operation);
  throw new SallyportError('file_conflict', `Cannot write ${shown(operation.path)}: the write ended early`);
}

async function* watchFolder(begin: Begin, make: () => FileOperation, signal: AbortSignal): AsyncGenerator<WatchEvent> {
  const operation = make();
  const stream = begin(operation);
  const stop = (): void => stream.kill(0);
  signal.addEventListener('abort', stop, { once: true });
  try {
    if (signal.aborted) return;
    for await (const { kind, path } of decodeWatch(stream.output)) if (kind !== 'ready') yield { kind, path };
    if (!signal.aborted) await finish(stream, operation);
  } finally {
    signal.removeEventListener('abort', stop);
    stop();
  }
}

/** Bounded by the bytes of the names too: a hundred thousand of them can be long (FS-26). */
async function collectEntries(stream: InitStream): Promise<{ entries: FileEntry[]; isCut: boolean }> {
  const entries: FileEntry[] = [];
  let nameBytes = 0;
  for await (const entry of decodeEntries(stream.output)) {
    nameBytes += entry.path.length + (entry.target?.length ?? 0);
    if (nameBytes > listNameBytes) return { entries, isCut: true };
    entries.push(entry);
  }
  return { entries, isCut: false };
}

/** @returns init's value: 1 when a list was cut at its limit */
async function finish(stream: InitStream, operation: FileOperation): Promise<number> {
  const { outcome } = await stream.exit;
  if (outcome.kind === 'exited') return outcome.code;
  if (outcome.kind === 'failed') throw fileError(operation, errnoName(outcome.errno));
  throw new SallyportError('file_conflict', `Cannot ${operation.op} ${shown(operation.path)}: the operation was ended`);
}

function fileError(operation: FileOperation, errno: string): SallyportError {
  const row = errnoRows[errno] ?? { code: 'file_conflict', why: `it failed with ${errno}` };
  return new SallyportError(row.code, `Cannot ${operation.op} ${shown(operation.path)}: ${row.why}`);
}

const errnoRows: Readonly<
  Record<
    string,
    {
      readonly code:
        | 'file_not_found'
        | 'file_denied'
        | 'file_conflict'
        | 'disk_full'
        | 'path_invalid'
        | 'too_many_streams';
      readonly why: string;
    }
  >
> = {
  ENOENT: { code: 'file_not_found', why: 'no such file or folder' },
  ENOTDIR: { code: 'file_not_found', why: 'a part of the path is not a folder' },
  EACCES: { code: 'file_denied', why: 'the sandbox user may not' },
  EPERM: { code: 'file_denied', why: 'the sandbox user may not' },
  EROFS: { code: 'file_denied', why: 'it is read-only' },
  ELOOP: { code: 'file_denied', why: 'the path holds a symbolic link that is not followed' },
  EXDEV: { code: 'file_denied', why: 'the path leads out of the sandbox or onto another filesystem' },
  EEXIST: { code: 'file_conflict', why: 'it exists already' },
  ENOTEMPTY: { code: 'file_conflict', why: 'the folder is not empty' },
  EISDIR: { code: 'file_conflict', why: 'it is a folder' },
  EINVAL: { code: 'file_conflict', why: 'it is not a regular file, or the name cannot be used' },
  ENXIO: { code: 'file_conflict', why: 'it is not a regular file' },
  EBUSY: { code: 'file_conflict', why: 'it is in use' },
  ENAMETOOLONG: { code: 'path_invalid', why: 'a name is longer than 255 bytes or the path longer than 4095' },
  ENOSPC: { code: 'disk_full', why: 'the workspace is full' },
  EDQUOT: { code: 'disk_full', why: 'the workspace is full' },
  EAGAIN: { code: 'too_many_streams', why: 'too many operations at once in this sandbox' },
};

/** A path for a message: escaped, so that a hostile name cannot draw on a terminal (HX-13). */
function shown(path: Buffer): string {
  return JSON.stringify(path.toString('utf8'));
}
