/** What of an output stands in a JSON answer. */
import { describe, expect, it } from 'vitest';
import { Capture, captureLimitBytes } from './captured.ts';

function capture(...chunks: readonly (string | Buffer)[]) {
  const captured = new Capture();
  for (const chunk of chunks) captured.add(Buffer.from(chunk));
  return captured.read();
}

describe('Capture', () => {
  it('gives UTF-8 as text, also when a character spans two chunks', () => {
    expect(capture(Buffer.from([0xc3]), Buffer.from([0xbc]))).toEqual({ text: 'ü', bytes: 2, truncated: false });
  });
  it('keeps a byte order mark', () => {
    expect(capture('\ufeffx').text).toBe('\ufeffx');
  });
  it('gives other bytes as base64', () => {
    expect(capture(Buffer.from([0xff, 0x00]))).toEqual({ base64: '/wA=', bytes: 2, truncated: false });
  });
  it('keeps the head and counts the rest', () => {
    const { text, bytes, truncated } = capture('x'.repeat(captureLimitBytes), 'yy');
    expect({ kept: text?.length, bytes, truncated }).toEqual({
      kept: captureLimitBytes,
      bytes: captureLimitBytes + 2,
      truncated: true,
    });
  });
  it.each(['ü', '€', '😀'])('stays text when the limit cuts %s in two', (character) => {
    for (let shift = 0; shift < 4; shift++) {
      const { text, truncated } = capture('x'.repeat(captureLimitBytes - shift) + character.repeat(4));
      expect(truncated).toBe(true);
      expect(text).toMatch(/^x+(.)?\1*$/u);
    }
  });
});
