import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { globOfPath, matchesAll, matchesPath, type PathGlob, parsePathGlob } from './path-glob.ts';
import { normalPath } from './request-path.ts';

const globOf = (text: string): PathGlob => {
  const glob = parsePathGlob(text);
  if (glob === undefined) throw new Error(`no glob: ${text}`);
  return glob;
};
const matches = (glob: string, path: string): boolean => {
  const normal = normalPath(path);
  return 'path' in normal && matchesPath(globOf(glob), normal.path);
};

const name = fc.stringMatching(/^[ab]{1,3}$/);
const path = fc
  .array(fc.oneof(name, fc.constant('')), { minLength: 1, maxLength: 5 })
  .map((names) => `/${names.join('/')}`);
const glob = fc
  .array(fc.oneof(name, fc.constantFrom('*', '**', 'a*', '*b', 'a*b', '*a*')), { minLength: 1, maxLength: 5 })
  .map((segments) => `/${segments.join('/')}`);

/** What the glob means, said as a regular expression. */
function meaning(text: string): RegExp {
  const segments = text.slice(1).split('/');
  const parts = segments.map((segment) =>
    segment === '**' ? '(?:/[^/]*)*' : `/${segment === '*' ? '[^/]+' : segment.replaceAll('*', '[^/]*')}`,
  );
  return new RegExp(`^${parts.join('')}$`);
}

describe('a path glob', () => {
  it.each([
    ['/', '/', true],
    ['/', '/a', false],
    ['/a', '/a', true],
    ['/a', '/a/', false],
    ['/a', '/A', false],
    ['/a', '/ab', false],
    ['/*', '/a', true],
    ['/*', '/', false],
    ['/*', '/a/b', false],
    ['/a/*', '/a/', false],
    ['/a/*/c', '/a/b/c', true],
    ['/a/*/c', '/a/b/d/c', false],
    ['/**', '/', true],
    ['/**', '/a/b/c', true],
    ['/a/**', '/a', true],
    ['/a/**', '/a/', true],
    ['/a/**', '/a/b/c', true],
    ['/a/**', '/ab', false],
    ['/a/**/z', '/a/z', true],
    ['/a/**/z', '/a/b/c/z', true],
    ['/a/**/z', '/a/b/c/y', false],
    ['/v*/x', '/v1/x', true],
    ['/v*/x', '/v/x', true],
    ['/*.tgz', '/a.tgz', true],
    ['/*.tgz', '/a.tgz/b', false],
    ['/simple/*/', '/simple/requests/', true],
    ['/@scope/*', '/%40scope/x', true],
    ['/%40scope/*', '/@scope/x', true],
    ['/caf%c3%a9', '/caf%C3%A9', true],
    ['/a%2Ab', '/a*b', true],
    ['/a%2Ab', '/axb', false],
    ['/a.b', '/axb', false],
    ['/(a)', '/a', false],
    ['/[ab]', '/a', false],
    ['/[ab]', '/[ab]', true],
    ['/!a', '/b', false],
    ['/a+', '/aa', false],
  ] as const)('%s on %s: %s', (text, target, expected) => {
    expect(matches(text, target)).toBe(expected);
  });

  it.each([
    ...[
      '',
      'a',
      'a/b',
      '**',
      '*',
      '/a**',
      '/**a',
      '/***',
      '/a/***',
      '/a//b',
      '//',
      '/..',
      '/a/../b',
      '/./a',
      '/a?b',
      '/a#b',
      '/a;b',
    ],
    ...['/a\\b', '/%2e', '/%2f', '/%61', '/é', '/a b', '/{a,b}', '/%', '/%*41', '/%4*', '/a\0', '/(a|b)'],
  ])('is not read from %j', (text) => {
    expect(parsePathGlob(text)).toBeUndefined();
  });

  it('means what its regular expression means', () => {
    fc.assert(
      fc.property(glob, path, (text, target) => {
        expect(matchesPath(globOf(text), target)).toBe(meaning(text).test(target));
      }),
      { numRuns: 2_000 },
    );
  });

  it('of a path matches that path and no other', () => {
    const odd = fc
      .string({ unit: fc.constantFrom('a', 'b', '*', '**', '%2A', '@', '%40', '/', '.') })
      .map((text) => `/${text}`);
    fc.assert(
      fc.property(odd, odd, (mine, other) => {
        const text = globOfPath(mine);
        if (text === undefined) return;
        const [a, b] = [normalPath(mine), normalPath(other)];
        expect(matches(text, mine)).toBe(true);
        if ('path' in a && 'path' in b) expect(matches(text, other)).toBe(a.path === b.path);
      }),
    );
  });

  it('matches all only when it is made of "**"', () => {
    expect(matchesAll(globOf('/**'))).toBe(true);
    expect(matchesAll(globOf('/**/**'))).toBe(true);
    expect(matchesAll(globOf('/**/*'))).toBe(false);
    expect(matchesAll(globOf('/*'))).toBe(false);
  });

  it('takes time in proportion, whatever the path', () => {
    const began = performance.now();
    const hard = globOf(`/${'**/a*a*a*a*b/'.repeat(8)}end`);
    expect(matchesPath(hard, `/${`${'a'.repeat(200)}/`.repeat(200)}x`)).toBe(false);
    expect(performance.now() - began).toBeLessThan(500);
  });
});
