import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SallyportError } from '../errors/error.ts';
import { formatDuration, parseDuration, readDuration } from './duration.ts';

describe('durations', () => {
  test.each([
    ['0s', 0],
    ['250ms', 250],
    ['30s', 30_000],
    ['5m', 300_000],
    ['90m', 5_400_000],
    ['1h', 3_600_000],
    ['2d', 172_800_000],
  ])('%j is read as %d ms', (text, ms) => {
    expect(parseDuration(text)).toBe(ms);
  });

  test.each([
    '',
    '30',
    '0',
    '1.5h',
    '1h30m',
    '-1s',
    '05m',
    '1 h',
    '1H',
    '5M',
    '5min',
    '1e3s',
    's',
    '1s\n',
    '999999999999999d',
  ])('%j is refused, not guessed at', (text) => {
    expect(readDuration(text)).toBeUndefined();
    expect(() => parseDuration(text)).toThrow(SallyportError);
  });

  test('a plain number is refused: its unit is unknown', () => {
    expect(readDuration(30)).toBeUndefined();
  });

  test.each([
    [0, '0ms'],
    [1500, '1500ms'],
    [30_000, '30s'],
    [5_400_000, '90m'],
    [3_600_000, '1h'],
    [86_400_000, '1d'],
  ])('%d ms are shown as %s', (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });

  test('every duration survives being shown and read', () => {
    fc.assert(
      fc.property(fc.nat(Number.MAX_SAFE_INTEGER), (ms) => {
        expect(parseDuration(formatDuration(ms))).toBe(ms);
      }),
    );
  });
});
