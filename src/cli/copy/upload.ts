/** Files and folders of this machine into a sandbox. Symbolic links and special files are not copied, and named. */
import { createReadStream, type Dirent, type Stats } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { SallyportError } from '../../errors/error.ts';
import { baseName, endsInSlash, joinPath } from './byte-path.ts';
import type { RemoteFiles } from './remote-files.ts';
import type { CopyReport } from './report.ts';

/** @throws SallyportError `input_missing`, and what the API says */
export async function upload(from: Buffer, files: RemoteFiles, to: Buffer, report: CopyReport): Promise<void> {
  const source = await statLocal(from);
  const isInto = endsInSlash(to) || (await files.stat(to))?.kind === 'folder';
  const target = isInto ? joinPath(to, baseName(from)) : to;
  if (source.isDirectory()) return uploadFolder(from, files, target, report);
  if (!source.isFile()) throw new SallyportError('input_unreadable', `Cannot copy ${from}: not a file or folder`);
  await uploadFile(from, source, files, target, report);
}

async function uploadFolder(from: Buffer, files: RemoteFiles, to: Buffer, report: CopyReport): Promise<void> {
  await files.makeFolder(to);
  const entries: Dirent<Buffer>[] = await readdir(from, { encoding: 'buffer', withFileTypes: true });
  for (const entry of entries) {
    const [source, target] = [joinPath(from, entry.name), joinPath(to, entry.name)];
    if (entry.isDirectory()) await uploadFolder(source, files, target, report);
    else if (entry.isFile()) await uploadFile(source, await stat(source), files, target, report);
    else report.skipped(source, entry.isSymbolicLink() ? 'symlink' : 'special file');
  }
}

async function uploadFile(
  from: Buffer,
  source: Stats,
  files: RemoteFiles,
  to: Buffer,
  report: CopyReport,
): Promise<void> {
  await files.write(to, createReadStream(from), source.mode & 0o777);
  report.copied(source.size);
}

async function statLocal(path: Buffer): Promise<Stats> {
  try {
    return await stat(path);
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : String(cause);
    throw new SallyportError('input_missing', `Cannot copy ${path}: ${code}`, { cause });
  }
}
