/** The lock of a home: one holder, free again when the holder is gone. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { acquireLock } from './lock.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-lock-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

it('has one holder at a time', () => {
  const path = join(folder, 'lock');
  const held = acquireLock(path);
  expect(held).toBeDefined();
  expect(acquireLock(path)).toBeUndefined();
  held?.release();
  const next = acquireLock(path);
  expect(next).toBeDefined();
  next?.release();
});
