/** What the image `host` takes over from a host, shown on a host made up for it. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { hostDigest, hostSkeleton, hostVersion, readHostFacts } from './host-image.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'sallyport-host-'));
  for (const path of ['etc/alternatives', 'usr/lib', 'usr/bin', 'var/lib/dpkg'])
    mkdirSync(join(root, path), { recursive: true });
  for (const name of ['bin', 'lib', 'sbin']) symlinkSync(`usr/${name}`, join(root, name));
  symlinkSync('/usr/bin/mawk', join(root, 'etc/alternatives/awk'));
  writeFileSync(join(root, 'usr/lib/os-release'), 'VERSION="12 (bookworm)"\n');
  writeFileSync(join(root, 'var/lib/dpkg/status'), '');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

it('keeps links into /usr and no other', () => {
  symlinkSync('/opt/vendor/tool', join(root, 'etc/alternatives/tool'));
  symlinkSync('/usr/../etc/shadow', join(root, 'etc/alternatives/trick'));
  writeFileSync(join(root, 'etc/alternatives/README'), 'x');
  expect([...readHostFacts(root).alternatives]).toEqual([['awk', '/usr/bin/mawk']]);
});

it('takes nothing from /etc but alternatives and the loader cache', () => {
  for (const name of ['passwd', 'shadow', 'hosts', 'ld.so.cache'])
    writeFileSync(join(root, 'etc', name), `secret ${name}`);
  const files = hostSkeleton(readHostFacts(root)).filter((entry) => entry.kind === 'file');
  expect(files.map(({ path }) => path)).toEqual(['etc/passwd', 'etc/group', 'etc/nsswitch.conf', 'etc/ld.so.cache']);
  expect(files.filter(({ content }) => String(content).includes('secret')).map(({ path }) => path)).toEqual([
    'etc/ld.so.cache',
  ]);
});

it('has a home of the user and a writable /tmp', () => {
  const skeleton = hostSkeleton(readHostFacts(root));
  expect(skeleton).toContainEqual({ kind: 'folder', path: 'home/user', mode: 0o755, owner: 1000 });
  expect(skeleton).toContainEqual({ kind: 'folder', path: 'tmp', mode: 0o1777 });
  expect(skeleton).toContainEqual({ kind: 'symlink', path: 'bin', target: 'usr/bin' });
});

it('gets another digest when packages change, and says so by its version', () => {
  const [digest, version] = [hostDigest(readHostFacts(root)), hostVersion(root)];
  expect(hostDigest(readHostFacts(root))).toBe(digest);
  utimesSync(join(root, 'var/lib/dpkg/status'), 1, 1);
  expect(hostVersion(root)).not.toBe(version);
  expect(hostDigest(readHostFacts(root))).not.toBe(digest);
});

it('refuses a host whose /bin is a folder of its own', () => {
  rmSync(join(root, 'bin'));
  mkdirSync(join(root, 'bin'));
  expect(() => readHostFacts(root)).toThrow(
    expect.objectContaining({ code: 'image_missing', message: expect.stringContaining('/bin') }),
  );
});
