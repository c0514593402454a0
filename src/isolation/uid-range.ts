/**
 * Subordinate uid ranges: each sandbox gets 65 536 uids and gids of its own, so that root inside is nobody outside
 * and two sandboxes never share an owner. A range is held by a file made with O_EXCL under /run, so that all
 * daemons of a host draw from one pool.
 */
import { randomInt } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SallyportError } from '../errors/error.ts';
import { isOrphaned, type Owner, ownerText } from './owner.ts';

/** systemd leaves 1 879 048 192 … 2 147 483 647 unassigned (uids-gids.md); above 2³¹ some tools use signed ids. */
const firstUid = 1_879_048_192;
const slots = Math.floor((2_147_483_647 - firstUid) / 65_536);
const attempts = 64;

export interface UidRange {
  readonly base: number;
  readonly count: 65_536;
  release(): void;
}

/** @throws SallyportError `too_many_sandboxes` when no free range was found */
export function takeUidRange(folder: string, owner: Owner): UidRange {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (let attempt = 0; attempt < attempts; attempt++) {
    const slot = randomInt(slots);
    const file = join(folder, String(slot));
    if (!createExclusive(file, ownerText(owner))) continue;
    return { base: firstUid + slot * 65_536, count: 65_536, release: () => rmSync(file, { force: true }) };
  }
  throw new SallyportError(
    'too_many_sandboxes',
    `Cannot take a uid range: ${attempts} random ones of ${slots} are in use`,
  );
}

/** Gives back the ranges whose owner is dead. @returns how many */
export function releaseOrphanedRanges(folder: string): number {
  let released = 0;
  for (const slot of listFolder(folder)) {
    const file = join(folder, slot);
    if (!isOrphaned(file, file)) continue;
    rmSync(file, { force: true });
    released++;
  }
  return released;
}

function createExclusive(file: string, text: string): boolean {
  try {
    writeFileSync(file, text, { flag: 'wx', mode: 0o600 });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

function listFolder(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
