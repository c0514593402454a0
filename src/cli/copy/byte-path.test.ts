/** Paths as bytes. */
import { describe, expect, it } from 'vitest';
import { baseName, isBeneath, joinPath } from './byte-path.ts';
import { parsePlace } from './place.ts';

const bytes = (text: string) => Buffer.from(text, 'latin1');

describe('paths', () => {
  it('are joined with one slash, byte for byte', () => {
    expect(joinPath(bytes('/a'), bytes('\xff')).toString('latin1')).toBe('/a/\xff');
    expect(joinPath(bytes('/a/'), bytes('b')).toString()).toBe('/a/b');
  });
  it.each([
    ['/a/b', 'b'],
    ['/a/b//', 'b'],
    ['b', 'b'],
    ['/', ''],
  ])('%s ends in the name %j', (path, name) => {
    expect(baseName(bytes(path)).toString()).toBe(name);
  });
  it.each(['a', 'a/b', '...', 'a..b', '\xff'])('%j stays beneath', (path) => {
    expect(isBeneath(bytes(path))).toBe(true);
  });
  it.each(['', '/a', 'a//b', '..', 'a/../../b', './a', 'a/', 'a\0b'])('%j does not', (path) => {
    expect(isBeneath(bytes(path))).toBe(false);
  });
});

describe('parsePlace', () => {
  it.each([
    ['sb-1a:/x:y', { kind: 'sandbox', id: 'sb-1a', path: bytes('/x:y') }],
    ['sb-1a:', { kind: 'sandbox', id: 'sb-1a', path: bytes('') }],
    ['./a:b', { kind: 'local', path: bytes('./a:b') }],
    ['/a:b', { kind: 'local', path: bytes('/a:b') }],
    ['plain', { kind: 'local', path: bytes('plain') }],
  ])('%s', (text, place) => {
    expect(parsePlace(text)).toEqual(place);
  });
});
