import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SallyportError } from '../errors/error.ts';
import { formatBytes, parseBytes, readBytes } from './bytes.ts';

describe('sizes', () => {
  test.each([
    ['0', 0],
    ['4096', 4096],
    ['1B', 1],
    ['10KB', 10_000],
    ['1KiB', 1024],
    ['512MiB', 536_870_912],
    ['10GB', 10_000_000_000],
    ['2GiB', 2_147_483_648],
    ['1TiB', 1_099_511_627_776],
    [4096, 4096],
    [0, 0],
  ])('%j is read as %d bytes', (text, bytes) => {
    expect(parseBytes(text)).toBe(bytes);
  });

  test.each([
    ...[
      '',
      ' ',
      '1.5GiB',
      '1,5GB',
      '-1',
      '+1',
      '01',
      '1e3',
      '0x10',
      '1 MiB',
      ' 1MiB',
      '1MiB ',
      '1MiB\n',
      '1mib',
      '1kB',
    ],
    ...['1M', '1G', 'MiB', '1MiBs', '１MiB', '9007199254740993', '99999TiB', 'NaN', 'Infinity', '1n'],
    ...[-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53],
  ])('%j is refused, not guessed at', (value) => {
    expect(readBytes(value)).toBeUndefined();
    expect(() => parseBytes(value)).toThrow(SallyportError);
  });

  test.each([null, undefined, true, [], {}, 1n])('a value of another type (%s) is refused', (value) => {
    expect(readBytes(value)).toBeUndefined();
  });

  test('the error says what was seen and what is allowed', () => {
    expect(() => parseBytes('1.5GiB')).toThrow(
      'Cannot read size "1.5GiB": allowed is a whole number of bytes, alone or with B, KB, MB, GB, TB, KiB, MiB, GiB or TiB ("512MiB")',
    );
  });

  test.each([
    [0, '0B'],
    [1, '1B'],
    [1023, '1023B'],
    [1024, '1KiB'],
    [1000, '1KB'],
    [10_000_000_000, '10GB'],
    [1_500_000, '1500KB'],
    [536_870_912, '512MiB'],
    [1_099_511_627_776, '1TiB'],
  ])('%d bytes are shown as %s', (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text);
  });

  test('every size survives being shown and read', () => {
    fc.assert(
      fc.property(fc.nat(Number.MAX_SAFE_INTEGER), (bytes) => {
        expect(parseBytes(formatBytes(bytes))).toBe(bytes);
        expect(parseBytes(String(bytes))).toBe(bytes);
      }),
    );
  });

  test('any text is read as a safe whole number or not at all', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[0-9]{0,18}[KMGT]?i?B?$/)), (text) => {
        const bytes = readBytes(text);
        expect(bytes === undefined || (Number.isSafeInteger(bytes) && bytes >= 0)).toBe(true);
      }),
    );
  });
});
