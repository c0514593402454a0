/** The index of images: what is written is read, what is damaged is said. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type ImageEntry, imageFolder, readImageIndex, writeImageIndex } from './image-index.ts';
import { readManifest, writeManifest } from './image-manifest.ts';

const entry: ImageEntry = {
  digest: `sha256:${'a'.repeat(64)}`,
  recipeDigest: 'b'.repeat(64),
  architecture: 'amd64',
  builtAt: '2026-01-01T00:00:00.000Z',
  builder: 'mmdebstrap 1',
  user: { uid: 1000, gid: 1000, home: '/home/user' },
  packages: { count: 1, sha256: 'c'.repeat(64) },
  lockDifferences: [],
};
let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'sallyport-index-'));
  mkdirSync(join(home, 'images'));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

it('is empty where nothing was built', () => expect(readImageIndex(home).size).toBe(0));

it('reads what it wrote and leaves no partial file', () => {
  writeImageIndex(home, new Map([['base', entry]]));
  expect(readImageIndex(home)).toEqual(new Map([['base', entry]]));
  expect(readdirSync(join(home, 'images'))).toEqual(['index.json']);
});

it.each(['', '{"version":1', '{"version":2,"images":{}}', '{"version":1,"images":{"base":{}}}'])(
  'says that %j is damaged',
  (text) => {
    writeFileSync(join(home, 'images/index.json'), text);
    expect(() => readImageIndex(home)).toThrow(expect.objectContaining({ code: 'image_missing' }));
  },
);

it('takes a digest for no other path than one below images', () => {
  const evil = { ...entry, digest: 'sha256:../../etc' };
  writeFileSync(join(home, 'images/index.json'), JSON.stringify({ version: 1, images: { base: evil } }));
  expect(() => readImageIndex(home)).toThrow('damaged');
});

it('has a manifest of each image, and a damaged one counts as none', () => {
  const folder = imageFolder(home, entry.digest);
  mkdirSync(folder);
  expect(readManifest(home, entry.digest)).toBeUndefined();
  const packages = new Map([['bash', '5']]);
  writeManifest(folder, { name: 'base', entry, packages });
  expect(readManifest(home, entry.digest)).toEqual({ packages });
  writeFileSync(join(folder, 'manifest.json'), '{');
  expect(readManifest(home, entry.digest)).toBeUndefined();
});
