/**
 * Export: what a sandbox made leaves it here and nowhere else. Regular files only, each byte counted and hashed as it
 * arrives, written below a folder that did not exist before, so nothing on the host can be overwritten or followed.
 * Everything that matched and was not taken is listed with its reason (invariant 8).
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises';
import { SallyportError } from '../errors/error.ts';
import type { FileEntry, Files } from '../sandbox/types.ts';
import { displayName } from '../units/display-name.ts';
import { type ArtifactPattern, parseArtifactPattern } from './artifact-match.ts';
import { checkArtifactPath } from './artifact-path.ts';

interface ExportedArtifact {
  /** Relative to the workdir; see {@link displayName}. */
  readonly path: string;
  readonly bytes: number;
  readonly mode: number;
  readonly sha256: string;
}

interface SkippedArtifact {
  readonly path: string;
  /** Why it was not taken; docs/runs.md lists them. */
  readonly reason: string;
}

export interface ExportResult {
  readonly artifacts: readonly ExportedArtifact[];
  /** The first thousand. */
  readonly skipped: readonly SkippedArtifact[];
  /** How many more were not taken. */
  readonly skippedOmitted: number;
}

export interface ExportOptions {
  readonly files: Files;
  readonly patterns: readonly string[];
  /** An existing, empty folder of ours. */
  readonly into: string;
  readonly limits: { readonly bytes: number; readonly files: number };
}

/** Entries one pattern may look at; see docs/limits.md. */
const listMax = 100_000;
const newFileFlags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
/** Names that the host cannot hold as the sandbox made them; a host that cannot write at all is another matter. */
const nameErrors: ReadonlySet<string> = new Set(['ENAMETOOLONG', 'ENOTDIR', 'EEXIST', 'EISDIR', 'EINVAL', 'EILSEQ']);
const skippedMax = 1_000;
const setIdBits = 0o6000;

export async function exportArtifacts(options: ExportOptions): Promise<ExportResult> {
  const patterns = options.patterns.map(parseArtifactPattern);
  const skipped = new SkippedList();
  const found = await findMatches(options.files, patterns, skipped);
  const artifacts: ExportedArtifact[] = [];
  let bytesLeft = options.limits.bytes;
  for (const [path, entry] of found) {
    const reason = artifacts.length >= options.limits.files ? 'file-count-limit' : refusal(entry, bytesLeft);
    const outcome = reason ?? (await copyOut(options, path, entry, bytesLeft));
    if (typeof outcome === 'string') {
      skipped.add(() => displayName(Buffer.from(path, 'latin1')), outcome);
      continue;
    }
    bytesLeft -= outcome.bytes;
    artifacts.push(outcome);
  }
  return { artifacts, ...skipped.read() };
}

/** What was not taken, with its reason: the first so many by name, the rest by their number. */
class SkippedList {
  readonly #entries: SkippedArtifact[] = [];
  #omitted = 0;

  /** @param path made only where it is kept: names can be long and many */
  add(path: () => string, reason: string): void {
    if (this.#entries.length < skippedMax) this.#entries.push({ path: path(), reason });
    else this.#omitted++;
  }

  read(): Pick<ExportResult, 'skipped' | 'skippedOmitted'> {
    return { skipped: this.#entries, skippedOmitted: this.#omitted };
  }
}

/** Matching entries by path (Latin-1 of the bytes), each once however many patterns match it. */
async function findMatches(
  files: Files,
  patterns: readonly ArtifactPattern[],
  skipped: SkippedList,
): Promise<Map<string, FileEntry>> {
  const found = new Map<string, FileEntry>();
  for (const pattern of patterns) {
    const base = Buffer.from(pattern.base, 'utf8');
    const listed = await listBelow(files, pattern, base);
    if (listed === undefined) continue;
    if (typeof listed === 'string') {
      skipped.add(() => pattern.glob, listed);
      continue;
    }
    if (listed.truncated) skipped.add(() => pattern.glob, 'list-limit');
    for (const entry of listed.entries) {
      const path = base.length === 0 ? entry.path : Buffer.concat([base, Buffer.from('/'), entry.path]);
      if (entry.kind !== 'folder' && pattern.matches(path)) found.set(path.toString('latin1'), entry);
    }
  }
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** @returns undefined where the folder of the pattern does not exist: then nothing matches; a reason where it cannot be listed */
async function listBelow(
  files: Files,
  pattern: ArtifactPattern,
  base: Buffer,
): Promise<Awaited<ReturnType<Files['list']>> | string | undefined> {
  try {
    return await files.list(base.length === 0 ? Buffer.from('.') : base, { depth: pattern.depth, max: listMax });
  } catch (error) {
    if (error instanceof SallyportError && error.code === 'file_not_found') return undefined;
    return skipReason(error);
  }
}

/** What happens to one file, or to the sandbox under us, does not undo the rest. Anything else is thrown on. */
function skipReason(error: unknown): string {
  if (nameErrors.has((error as NodeJS.ErrnoException).code ?? '')) return 'name-conflict';
  if (!(error instanceof SallyportError)) throw error;
  if (error.code === 'sandbox_ended' || error.code === 'init_lost') return 'sandbox-ended';
  if (error.code.startsWith('file_')) return error.code.replaceAll('_', '-');
  throw error;
}

/** FS-23, FS-24: the kind and the size decide before a byte is read. */
function refusal(entry: FileEntry, bytesLeft: number): string | undefined {
  if (entry.kind !== 'file') return entry.kind;
  if ((entry.mode & setIdBits) !== 0) return 'setuid';
  return entry.bytes > bytesLeft ? 'size-limit' : undefined;
}

async function copyOut(
  { files, into }: ExportOptions,
  wirePath: string,
  entry: FileEntry,
  bytesLeft: number,
): Promise<ExportedArtifact | string> {
  const path = Buffer.from(wirePath, 'latin1');
  const checked = checkArtifactPath(path);
  if (!checked.ok) return checked.reason;
  const mode = entry.mode & 0o111 ? 0o755 : 0o644;
  let target: Buffer | undefined;
  try {
    target = await makeParents(into, checked.parts);
    await using handle = await open(target, newFileFlags, mode);
    const written = await copyBytes(files.read(path), handle, bytesLeft);
    if (written !== 'size-limit') return { path: displayName(path), mode: entry.mode, ...written };
    await rm(target);
    return written;
  } catch (error) {
    const isOurs = (error as NodeJS.ErrnoException).code !== 'EEXIST';
    if (target !== undefined && isOurs) await rm(target, { force: true });
    return skipReason(error);
  }
}

/** Counts what arrives, not what the entry promised: a file may grow while it is read. */
async function copyBytes(
  content: AsyncIterable<Buffer>,
  handle: FileHandle,
  bytesLeft: number,
): Promise<{ bytes: number; sha256: string } | 'size-limit'> {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of content) {
    bytes += chunk.length;
    if (bytes > bytesLeft) return 'size-limit';
    hash.update(chunk);
    await handle.writeFile(chunk);
  }
  return { bytes, sha256: hash.digest('hex') };
}

/** @returns the file's path on the host, as bytes */
async function makeParents(into: string, parts: readonly Buffer[]): Promise<Buffer> {
  let path: Buffer = Buffer.from(into);
  for (const part of parts.slice(0, -1)) {
    path = joinBytes(path, part);
    await mkdir(path, { mode: 0o755 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  }
  const [name] = parts.slice(-1);
  return name === undefined ? path : joinBytes(path, name);
}

function joinBytes(folder: Buffer, name: Buffer): Buffer {
  return Buffer.concat([folder, Buffer.from('/'), name]);
}
