/** Images of a real host: what is resolved is there, complete and owned as the sandbox needs it. */
import { existsSync, lstatSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openImageStore } from './image-store.ts';

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'sallyport-images-'));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

describe('the image host', () => {
  it('is two layers of ours around the /usr of the host', async () => {
    const image = await openImageStore(home).resolve('host');
    const [top = '', rootfs = ''] = image.lowers;
    expect(image.lowers).toHaveLength(2);
    expect(image.binds).toEqual([{ source: '/usr', target: 'usr' }]);
    expect(statSync(join(top, '.sallyport/init')).mode & 0o7777).toBe(0o555);
    expect(statSync(join(rootfs, 'home/user'))).toMatchObject({ uid: 1000, gid: 1000 });
    expect(statSync(join(rootfs, 'usr')).isDirectory()).toBe(true);
    expect(lstatSync(join(rootfs, 'bin')).isSymbolicLink()).toBe(true);
    expect(existsSync(join(rootfs, 'etc/shadow'))).toBe(false);
  });

  it('has one digest, in the list, in the digests and resolved, in every store', async () => {
    const [one, two] = [openImageStore(home), openImageStore(home)];
    const { digest } = await one.resolve('host');
    expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(two.digests().get('host')).toBe(digest);
    expect(await two.list()).toContainEqual({ name: 'host', digest, lockDifferences: [] });
  });

  it('is resolved again without making anything anew', async () => {
    const store = openImageStore(home);
    const images = await Promise.all([
      store.resolve('host'),
      store.resolve('host'),
      openImageStore(home).resolve('host'),
    ]);
    expect(new Set(images.map(({ lowers }) => lowers.join())).size).toBe(1);
  });
});

describe('an image that is not there', () => {
  it('is refused by its name', async () => {
    await expect(openImageStore(home).resolve('base')).rejects.toMatchObject({ code: 'image_missing' });
    await expect(openImageStore(home).build('none')).rejects.toMatchObject({ code: 'image_missing' });
  });

  it('is refused when the index names it and its folder is gone', async () => {
    const digest = `sha256:${'a'.repeat(64)}`;
    const entry = {
      ...{ digest, recipeDigest: '', architecture: 'amd64', builtAt: '', builder: '' },
      ...{
        user: { uid: 1000, gid: 1000, home: '/home/user' },
        packages: { count: 0, sha256: '' },
        lockDifferences: [],
      },
    };
    mkdirSync(join(home, 'images'));
    writeFileSync(join(home, 'images/index.json'), JSON.stringify({ version: 1, images: { base: entry } }));
    expect(openImageStore(home).digests().get('base')).toBe(digest);
    await expect(openImageStore(home).resolve('base')).rejects.toThrow('is gone');
  });
});
