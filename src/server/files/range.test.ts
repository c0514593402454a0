/** Range headers and the parts they name. */
import { expect, it } from 'vitest';
import { parseRange } from './range.ts';

it.each([
  ['bytes=0-0', { kind: 'part', offset: 0, length: 1 }],
  ['bytes=2-5', { kind: 'part', offset: 2, length: 4 }],
  ['bytes=2-', { kind: 'part', offset: 2, length: 8 }],
  ['bytes=-3', { kind: 'part', offset: 7, length: 3 }],
  ['bytes=-99', { kind: 'part', offset: 0, length: 10 }],
  ['bytes=5-99', { kind: 'part', offset: 5, length: 5 }],
  ['bytes=10-', { kind: 'unsatisfiable' }],
  ['bytes=-0', { kind: 'unsatisfiable' }],
  ['bytes=5-2', { kind: 'whole' }],
  ['bytes=0-1,4-5', { kind: 'whole' }],
  ['lines=0-1', { kind: 'whole' }],
  ['bytes=-', { kind: 'whole' }],
  [undefined, { kind: 'whole' }],
])('%s of ten bytes', (header, expected) => {
  expect(parseRange(header, 10)).toEqual(expected);
});
