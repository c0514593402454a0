import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { checkArtifactPath, displayPath } from './artifact-path.ts';

describe('an artifact path', () => {
  it.each([
    ['out/chart.svg', ['out', 'chart.svg']],
    ['a b/-rf', ['a b', '-rf']],
    ['new\nline', ['new\nline']],
    ['out/manifest.json', ['out', 'manifest.json']],
  ])('%j is taken part by part', (path, parts) => {
    const checked = checkArtifactPath(Buffer.from(path));
    expect(checked.ok && checked.parts.map(String)).toEqual(parts);
  });

  it.each([
    ['../x', 'unsafe-path'],
    ['a/../b', 'unsafe-path'],
    ['/etc/passwd', 'unsafe-path'],
    ['a//b', 'unsafe-path'],
    ['a/./b', 'unsafe-path'],
    ['a/', 'unsafe-path'],
    ['', 'path-length'],
    ['a\0b', 'nul-in-name'],
    ['manifest.json', 'reserved-name'],
    ['record.json', 'reserved-name'],
    ['x'.repeat(256), 'name-length'],
    ['x/'.repeat(2100), 'path-length'],
  ])('FS-21: %j is refused as %s', (path, reason) => {
    expect(checkArtifactPath(Buffer.from(path))).toEqual({ ok: false, reason });
  });

  it('FS-20: bytes that are not UTF-8 stay what they are', () => {
    const checked = checkArtifactPath(Buffer.from([0xff, 0x2f, 0xfe, 0x80]));
    expect(checked.ok && checked.parts).toEqual([Buffer.from([0xff]), Buffer.from([0xfe, 0x80])]);
  });

  it('never yields a part that climbs, is empty or holds a slash', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        const checked = checkArtifactPath(Buffer.from(bytes));
        if (!checked.ok) return;
        for (const part of checked.parts) {
          expect(part.length).toBeGreaterThan(0);
          expect(['.', '..']).not.toContain(part.toString('latin1'));
          expect(part.includes(0x2f) || part.includes(0)).toBe(false);
        }
      }),
    );
  });
});

describe('the shown name', () => {
  it.each([
    [Buffer.from('out/größe.csv'), 'out/größe.csv'],
    [Buffer.from('100%'), '100%25'],
    [Buffer.from('a\nb\x1b[2J'), 'a%0Ab%1B[2J'],
    [Buffer.from([0x61, 0xff]), 'a%FF'],
    [Buffer.from('\u202Egnp.exe'), '%E2%80%AEgnp.exe'],
  ])('escapes what could lie on a terminal (HX-13)', (bytes, shown) => {
    expect(displayPath(bytes)).toBe(shown);
  });

  it('loses nothing: two names never look the same', () => {
    const name = fc.uint8Array({ minLength: 1, maxLength: 12 }).map((bytes) => Buffer.from(bytes));
    fc.assert(fc.property(name, name, (a, b) => a.equals(b) === (displayPath(a) === displayPath(b))));
  });

  it('can be turned back into the bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 24 }), (bytes) => {
        const shown = displayPath(Buffer.from(bytes));
        expect(unescapeBytes(shown).equals(Buffer.from(bytes))).toBe(true);
      }),
    );
  });
});

function unescapeBytes(shown: string): Buffer {
  const parts = shown.split(/(%[0-9A-F]{2})/).filter((part) => part !== '');
  return Buffer.concat(
    parts.map((part) => (/^%[0-9A-F]{2}$/.test(part) ? Buffer.from(part.slice(1), 'hex') : Buffer.from(part))),
  );
}
