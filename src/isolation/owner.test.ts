import { mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isOrphaned, ownerText, thisOwner } from './owner.ts';

let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-owner-'));
  file = join(folder, 'owner');
});
afterEach(() => rmSync(folder, { recursive: true }));

const longAgo = new Date(Date.now() - 60_000);

describe('an owner', () => {
  it('that lives keeps what it holds', () => {
    writeFileSync(file, ownerText(thisOwner()));
    utimesSync(file, longAgo, longAgo);
    expect(isOrphaned(file, file)).toBe(false);
  });

  it.each([
    ['a later process with the same pid', { startTicks: '1' }],
    ['a pid that is not there', { pid: 4_194_304 }],
    ['a process before the last boot', { bootId: '00000000-0000-0000-0000-000000000000' }],
  ])('is dead when it is %s', (_, change) => {
    writeFileSync(file, ownerText({ ...thisOwner(), ...change }));
    expect(isOrphaned(file, file)).toBe(true);
  });

  it('that was not written yet is alive, and dead when that was long ago', () => {
    writeFileSync(file, '');
    expect(isOrphaned(file, file)).toBe(false);
    utimesSync(file, longAgo, longAgo);
    expect(isOrphaned(file, file)).toBe(true);
  });

  it('of a thing that is gone meanwhile is nobody to clean up after', () => {
    expect(isOrphaned(file, file)).toBe(false);
  });
});
