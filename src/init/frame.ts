/**
 * Frames on the wire (docs/init-protocol.md): encoding, and a decoder that takes the bytes in any pieces. A broken rule is
 * the error `init_protocol`; the decoder keeps at most one unfinished frame.
 */
import { SallyportError } from '../errors/error.ts';
import { headerBytes, payloadBytes } from './limits.ts';

export const hostFrame = {
  hello: 0x01,
  spawn: 0x02,
  file: 0x03,
  stdin: 0x04,
  stdinEof: 0x05,
  credit: 0x06,
  signal: 0x07,
  kill: 0x08,
  resize: 0x09,
  ping: 0x0a,
  discard: 0x0b,
} as const;

export const initFrame = {
  ready: 0x81,
  started: 0x82,
  stdout: 0x83,
  stderr: 0x84,
  stdinCredit: 0x85,
  exit: 0x86,
  closed: 0x87,
  pong: 0x88,
  disk: 0x89,
  fatal: 0x8a,
} as const;

export interface Frame {
  readonly type: number;
  readonly stream: number;
  readonly payload: Buffer;
}

export function encodeFrame(type: number, stream: number, payload: Uint8Array = new Uint8Array(0)): Buffer {
  const frame = Buffer.allocUnsafe(headerBytes + payload.length);
  frame.writeUInt32LE(payload.length, 0);
  frame.writeUInt32LE(type, 4); // type, flags and reserved: the upper bytes are 0
  frame.writeUInt32LE(stream, 8);
  frame.set(payload, headerBytes);
  return frame;
}

export class FrameDecoder {
  #pieces: Buffer[] = [];
  #size = 0;

  /** Bytes kept of an unfinished frame. */
  get pendingBytes(): number {
    return this.#size;
  }

  /** @returns the frames that are complete now. @throws SallyportError `init_protocol` */
  push(bytes: Buffer): Frame[] {
    this.#pieces.push(bytes);
    this.#size += bytes.length;
    const frames: Frame[] = [];
    for (let frame = this.#next(); frame !== undefined; frame = this.#next()) frames.push(frame);
    return frames;
  }

  #next(): Frame | undefined {
    if (this.#size < headerBytes) return undefined;
    const header = this.#front(headerBytes);
    const length = header.readUInt32LE(0);
    const word = header.readUInt32LE(4);
    if (length > payloadBytes) throw broken(`a payload of ${length} bytes, the limit is ${payloadBytes}`);
    if (word < initFrame.ready || word > initFrame.fatal)
      throw broken(`type, flags and reserved bytes ${word.toString(16)}`);
    const stream = header.readUInt32LE(8);
    if (this.#size < headerBytes + length) return undefined;
    const whole = this.#front(headerBytes + length);
    this.#drop(headerBytes + length);
    return { type: word, stream, payload: whole.subarray(headerBytes) };
  }

  /** The first bytes in one piece: copied only when they lie in several. */
  #front(count: number): Buffer {
    const [first] = this.#pieces;
    if (first !== undefined && first.length >= count) return first.subarray(0, count);
    const joined = Buffer.concat(this.#pieces, this.#size);
    this.#pieces = [joined];
    return joined.subarray(0, count);
  }

  #drop(count: number): void {
    const [first = Buffer.alloc(0), ...rest] = this.#pieces;
    const left = first.subarray(count);
    this.#pieces = left.length > 0 ? [left, ...rest] : rest;
    this.#size -= count;
  }
}

export function broken(what: string): SallyportError {
  return new SallyportError('init_protocol', `Cannot understand the sandbox's init: ${what}`);
}
