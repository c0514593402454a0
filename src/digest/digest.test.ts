import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { canonicalJson, digestOf, sha256Hex } from './digest.ts';

describe('digests', () => {
  test('sha256 of text is that of its UTF-8 bytes', () => {
    expect(sha256Hex('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
    expect(sha256Hex('é')).toBe(sha256Hex(Buffer.from([0xc3, 0xa9])));
  });

  test('canonical JSON follows RFC 8785: keys by UTF-16 units, shortest numbers, no spaces', () => {
    const value = { '\u20ac': 'Euro', '\r': 'CR', '1': 'One', numbers: [333333333.3333333, 1e30, 4.5, 2e-3, -0] };
    expect(canonicalJson(value)).toBe(
      '{"\\r":"CR","1":"One","numbers":[333333333.3333333,1e+30,4.5,0.002,0],"\u20ac":"Euro"}',
    );
  });

  test('a digest does not depend on the order of keys', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue()), (value) => {
        const reversed = Object.fromEntries(Object.entries(value).reverse());
        expect(digestOf(reversed)).toBe(digestOf(value));
      }),
    );
  });

  test('different JSON has different canonical text, and the text reads back as the value', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = canonicalJson(value);
        expect(canonicalJson(JSON.parse(text))).toBe(text);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  test('an undefined property counts as absent', () => {
    expect(canonicalJson({ a: 1, b: undefined })).toBe('{"a":1}');
  });

  test.each([
    ['undefined', undefined, '$'],
    ['NaN', { a: Number.NaN }, '$.a'],
    ['Infinity', { a: [Number.POSITIVE_INFINITY] }, '$.a[0]'],
    ['undefined in a list', { a: [undefined] }, '$.a[0]'],
    ['a hole in a list', { a: new Array(1) }, '$.a[0]'],
    ['a bigint', { a: 1n }, '$.a'],
    ['a function', { a: () => 1 }, '$.a'],
    ['a symbol', { a: Symbol('s') }, '$.a'],
    ['a Map', { a: new Map([['b', 1]]) }, '$.a'],
    ['a Date', { a: new Date(0) }, '$.a'],
    ['a Buffer', { a: Buffer.from('x') }, '$.a'],
    ['half a surrogate pair', { a: '\ud800' }, '$.a'],
    ['half a surrogate pair in a key', { '\udc00': 1 }, '$'],
  ])('%s is refused by place', (_name, value, place) => {
    expect(() => canonicalJson(value)).toThrow(`Cannot digest ${place}`);
  });

  test('a value that contains itself is refused; one that occurs twice is not', () => {
    const loop: { self?: unknown } = {};
    loop.self = loop;
    expect(() => canonicalJson(loop)).toThrow('it contains itself');
    const shared = { x: 1 };
    expect(canonicalJson([shared, shared])).toBe('[{"x":1},{"x":1}]');
  });
});
