/** The ext4 layer, really made and mounted: size, inodes, speed, and what a full host says. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, statfsSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Upper } from './types.ts';
import { makeUpper } from './upper.ts';

const MiB = 1024 * 1024;
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-upper-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const plan = (bytes: number, inodes: number): Upper => ({
  kind: 'ext4',
  bytes,
  inodes,
  file: join(folder, 'upper.ext4'),
});

it.each([
  [16 * MiB, 100],
  [64 * MiB, 100_000],
  [600 * MiB, 50_000],
  [1024 * MiB, 100_000],
  [4096 * MiB, 400_000],
  [10 * 1024 * MiB, 1_000_000],
])('gives the sandbox its %i bytes and %i inodes, hardly more', async (bytes, inodes) => {
  const upper = await makeUpper(plan(bytes, inodes), 200_000);
  const mountPoint = join(folder, 'mnt');
  mkdirSync(mountPoint);
  execFileSync('mount', ['-o', 'loop,nodev', join(folder, 'upper.ext4'), mountPoint]);
  try {
    const { bavail, bsize, ffree } = statfsSync(mountPoint);
    const free = bavail * bsize;
    expect(free).toBeGreaterThanOrEqual(upper.bytes);
    expect(free - bytes).toBeLessThan(bytes / 200 + 4 * MiB);
    expect(ffree).toBeGreaterThanOrEqual(inodes);
    expect(ffree - inodes).toBeLessThan(inodes / 50 + 4096);
    expect(statSync(mountPoint).uid).toBe(200_000);
  } finally {
    execFileSync('umount', [mountPoint]);
  }
});

it('takes no more than a few blocks of the host and little time', async () => {
  const began = performance.now();
  await makeUpper(plan(4096 * MiB, 400_000), 0);
  const elapsedMs = performance.now() - began;
  expect(statSync(join(folder, 'upper.ext4')).blocks * 512).toBeLessThan(2 * MiB);
  // 15 ms on two idle cores; a shared machine may need longer
  expect(elapsedMs).toBeLessThan(1000);
});

it('says that the host is full before it makes anything', async () => {
  await expect(makeUpper(plan(2 ** 50, 100), 0)).rejects.toMatchObject({ code: 'host_disk_full' });
  expect(existsSync(join(folder, 'upper.ext4'))).toBe(false);
});

it('leaves no file when mkfs fails', async () => {
  await expect(makeUpper(plan(16 * MiB, 2 ** 40), 0)).rejects.toMatchObject({
    message: expect.stringContaining('writable layer'),
  });
  expect(existsSync(join(folder, 'upper.ext4'))).toBe(false);
});
