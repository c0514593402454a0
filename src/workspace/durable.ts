/** Files that survive a power cut: written beside their place, synced, renamed over it, and the folder synced. */
import { closeSync, fsyncSync, openSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** Readers see the old text or the new one, never a part. The caller holds the lock that makes it the only writer. */
export function writeDurably(file: string, text: string, mode = 0o600): void {
  const partial = `${file}.partial`;
  writeFileSync(partial, text, { mode, flush: true });
  renameSync(partial, file);
  syncFolder(dirname(file));
}

/** A rename is on disk only when its folder is. */
export function syncFolder(folder: string): void {
  const fd = openSync(folder, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
