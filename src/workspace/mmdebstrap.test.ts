/** The command of an image build, and the recipe it comes from. */
import { statSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { confined, mmdebstrapArguments, mmdebstrapEnvironment, scratchMountPoint } from './mmdebstrap.ts';
import { readRecipe } from './recipe.ts';
import { readRecipeLock } from './recipe-lock.ts';

const recipe = readRecipe('base');

describe('the recipe base', () => {
  it('brings what the README promises', () => {
    const wanted = [
      'bash',
      'coreutils',
      'python3',
      'python-is-python3',
      'nodejs',
      'npm',
      'git',
      'curl',
      'ca-certificates',
      'sudo',
    ];
    expect(recipe.packages).toEqual(expect.arrayContaining(wanted));
    expect(recipe.user).toEqual({ name: 'user', uid: 1000, gid: 1000, home: '/home/user' });
    expect(statSync(recipe.customize).mode & 0o111).not.toBe(0);
  });
  it('has a lock that names every package of the recipe and a digest', () => {
    const { packages, digests } = readRecipeLock('base');
    for (const name of recipe.packages) expect(packages.has(name), name).toBe(true);
    expect(digests.get('amd64')).toMatch(/^sha256:[0-9a-f]{64}$/);
  });
  it.each(['none', '../base', 'base/..', ''])('is the only one: %j is refused', (name) => {
    expect(() => readRecipe(name)).toThrow(expect.objectContaining({ code: 'image_missing' }));
  });
});

describe('the command', () => {
  it('takes suite, packages and the last step from the recipe, sources from standard input', () => {
    const command = mmdebstrapArguments(recipe, 'amd64', '/home/images/x.tar', ['Acquire::Retries "3";']);
    expect(command.slice(-3)).toEqual(['bookworm', '/home/images/x.tar', '-']);
    expect(command).toContain('--aptopt=Acquire::Retries "3";');
    expect(command).toContain('--aptopt=APT::Install-Recommends "0"');
    expect(command).toContain(`--customize-hook=${recipe.customize}`);
    expect(command.find((word) => word.startsWith('--include='))).toContain('nodejs,npm,procps');
  });
  it('fixes every time by SOURCE_DATE_EPOCH', () => {
    expect(mmdebstrapEnvironment(recipe)).toMatchObject({ SOURCE_DATE_EPOCH: '1735689600', USER_UID: '1000' });
  });
  it('runs where its mounts and processes end with us', () => {
    const words = confined(['mmdebstrap'], '/home/images/scratch', '/media');
    expect(words.slice(0, 3)).toEqual(['setpriv', '--pdeathsig', 'KILL']);
    expect(words).toContain('--kill-child=KILL');
    expect(words.slice(-4)).toEqual(['sh', '/home/images/scratch', '/media', 'mmdebstrap']);
  });
  it('never hides the state folder behind its scratch mount', () => {
    expect(scratchMountPoint(['/var/lib/sallyport'])).toBe('/media');
    expect(scratchMountPoint(['/media/disk/sallyport'])).toBe('/srv');
  });
});
