import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type HostName, parseHostName } from './host-name.ts';
import { coversPattern, type HostPattern, matchesHost, parseHostPattern } from './host-pattern.ts';

const patternOf = (text: string): HostPattern => {
  const pattern = parseHostPattern(text);
  if (pattern === undefined) throw new Error(`no pattern: ${text}`);
  return pattern;
};
const hostOf = (text: string): HostName => {
  const host = parseHostName(text);
  if (host === undefined) throw new Error(`no host: ${text}`);
  return host;
};

const label = fc.stringMatching(/^[a-z][a-z0-9]{0,3}$/);
const name = fc.array(label, { minLength: 2, maxLength: 4 }).map((labels) => labels.join('.'));
/** Few labels, so that some are below others. */
const fewNames = fc
  .array(fc.constantFrom('a', 'b', 'example'), { minLength: 2, maxLength: 5 })
  .map((labels) => labels.join('.'));
const fewPatterns = fc.tuple(fewNames, fc.boolean()).map(([text, below]) => patternOf(below ? `*.${text}` : text));

describe('a host pattern', () => {
  it('that is a name matches that name only', () => {
    const pattern = patternOf('Example.ORG.');
    expect(pattern.text).toBe('example.org');
    expect(matchesHost(pattern, hostOf('example.org'))).toBe(true);
    for (const host of ['a.example.org', 'example.org.evil', 'evilexample.org', 'org']) {
      expect(matchesHost(pattern, hostOf(host)), host).toBe(false);
    }
  });

  it('with a star matches names below, at any depth, and not the name itself (NX-26)', () => {
    const pattern = patternOf('*.Example.com');
    expect(pattern.text).toBe('*.example.com');
    for (const host of ['a.example.com', 'a.b.example.com', '_x.example.com', 'xn--bcher-kva.example.com']) {
      expect(matchesHost(pattern, hostOf(host)), host).toBe(true);
    }
    for (const host of [
      'example.com',
      'evilexample.com',
      'example.com.evil',
      'a.example.com.evil',
      'a-example.com',
      'com',
    ]) {
      expect(matchesHost(pattern, hostOf(host)), host).toBe(false);
    }
  });

  it.each([
    ...[
      '*',
      '*.',
      '*.com',
      '*.COM.',
      '*.local',
      '*.co.uk',
      '*.com.au',
      '*.or.jp',
      '*.gov.br',
      '*.org.uk',
      '*.go.jp',
      '*.ac.uk',
    ],
    ...[
      'a.*',
      'a.*.b',
      '*a.b',
      'a*.b',
      '**.a.b',
      '*.*.a.b',
      '*..a.b',
      '.a.b',
      'a.b*',
      '*.a.b:443',
      '*.a.b/',
      'https://a.b',
    ],
    ...[
      '*.127.0.0.1',
      '*.1',
      '127.0.0.1',
      '*.0x7f',
      '::1',
      '*.::1',
      '',
      ' *.a.b',
      '*.a.b ',
      '*.a\0.b',
      '＊.a.b',
      '?.a.b',
      '[ab].c.d',
    ],
  ])('is not read from %j', (text) => {
    expect(parseHostPattern(text)).toBeUndefined();
  });

  it('may be above two labels of which the last is a country, unless registries sell names there', () => {
    for (const text of ['*.example.uk', '*.example.co', '*.co.example', '*.a.co.uk']) {
      expect(parseHostPattern(text)?.text).toBe(text);
    }
  });

  it('matches by whole labels, as comparing them one by one from the right does', () => {
    fc.assert(
      fc.property(fewPatterns, fewNames, (pattern, text) => {
        const wanted = pattern.name.split('.').reverse();
        const labels = text.split('.').reverse();
        const isSuffix = wanted.every((part, index) => labels[index] === part);
        const fits = pattern.kind === 'exact' ? labels.length === wanted.length : labels.length > wanted.length;
        expect(matchesHost(pattern, hostOf(text))).toBe(isSuffix && fits);
      }),
    );
  });

  it('with a star never matches a name that ends in it without a dot', () => {
    fc.assert(
      fc.property(name, label, (text, prefix) => {
        const pattern = parseHostPattern(`*.${text}`);
        fc.pre(pattern !== undefined);
        if (pattern === undefined) return;
        expect(matchesHost(pattern, hostOf(`${prefix}${text}`))).toBe(false);
        expect(matchesHost(pattern, hostOf(`${prefix}.${text}`))).toBe(true);
      }),
    );
  });

  it('covers another only when it matches whatever the other matches', () => {
    fc.assert(
      fc.property(fewPatterns, fewPatterns, fewNames, (outer, inner, text) => {
        if (!coversPattern(outer, inner)) return;
        if (matchesHost(inner, hostOf(text))) expect(matchesHost(outer, hostOf(text))).toBe(true);
      }),
    );
    expect(coversPattern(patternOf('*.a.b'), patternOf('*.c.a.b'))).toBe(true);
    expect(coversPattern(patternOf('*.a.b'), patternOf('c.a.b'))).toBe(true);
    expect(coversPattern(patternOf('*.a.b'), patternOf('a.b'))).toBe(false);
    expect(coversPattern(patternOf('a.b'), patternOf('*.a.b'))).toBe(false);
  });
});
