import { describe, expect, it } from 'vitest';
import { SallyportError } from '../errors/error.ts';
import { parseArtifactPattern } from './artifact-match.ts';

const matches = (glob: string, path: string | Buffer): boolean => parseArtifactPattern(glob).matches(Buffer.from(path));

describe('an artifact pattern', () => {
  it.each([
    ['out/*', 'out/a.svg', true],
    ['out/*', 'out/.hidden', true],
    ['out/*', 'out/deep/a.svg', false],
    ['out/*', 'output/a.svg', false],
    ['out/**', 'out/deep/a.svg', true],
    ['out/**/*.svg', 'out/x/y/a.svg', true],
    ['**/*.csv', 'a/b.csv', true],
    ['*.{csv,json}', 'b.json', true],
    ['result.txt', 'result.txt', true],
    ['result.txt', 'resultXtxt', false],
    ['größe*', 'größe.csv', true],
    ['!out/*', 'elsewhere', false],
  ])('%s on %s: %s', (glob, path, expected) => {
    expect(matches(glob, path)).toBe(expected);
  });

  it('matches a name that is not UTF-8 by its bytes', () => {
    expect(matches('out/*', Buffer.concat([Buffer.from('out/'), Buffer.from([0xff, 0xfe])]))).toBe(true);
  });

  it.each(['', '/etc/*', '../*', 'a/../b', 'a\0b', '*a*a*a*.csv', '**/a/**/b/**'])('refuses %j', (glob) => {
    expect(() => parseArtifactPattern(glob)).toThrow(SallyportError);
  });

  it.each([
    ['out/*', 'out', 1],
    ['out/**', 'out', 64],
    ['*', '', 1],
    ['out/result.txt', 'out', 1],
    ['result.txt', '', 1],
    ['a/*/b/*', 'a', 3],
  ])('%s lists %j down to %i', (glob, base, depth) => {
    expect(parseArtifactPattern(glob)).toMatchObject({ base, depth });
  });
});
