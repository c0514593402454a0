/** Download names that try to break out of their header. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { attachment } from './disposition.ts';

it('shows a plain name as it is', () => {
  expect(attachment(Buffer.from('/work/report.csv'))).toBe(
    `attachment; filename="report.csv"; filename*=UTF-8''report.csv`,
  );
});

it('carries other names percent-encoded, with a plain stand-in', () => {
  expect(attachment(Buffer.from('/a/ü "x"; filename=evil.html'))).toBe(
    `attachment; filename="_ _x__ filename_evil.html"; filename*=UTF-8''%C3%BC%20%22x%22%3B%20filename%3Devil.html`,
  );
});

it('is one valid header value whatever bytes the name has', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      expect(attachment(Buffer.from(bytes))).toMatch(
        /^attachment; filename="[A-Za-z0-9._ -]+"; filename\*=UTF-8''[A-Za-z0-9._~!%-]+$/,
      );
    }),
  );
});
