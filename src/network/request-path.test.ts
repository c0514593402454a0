import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ambiguousTarget, normalPath } from './request-path.ts';

const character = fc.constantFrom(
  ...'abzAZ09-_~!$&()+,=:@[]*',
  '%20',
  '%C3%A9',
  '%c3%a9',
  '%40',
  '%5B',
  '%2A',
  '%25',
  '.',
);
const segment = fc.array(character, { minLength: 1, maxLength: 6 }).map((parts) => parts.join(''));
const anyPath = fc.oneof(
  fc.array(segment, { minLength: 1, maxLength: 4 }).map((segments) => `/${segments.join('/')}`),
  fc.string({ unit: fc.constantFrom(...'/.%2eF5cC;\\?#ab\0 é') }).map((text) => `/${text}`),
  fc.webPath(),
);

describe('the path of a request', () => {
  it.each([
    ['/', '/'],
    ['/a/b.txt', '/a/b.txt'],
    ['/a/', '/a/'],
    ['/.well-known/x', '/.well-known/x'],
    ['/a/...', '/a/...'],
    ['/a..b/c', '/a..b/c'],
    ['/~user/@scope', '/~user/@scope'],
    ['/%40scope/x', '/@scope/x'],
    ['/a%20b', '/a%20b'],
    ['/caf%c3%a9', '/caf%C3%A9'],
    ['/a*b', '/a%2Ab'],
    ['/a%2ab', '/a%2Ab'],
    ['/100%25', '/100%25'],
    ['/a%3fb', '/a%3Fb'],
  ])('%s has one spelling', (path, normal) => {
    expect(normalPath(path)).toEqual({ path: normal });
    expect(ambiguousTarget(path)).toBeUndefined();
  });

  it.each([
    ...[
      '',
      '*',
      'a',
      'http://example.org/',
      '//',
      '//admin',
      '/a//b',
      '/a//',
      '/..',
      '/../a',
      '/a/..',
      '/a/../b',
      '/.',
      '/./a',
      '/a/.',
    ],
    ...[
      '/%2e%2e/a',
      '/%2E%2e/a',
      '/.%2e/a',
      '/a%2e',
      '/%2e',
      '/a%2fb',
      '/a%2Fb',
      '/a\\b',
      '/a%5cb',
      '/a%5Cb',
      '/\\',
      '/..\\a',
    ],
    ...[
      '/a;p',
      '/a;jsessionid=1/b',
      '/..;/a',
      '/a%3bp',
      '/a#b',
      '/a?b',
      '/a b',
      '/a\tb',
      '/a\nb',
      '/a\r\nb',
      '/a\0',
      '/a\x7f',
    ],
    ...[
      '/a%00',
      '/a%0a',
      '/a%0D',
      '/a%1f',
      '/a%7f',
      '/%',
      '/%2',
      '/%zz',
      '/a%',
      '/%u002e',
      '/%c0%ae',
      '/%c0%af',
      '/%e0%80%ae',
      '/%ff',
    ],
    ...[
      '/é',
      '/\u2024',
      '/．．/a',
      '/%61dmin',
      '/%41',
      '/%7Euser',
      '/%2d',
      '/%252e',
      '/%252f',
      '/%25%32%65',
      '/%25zz%25af',
      '/a"b',
      '/<a>',
    ],
    ...['/{a}', '/a|b', '/a^b', '/a`b'],
  ])('%j has more than one reading (NX-24)', (path) => {
    expect(ambiguousTarget(path)).toBeTypeOf('string');
  });

  it('is normal once and for all', () => {
    fc.assert(
      fc.property(anyPath, (path) => {
        const normal = normalPath(path);
        if ('path' in normal) expect(normalPath(normal.path)).toEqual(normal);
      }),
    );
  });

  it('decodes to the same as before, so that nothing but the spelling has changed', () => {
    fc.assert(
      fc.property(anyPath, (path) => {
        const normal = normalPath(path);
        if ('path' in normal) expect(decodeURIComponent(normal.path)).toBe(decodeURIComponent(path));
      }),
    );
  });

  it('that is accepted is the same to the URL standard, which resolves dots and turns backslashes', () => {
    fc.assert(
      fc.property(anyPath, (path) => {
        const normal = normalPath(path);
        if ('path' in normal)
          expect(decodeURIComponent(new URL(path, 'http://a').pathname)).toBe(decodeURIComponent(path));
      }),
    );
  });

  it('has one spelling: two that decode alike are normal alike', () => {
    const respelt = segment.map((text) => text.replaceAll('@', '%40').replaceAll('%C3', '%c3').replaceAll('*', '%2A'));
    fc.assert(
      fc.property(segment, respelt, (a, b) => {
        const [first, second] = [normalPath(`/${a}`), normalPath(`/${b}`)];
        if ('path' in first && 'path' in second && decodeURIComponent(a) === decodeURIComponent(b))
          expect(first).toEqual(second);
      }),
    );
  });
});
