/** Arguments that are not UTF-8. */
import { expect, it } from 'vitest';
import { argumentBytes } from './argument-bytes.ts';

const commandLine = Buffer.from('node\0main\0cat\0a\xff\0a\xfe\0\0', 'latin1');

it('come back as the bytes they were given as, each its own', () => {
  const [cat, first, second, empty] = argumentBytes(['cat', 'a\ufffd', 'a\ufffd', ''], () => commandLine);
  expect([cat, empty]).toEqual(['cat', '']);
  expect([first, second].map((bytes) => Buffer.from(bytes ?? '').toString('latin1'))).toEqual(['a\xff', 'a\xfe']);
});

it('stay text when they are a real U+FFFD', () => {
  expect(argumentBytes(['\ufffd'], () => Buffer.from('node\0\ufffd\0')).map(String)).toEqual(['\ufffd']);
});

it('are not looked up when there is no need', () => {
  const never = (): Buffer => {
    throw new Error('not called');
  };
  expect(argumentBytes(['a', 'ü'], never)).toEqual(['a', 'ü']);
});
