/**
 * The folder of one box under `<home>/run`: OCI bundle, runtime state, owner file. It holds nothing the sandbox can
 * write. Removing it, the cgroup, the runtime's state and the uid range is all that a host has to forget.
 */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isOrphaned, type Owner, ownerText, readText } from './owner.ts';

export interface BoxFolder {
  readonly id: string;
  readonly path: string;
  readonly pidFile: string;
  readonly config: string;
  readonly inputs: string;
  /** The runtime's `--root`: state of this box alone, so that removing the folder forgets it. */
  readonly runtimeState: string;
}

function boxesFolder(home: string): string {
  return join(home, 'run', 'boxes');
}

export function boxFolder(home: string, id: string): BoxFolder {
  const path = join(boxesFolder(home), id);
  return {
    id,
    path,
    pidFile: join(path, 'pid'),
    config: join(path, 'config.json'),
    inputs: join(path, 'inputs'),
    runtimeState: join(path, 'runtime'),
  };
}

/** Makes the folders, 0700 (FS-28): nobody else on the host can name what lies in them. */
export function makeBoxFolder(folder: BoxFolder, owner: Owner): void {
  mkdirSync(folder.path, { recursive: true, mode: 0o700 });
  writeFileSync(join(folder.path, 'owner'), ownerText(owner), { flag: 'wx', mode: 0o600 });
  mkdirSync(folder.runtimeState, { mode: 0o700 });
}

export function removeBoxFolder(folder: BoxFolder): void {
  rmSync(folder.path, { recursive: true, force: true, maxRetries: 3 });
}

export interface LeftFolder {
  readonly id: string;
  /** Nobody alive holds it. */
  readonly orphaned: boolean;
}

export function listBoxFolders(home: string): LeftFolder[] {
  return readNames(boxesFolder(home)).map((id) => {
    const path = join(boxesFolder(home), id);
    return { id, orphaned: isOrphaned(join(path, 'owner'), path) };
  });
}

export function readPid(folder: BoxFolder): number | undefined {
  const text = readText(folder.pidFile);
  return /^\d{1,10}\s*$/.test(text) ? Number(text) : undefined;
}

function readNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
