/**
 * Files and folders of a sandbox to this machine. The sandbox chose the names: none leads out of the target, no link
 * is made or followed, no setuid bit is kept, and a file appears whole or not at all.
 */
import { randomBytes } from 'node:crypto';
import { createWriteStream, type Stats } from 'node:fs';
import { lstat, mkdir, rename, rm, stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { SallyportError } from '../../errors/error.ts';
import { baseName, endsInSlash, isBeneath, joinPath } from './byte-path.ts';
import type { RemoteEntry, RemoteFiles } from './remote-files.ts';
import type { CopyReport } from './report.ts';

/** @throws SallyportError `file_not_found`, `output_folder`, and what the API says */
export async function download(files: RemoteFiles, from: Buffer, to: Buffer, report: CopyReport): Promise<void> {
  const source = await files.stat(from);
  if (source === undefined) throw new SallyportError('file_not_found', `Cannot copy ${from}: no such file or folder`);
  const isInto = endsInSlash(to) || (await localKind(to))?.isDirectory() === true;
  const target = isInto ? joinPath(to, nameOf(from)) : to;
  if (source.kind === 'folder') return downloadFolder(files, from, target, report);
  await downloadFile(files, from, target, source, report);
}

function nameOf(from: Buffer): Buffer {
  const name = baseName(from);
  if (isBeneath(name)) return name;
  throw new SallyportError('path_invalid', `Cannot copy ${from} into a folder: it has no name of its own`);
}

async function downloadFolder(files: RemoteFiles, from: Buffer, to: Buffer, report: CopyReport): Promise<void> {
  await makeFolder(to);
  for (const entry of await files.listAll(from)) {
    const source = joinPath(from, entry.path);
    if (!isBeneath(entry.path)) report.skipped(source, 'unsafe path');
    else await downloadEntry(files, source, joinPath(to, entry.path), entry, report);
  }
}

async function downloadEntry(
  files: RemoteFiles,
  from: Buffer,
  to: Buffer,
  entry: RemoteEntry,
  report: CopyReport,
): Promise<void> {
  if (entry.kind === 'folder') return makeFolder(to);
  if (entry.kind !== 'file') return report.skipped(from, entry.kind);
  await downloadFile(files, from, to, entry, report);
}

async function downloadFile(
  files: RemoteFiles,
  from: Buffer,
  to: Buffer,
  entry: RemoteEntry,
  report: CopyReport,
): Promise<void> {
  const partial = Buffer.concat([to, Buffer.from(`.partial-${randomBytes(4).toString('hex')}`)]);
  const content = await files.read(from);
  try {
    // wx: a new file, never one that somebody has put there, nor the target of a link
    const sink = createWriteStream(partial, { flags: 'wx', mode: entry.mode & 0o777 });
    await pipeline(content, sink);
    await rename(partial, to);
    report.copied(sink.bytesWritten);
  } catch (cause) {
    content.destroy();
    await rm(partial, { force: true });
    throw outputError(to, cause);
  }
}

/** A folder that is there already is used; a link in its place is not followed. */
async function makeFolder(path: Buffer): Promise<void> {
  try {
    await mkdir(path);
  } catch (cause) {
    const isFolder = await lstat(path).then(
      (found) => found.isDirectory(),
      () => false,
    );
    if (!isFolder) throw outputError(path, cause);
  }
}

function outputError(path: Buffer, cause: unknown): unknown {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  if (cause instanceof SallyportError || code === '') return cause;
  if (code === 'ENOSPC') return new SallyportError('host_disk_full', `Cannot write ${path}: no space left`, { cause });
  return new SallyportError('output_folder', `Cannot write ${path}: ${code}`, { cause });
}

async function localKind(path: Buffer): Promise<Stats | undefined> {
  return stat(path).catch(() => undefined);
}
