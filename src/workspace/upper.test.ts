/** Which writable layer a Grant gets. */
import { expect, it } from 'vitest';
import { ext4FileBytes, mkfsArguments, planUpper } from './upper.ts';

const MiB = 1024 * 1024;

it('is a tmpfs up to half of the memory, where it counts as memory', () => {
  const limits = { diskBytes: 512 * MiB, memoryBytes: 1024 * MiB, inodes: 5 };
  expect(planUpper(limits, '/run/sb')).toEqual({ kind: 'tmpfs', bytes: 512 * MiB, inodes: 5 });
});

it('is an ext4 file above', () => {
  const limits = { diskBytes: 512 * MiB + 1, memoryBytes: 1024 * MiB, inodes: 5 };
  expect(planUpper(limits, '/run/sb')).toMatchObject({ kind: 'ext4', file: '/run/sb/upper.ext4' });
});

it('has a file larger than its bytes, by the inodes and some, in whole blocks', () => {
  const size = ext4FileBytes({ bytes: 4096 * MiB, inodes: 400_000 });
  expect(size % 4096).toBe(0);
  expect(size - 4096 * MiB).toBeGreaterThan(400_000 * 256);
  expect(size - 4096 * MiB).toBeLessThan(400_000 * 256 + 24 * MiB);
});

it('belongs to the root of the sandbox and keeps no room for another', () => {
  const words = mkfsArguments({ kind: 'ext4', bytes: 1, inodes: 100, file: '/f' }, 200_000);
  expect(words.join(' ')).toContain('root_owner=200000:200000');
  expect(words.join(' ')).toContain('-m 0');
  expect(words.at(-1)).toBe('/f');
});
