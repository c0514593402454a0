/** What a hostile output can do to a terminal: nothing (HX-13). */
import { expect, it } from 'vitest';
import { safeName, safeText } from './safe-text.ts';

it.each([
  ['an OSC 52 clipboard write', '\u001b]52;c;ZXZpbA==\u0007'],
  ['a window title', '\u001b]0;title\u0007'],
  ['an eight-bit CSI', '\u009b2J'],
  ['a bidi override', 'a\u202eb'],
  ['a zero-width joiner', 'a\u200db'],
  ['a backspace', 'a\bb'],
])('shows %s instead of obeying it', (_name, text) => {
  expect(safeText(text)).toMatch(/^[\x20-\x7e]+$/);
});

it('keeps text, newlines and tabs', () => {
  expect(safeText('ü\tx\r\ny\n')).toBe('ü\tx\ny\n');
});

it('keeps a name in one line', () => {
  expect(safeName('a\nb\tc')).toBe('a\\u{a}b\\u{9}c');
});
