/** Query strings: what is decoded, and what no schema will accept. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseQueryString } from './query-string.ts';

describe('parseQueryString', () => {
  it('decodes once, not twice', () => {
    expect(parseQueryString('path=%252e%252e%2Fx')).toEqual({ path: '%2e%2e/x' });
  });
  it('takes "+" for a space, as forms do', () => {
    expect(parseQueryString('a+b=c+d%2B')).toEqual({ 'a b': 'c d+' });
  });
  it('gives null for a broken escape and for overlong UTF-8', () => {
    expect(parseQueryString('path=%zz')).toEqual({ path: null });
    expect(parseQueryString('path=%c0%ae')).toEqual({ path: null });
    expect(parseQueryString('path=%ff')).toEqual({ path: null });
  });
  it('makes a key given twice a list', () => {
    expect(parseQueryString('path=a&path=b')).toEqual({ path: [] });
  });
  it('keeps __proto__ an ordinary key', () => {
    const query = parseQueryString('__proto__=x');
    expect(Object.keys(query)).toEqual(['__proto__']);
    expect(Object.getPrototypeOf(query)).toBe(null);
  });
  it('gives back what was encoded, whatever it was', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        expect({ ...parseQueryString(`path=${encodeURIComponent(text)}`) }).toEqual({ path: text });
      }),
    );
  });
  it('never throws', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => void parseQueryString(text)));
  });
});
