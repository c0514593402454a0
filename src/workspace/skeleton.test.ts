/** Trees of our own: their digest and how they come to be. */
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  utimesSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { sandboxSkeleton } from './sandbox-skeleton.ts';
import { makeSkeleton, type Skeleton, skeletonDigest } from './skeleton.ts';

const skeleton: Skeleton = [
  { kind: 'folder', path: 'tmp', mode: 0o1777 },
  { kind: 'file', path: 'tmp/note', mode: 0o444, content: 'hello' },
  { kind: 'symlink', path: 'bin', target: 'usr/bin' },
];
let parent: string;
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'sallyport-skeleton-'));
});
afterEach(() => rmSync(parent, { recursive: true, force: true }));

it('has the modes it was described with, whatever the umask', async () => {
  const before = process.umask(0o077);
  const place = await makeSkeleton(parent, skeleton).finally(() => process.umask(before));
  expect(place).toBe(join(parent, skeletonDigest(skeleton)));
  expect([place, join(place, 'tmp'), join(place, 'tmp/note')].map((path) => statSync(path).mode & 0o7777)).toEqual([
    0o755, 0o1777, 0o444,
  ]);
  expect(readlinkSync(join(place, 'bin'))).toBe('usr/bin');
  expect(readFileSync(join(place, 'tmp/note'), 'utf8')).toBe('hello');
});

it('is made once, also by many at the same time, and leaves nothing beside it', async () => {
  const places = await Promise.all(Array.from({ length: 8 }, () => makeSkeleton(parent, skeleton)));
  expect(new Set(places).size).toBe(1);
  expect(readdirSync(parent)).toEqual([skeletonDigest(skeleton)]);
});

it('removes what a killed process left, not what a living one makes', async () => {
  const [old, fresh] = [join(parent, 'a.partial'), join(parent, 'b.partial')];
  for (const path of [old, fresh]) mkdirSync(path);
  utimesSync(old, 1, 1);
  await makeSkeleton(parent, skeleton);
  expect([existsSync(old), existsSync(fresh)]).toEqual([false, true]);
});

it('changes its digest with content, mode, target and order of nothing else', () => {
  const digests = [
    skeleton,
    skeleton.map((entry) => (entry.kind === 'file' ? { ...entry, content: 'hellO' } : entry)),
    skeleton.map((entry) => (entry.kind === 'file' ? { ...entry, mode: 0o555 } : entry)),
    skeleton.map((entry) => (entry.kind === 'symlink' ? { ...entry, target: 'usr/sbin' } : entry)),
  ].map(skeletonDigest);
  expect(new Set(digests).size).toBe(4);
  expect(
    skeletonDigest(
      skeleton.map((entry) => (entry.kind === 'file' ? { ...entry, content: Buffer.from('hello') } : entry)),
    ),
  ).toBe(digests[0]);
});

it('the layer of every sandbox has PID 1, mount points and our resolver', async () => {
  const place = await makeSkeleton(parent, sandboxSkeleton(Buffer.from('ELF')));
  expect(lstatSync(join(place, '.sallyport/init')).mode & 0o7777).toBe(0o555);
  for (const name of ['dev', 'inputs', 'proc', 'run', 'sys', 'tmp'])
    expect(statSync(join(place, name)).isDirectory()).toBe(true);
  expect(readFileSync(join(place, 'etc/resolv.conf'), 'utf8')).toContain('nameserver 127.0.0.1\n');
});
