import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SallyportError } from '../errors/error.ts';
import { encodeFrame, type Frame, FrameDecoder, hostFrame, initFrame } from './frame.ts';
import { headerBytes, outputFrameBytes, payloadBytes } from './limits.ts';
import { decodeMessage } from './messages.ts';

interface Plain {
  readonly type: number;
  readonly stream: number;
  readonly payload: string;
}

const fixed = [
  [initFrame.ready, 4, false],
  [initFrame.started, 4, true],
  [initFrame.stdinCredit, 4, true],
  [initFrame.exit, 56, true],
  [initFrame.closed, 8, true],
  [initFrame.pong, 8, false],
  [initFrame.disk, 32, false],
] as const;

const streamId = fc.integer({ min: 1, max: 0xffff_ffff });
const fixedFrame = fc
  .constantFrom(...fixed)
  .chain(([type, length, hasStream]) =>
    fc
      .tuple(hasStream ? streamId : fc.constant(0), fc.uint8Array({ minLength: length, maxLength: length }))
      .map(([stream, payload]) => encodeFrame(type, stream, payload)),
  );
const outputFrame = fc
  .tuple(fc.constantFrom(initFrame.stdout, initFrame.stderr), streamId, fc.uint8Array({ minLength: 1, maxLength: 300 }))
  .map(([type, stream, payload]) => encodeFrame(type, stream, payload));
const anyFrame = fc.oneof(fixedFrame, outputFrame);

describe('the frame decoder', () => {
  it('decodes any frames in any pieces to the same', () => {
    fc.assert(
      fc.property(fc.array(anyFrame, { maxLength: 20 }), fc.array(fc.nat(400), { maxLength: 60 }), (frames, cuts) => {
        const wire = Buffer.concat(frames);
        const whole = decode([wire]);
        expect(whole.thrown).toBeUndefined();
        expect(whole.frames.map(encodeAgain)).toEqual(frames.map((frame) => frame.toString('hex')));
        expect(decode(cutAt(wire, cuts)).frames).toEqual(whole.frames);
        expect(decode(cutAt(wire, [1])).frames).toEqual(whole.frames);
      }),
    );
  });

  it('yields frames or throws init_protocol on garbage, with bounded memory', () => {
    fc.assert(
      fc.property(fc.array(garbage(), { maxLength: 12 }), fc.array(fc.nat(40), { maxLength: 20 }), (parts, cuts) => {
        const { thrown, mostPending } = decode(cutAt(Buffer.concat(parts), cuts));
        expect(thrown === undefined || isProtocolError(thrown)).toBe(true);
        expect(mostPending).toBeLessThanOrEqual(headerBytes + outputFrameBytes);
      }),
      { numRuns: 500 },
    );
  });

  it('hands on the frames before a broken one, whatever the pieces', () => {
    const wire = Buffer.concat([encodeFrame(initFrame.stdout, 1, Buffer.from('a')), Buffer.alloc(12, 0xff)]);
    for (const pieces of [[wire], cutAt(wire, [1]), cutAt(wire, [13])]) {
      const { frames, thrown } = decode(pieces);
      expect(frames).toEqual([{ type: initFrame.stdout, stream: 1, payload: '61' }]);
      expect(isProtocolError(thrown)).toBe(true);
    }
  });

  it('does not copy a payload that lies in one piece', () => {
    const wire = encodeFrame(initFrame.stdout, 1, Buffer.alloc(5_000));
    new FrameDecoder().push(wire, ({ payload }) => expect(payload.buffer).toBe(wire.buffer));
  });

  it('keeps a payload in a buffer of its own when it came in pieces', () => {
    const wire = encodeFrame(initFrame.stdout, 1, Buffer.alloc(5_000, 7));
    const seen: Buffer[] = [];
    const decoder = new FrameDecoder();
    for (const piece of cutAt(wire, [100])) decoder.push(piece, ({ payload }) => seen.push(payload));
    expect(seen.map(({ buffer }) => buffer.byteLength)).toEqual([5_000]);
  });

  it.each([
    ['a frame of the host', encodeFrame(hostFrame.ping, 0, Buffer.alloc(8))],
    ['an unknown type', encodeFrame(0x8b, 0)],
    ['a flag', withByte(encodeFrame(initFrame.stdout, 1, Buffer.from('a')), 5, 1)],
    ['a reserved byte', withByte(encodeFrame(initFrame.stdout, 1, Buffer.from('a')), 7, 1)],
    ['empty output', encodeFrame(initFrame.stdout, 1)],
    ['too much output', encodeFrame(initFrame.stderr, 1, Buffer.alloc(outputFrameBytes + 1))],
    ['a READY that is too long', encodeFrame(initFrame.ready, 0, Buffer.alloc(5))],
    ['an EXIT that is too short', encodeFrame(initFrame.exit, 1, Buffer.alloc(55))],
    ['output for no stream', encodeFrame(initFrame.stdout, 0, Buffer.from('a'))],
    ['a PONG for a stream', encodeFrame(initFrame.pong, 1, Buffer.alloc(8))],
    ['a FATAL with too long a text', encodeFrame(initFrame.fatal, 0, Buffer.alloc(261))],
  ])('refuses %s before its payload is there', (_, wire) => {
    const { frames, thrown } = decode([wire.subarray(0, headerBytes)]);
    expect(frames).toEqual([]);
    expect(isProtocolError(thrown)).toBe(true);
  });

  it('never encodes a payload past the limit', () => {
    expect(() => encodeFrame(hostFrame.spawn, 1, Buffer.alloc(payloadBytes + 1))).toThrow(RangeError);
  });
});

