import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { checkArtifactPath } from './artifact-path.ts';

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
    ['manifest.json/x', 'reserved-name'],
    ['record.json.partial', 'reserved-name'],
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
