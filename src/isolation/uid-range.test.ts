import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ownerText, thisOwner } from './owner.ts';
import { releaseOrphanedRanges, takeUidRange } from './uid-range.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-uids-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('a uid range', () => {
  it('is of 65 536 ids, clear of what systemd assigns, and never handed out twice', () => {
    const ranges = Array.from({ length: 200 }, () => takeUidRange(folder, thisOwner()));
    expect(new Set(ranges.map(({ base }) => base)).size).toBe(200);
    for (const { base, count } of ranges) {
      expect(base).toBeGreaterThanOrEqual(1_879_048_192);
      expect(base + count).toBeLessThanOrEqual(2_147_483_647);
      expect(base % 65_536).toBe(0);
    }
  });

  it('is free again after its release', () => {
    takeUidRange(folder, thisOwner()).release();
    expect(readdirSync(folder)).toEqual([]);
  });

  it('of a dead owner is released, of a living one kept', () => {
    takeUidRange(folder, thisOwner());
    writeFileSync(join(folder, '7'), ownerText({ ...thisOwner(), startTicks: '1' }));
    expect(releaseOrphanedRanges(folder)).toBe(1);
    expect(readdirSync(folder)).toHaveLength(1);
  });
});