describe('messages', () => {
  it('are decoded or refused with init_protocol', () => {
    fc.assert(
      fc.property(anyFrame, (wire) => {
        let message: unknown;
        let thrown: unknown;
        new FrameDecoder().push(wire, (frame) => {
          try {
            message = decodeMessage(frame);
          } catch (error) {
            thrown = error;
          }
        });
        expect(message === undefined).toBe(isProtocolError(thrown));
      }),
    );
  });

  it('carry every number of an EXIT', () => {
    const payload = exitPayload([1, 9, 0, 1], [10n, 11n, 12n, 13n, 14n]);
    expect(messageOf(encodeFrame(initFrame.exit, 3, payload))).toEqual({
      kind: 'exit',
      stream: 3,
      report: {
        outcome: { kind: 'signalled', signal: 9 },
        killed: true,
        discarded: { stdout: 10, stderr: 11 },
        userMicros: 12,
        systemMicros: 13,
        maxRssKib: 14,
      },
    });
  });

  it.each([
    ['an exit status past 255', [0, 256, 0, 0]],
    ['the signal 0', [1, 0, 0, 0]],
    ['the signal 65', [1, 65, 0, 0]],
    ['an unknown kind', [4, 0, 0, 0]],
    ['an unknown stage', [2, 2, 21, 0]],
    ['an unknown flag', [0, 0, 0, 2]],
  ])('refuse an EXIT with %s', (_, words) => {
    const frame = encodeFrame(initFrame.exit, 1, exitPayload(words, [0n, 0n, 0n, 0n, 0n]));
    expect(() => messageOf(frame)).toThrow(expect.objectContaining({ code: 'init_protocol' }));
  });

  it('refuse a READY of another version', () => {
    const frame = encodeFrame(initFrame.ready, 0, Buffer.from([2, 0, 0, 0]));
    expect(() => messageOf(frame)).toThrow(/version 2/);
  });
});

function messageOf(wire: Buffer): unknown {
  const messages: unknown[] = [];
  new FrameDecoder().push(wire, (frame) => messages.push(decodeMessage(frame)));
  return messages[0];
}

function exitPayload(words: readonly number[], counters: readonly bigint[]): Buffer {
  const payload = Buffer.alloc(56);
  for (const [index, word] of words.entries()) payload.writeUInt32LE(word, index * 4);
  for (const [index, counter] of counters.entries()) payload.writeBigUInt64LE(counter, 16 + index * 8);
  return payload;
}

function decode(pieces: readonly Buffer[]): { frames: Plain[]; thrown: unknown; mostPending: number } {
  const decoder = new FrameDecoder();
  const frames: Plain[] = [];
  let mostPending = 0;
  try {
    for (const piece of pieces) {
      decoder.push(piece, (frame) => frames.push(plain(frame)));
      mostPending = Math.max(mostPending, decoder.pendingBytes);
    }
  } catch (thrown) {
    return { frames, thrown, mostPending };
  }
  return { frames, thrown: undefined, mostPending };
}

function plain({ type, stream, payload }: Frame): Plain {
  return { type, stream, payload: payload.toString('hex') };
}

function encodeAgain({ type, stream, payload }: Plain): string {
  return encodeFrame(type, stream, Buffer.from(payload, 'hex')).toString('hex');
}

/** Pieces of the given sizes, over and over; 0 is an empty piece. */
function cutAt(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const pieces: Buffer[] = [];
  const total = sizes.reduce((sum, size) => sum + size, 0);
  for (let at = 0, index = 0; at < bytes.length; index++) {
    const size = total === 0 ? bytes.length : (sizes[index % sizes.length] ?? 1);
    // a piece of its own memory, as a socket gives it
    pieces.push(Buffer.from(bytes.subarray(at, at + size)));
    at += size;
  }
  return pieces;
}

/** Random bytes, good frames, and headers that are nearly right. */
function garbage(): fc.Arbitrary<Buffer> {
  const header = fc
    .tuple(fc.oneof(fc.nat(100), fc.nat(0xffff_ffff)), fc.integer({ min: 0x80, max: 0x8c }), fc.nat(3))
    .map(([length, type, stream]) => {
      const bytes = Buffer.alloc(headerBytes);
      bytes.writeUInt32LE(length, 0);
      bytes.writeUInt32LE(type, 4);
      bytes.writeUInt32LE(stream, 8);
      return bytes;
    });
  return fc.oneof(
    fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
    header,
    anyFrame,
  );
}

function withByte(bytes: Buffer, at: number, value: number): Buffer {
  bytes[at] = value;
  return bytes;
}

function isProtocolError(thrown: unknown): boolean {
  return thrown instanceof SallyportError && thrown.code === 'init_protocol';
}
