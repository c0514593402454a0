/** Names of files as text. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { displayName } from './display-name.ts';

it.each([
  ['report.csv', 'report.csv'],
  ['ünïcode 文', 'ünïcode 文'],
  ['100%', '100%25'],
  ['new\nline', 'new%0Aline'],
  ['\u202egnp.exe', '%E2%80%AEgnp.exe'],
])('%j is shown as %j', (name, shown) => expect(displayName(Buffer.from(name))).toBe(shown));

it('shows bytes that are no UTF-8 as numbers', () => {
  expect(displayName(Buffer.from([0x61, 0xff, 0x20]))).toBe('a%FF%20');
});

it('never shows two names alike', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 12 }), fc.uint8Array({ maxLength: 12 }), (a, b) => {
      const [left, right] = [Buffer.from(a), Buffer.from(b)];
      expect(displayName(left) === displayName(right)).toBe(left.equals(right));
    }),
  );
});
