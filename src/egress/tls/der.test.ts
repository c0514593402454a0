import { describe, expect, it } from 'vitest';
import { bitString, element, integer, oid, time } from './der.ts';

const hex = (bytes: Buffer): string => bytes.toString('hex');

describe('DER', () => {
  it.each([
    [0, '0400'],
    [127, '047f'],
    [128, '048180'],
    [255, '0481ff'],
    [256, '04820100'],
    [65_536, '0483010000'],
  ])('writes the shortest length of %s bytes', (length, start) => {
    const bytes = element(4, Buffer.alloc(length));
    expect(hex(bytes).slice(0, start.length)).toBe(start);
    expect(bytes).toHaveLength(start.length / 2 + length);
  });

  it('writes numbers that are not negative', () => {
    expect(hex(integer(Buffer.from([0x7f])))).toBe('02017f');
    expect(hex(integer(Buffer.from([0x80])))).toBe('02020080');
    expect(hex(integer(Buffer.from([0])))).toBe('020100');
  });

  it.each([
    ['2.5.29.17', '0603551d11'],
    ['1.2.840.10045.4.3.2', '06082a8648ce3d040302'],
    ['1.3.6.1.5.5.7.3.1', '06082b06010505070301'],
  ])('writes the object identifier %s', (dotted, expected) => {
    expect(hex(oid(dotted))).toBe(expected);
  });

  it('writes bits with those that do not count', () => {
    expect(hex(bitString(Buffer.from([0x04]), 2))).toBe('03020204');
  });

  it('writes two digits of the year until 2049, then four', () => {
    expect(time(new Date('2049-12-31T23:59:59.999Z')).toString('latin1')).toBe('\x17\x0d491231235959Z');
    expect(time(new Date('2050-01-01T00:00:00Z')).toString('latin1')).toBe('\x18\x0f20500101000000Z');
  });
});
