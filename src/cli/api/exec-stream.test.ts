/** The exec stream, however the network cuts it. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ExecEvent, ExecStreamParser } from './exec-stream.ts';

function frame(channel: number, payload: string | Buffer): Buffer {
  const bytes = Buffer.from(payload);
  const header = Buffer.alloc(8);
  header.writeUInt8(channel, 0);
  header.writeUInt32BE(bytes.length, 4);
  return Buffer.concat([header, bytes]);
}

function parse(chunks: readonly Buffer[]): ExecEvent[] {
  const parser = new ExecStreamParser();
  return chunks.flatMap((chunk) => [...parser.push(chunk)]);
}

const start = { type: 'start', execId: 'ex-0' } as const;

describe('ExecStreamParser', () => {
  it('gives the same output and messages wherever the bytes are cut', () => {
    const whole = Buffer.concat([
      frame(3, JSON.stringify(start)),
      frame(1, 'hello'),
      frame(2, 'oops'),
      frame(1, ' you'),
    ]);
    fc.assert(
      fc.property(fc.array(fc.nat(whole.length)), (cuts) => {
        const at = [0, ...cuts.sort((a, b) => a - b), whole.length];
        const events = parse(at.slice(1).map((end, index) => whole.subarray(at[index], end)));
        const text = (channel: string) =>
          events.map((event) => (event.type === 'output' && event.channel === channel ? event.data : '')).join('');
        expect([text('stdout'), text('stderr')]).toEqual(['hello you', 'oops']);
        expect(events.filter((event) => event.type === 'message')).toEqual([{ type: 'message', message: start }]);
      }),
    );
  });
  it.each([
    ['an unknown channel', frame(4, 'x')],
    ['an empty frame', frame(1, '')],
    ['a message of more than 1 MiB', Buffer.from([3, 0, 0, 0, 0, 0x20, 0, 0])],
  ])('refuses %s', (_name, bytes) => {
    expect(() => parse([bytes])).toThrow(/exec stream/);
  });
});
