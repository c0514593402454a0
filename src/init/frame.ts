/**
 * Frames on the wire (docs/init-protocol.md): encoding, and a decoder that takes the bytes in any pieces. What the decoder
 * hands on keeps every rule that the header can tell: type, flags, length for the type, stream for the type. A broken rule
 * is the error `init_protocol`. At most one unfinished frame is kept; a payload that lies in one piece is not copied.
 */
import { SallyportError } from '../errors/error.ts';
import { headerBytes, outputFrameBytes, payloadBytes } from './limits.ts';

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
export type InitFrameType = (typeof initFrame)[keyof typeof initFrame];

/** A frame of init, as {@link FrameDecoder} has checked it. */
export interface Frame {
  readonly type: InitFrameType;
  readonly stream: number;
  /** A window into the received bytes: copy what is kept for long. */
  readonly payload: Buffer;
}

interface Rule {
  readonly name: string;
  readonly type: InitFrameType;
  readonly min: number;
  readonly max: number;
  readonly hasStream: boolean;
}

const fatalTextBytes = 256;
const rules: ReadonlyMap<number, Rule> = new Map(
  [
    rule('READY', initFrame.ready, 4, 4, false),
    rule('STARTED', initFrame.started, 4, 4, true),
    rule('STDOUT', initFrame.stdout, 1, outputFrameBytes, true),
    rule('STDERR', initFrame.stderr, 1, outputFrameBytes, true),
    rule('STDIN_CREDIT', initFrame.stdinCredit, 4, 4, true),
    rule('EXIT', initFrame.exit, 56, 56, true),
    rule('CLOSED', initFrame.closed, 8, 8, true),
    rule('PONG', initFrame.pong, 8, 8, false),
    rule('DISK', initFrame.disk, 32, 32, false),
    rule('FATAL', initFrame.fatal, 4, 4 + fatalTextBytes, false),
  ].map((each) => [each.type, each]),
);

function rule(name: string, type: InitFrameType, min: number, max: number, hasStream: boolean): Rule {
  return { name, type, min, max, hasStream };
}

export function encodeFrame(type: number, stream: number, payload?: Uint8Array): Buffer {
  const length = payload?.length ?? 0;
  if (length > payloadBytes) throw new RangeError(`a payload of ${length} bytes, the limit is ${payloadBytes}`);
  const frame = Buffer.allocUnsafe(headerBytes + length);
  frame.writeUInt32LE(length, 0);
  frame.writeUInt32LE(type, 4); // type, flags and reserved: the upper bytes are 0
  frame.writeUInt32LE(stream, 8);
  if (payload !== undefined) frame.set(payload, headerBytes);
  return frame;
}

interface Header {
  readonly type: InitFrameType;
  readonly stream: number;
  readonly length: number;
}

export class FrameDecoder {
  readonly #headerStart = Buffer.alloc(headerBytes);
  #headerSize = 0;
  #header: Header | undefined;
  #payload = Buffer.alloc(0);
  #payloadSize = 0;

  /** Memory held for an unfinished frame: its header, and its payload's whole length once the header is known. */
  get pendingBytes(): number {
    return this.#header === undefined ? this.#headerSize : headerBytes + this.#payload.length;
  }

  /**
   * Hands every frame that is complete now to `take`, in order, also those before a broken one. After a throw the decoder
   * must not be used any more.
   * @throws SallyportError `init_protocol`, and what `take` throws
   */
  push(bytes: Buffer, take: (frame: Frame) => void): void {
    let at = 0;
    // no frame of init is empty: a header alone never completes one
    while (at < bytes.length) {
      if (this.#header === undefined) at = this.#readHeader(bytes, at);
      else at = this.#readPayload(this.#header, bytes, at, take);
    }
  }

  /** @returns where the next byte to read is */
  #readHeader(bytes: Buffer, at: number): number {
    if (this.#headerSize === 0 && bytes.length - at >= headerBytes) {
      this.#header = parseHeader(bytes, at);
      return at + headerBytes;
    }
    const copied = bytes.copy(this.#headerStart, this.#headerSize, at);
    this.#headerSize += copied;
    if (this.#headerSize === headerBytes) {
      this.#header = parseHeader(this.#headerStart, 0);
      this.#headerSize = 0;
    }
    return at + copied;
  }

  #readPayload(header: Header, bytes: Buffer, at: number, take: (frame: Frame) => void): number {
    const { type, stream, length } = header;
    if (this.#payloadSize === 0 && bytes.length - at >= length) {
      this.#header = undefined;
      take({ type, stream, payload: bytes.subarray(at, at + length) });
      return at + length;
    }
    // length is bounded by the type's rule, and the buffer is its own: nothing else is kept alive with it
    if (this.#payloadSize === 0) this.#payload = Buffer.allocUnsafeSlow(length);
    const copied = bytes.copy(this.#payload, this.#payloadSize, at);
    this.#payloadSize += copied;
    if (this.#payloadSize === length) this.#takePayload(type, stream, take);
    return at + copied;
  }

  #takePayload(type: InitFrameType, stream: number, take: (frame: Frame) => void): void {
    const payload = this.#payload;
    this.#header = undefined;
    this.#payload = Buffer.alloc(0);
    this.#payloadSize = 0;
    take({ type, stream, payload });
  }
}

function parseHeader(bytes: Buffer, at: number): Header {
  const length = bytes.readUInt32LE(at);
  const word = bytes.readUInt32LE(at + 4);
  const stream = bytes.readUInt32LE(at + 8);
  const known = rules.get(word);
  if (known === undefined) throw broken(`type, flags and reserved bytes are 0x${word.toString(16)}`);
  if (length < known.min || length > known.max)
    throw broken(`${known.name} has ${length} bytes, the rule is ${known.min}…${known.max}`);
  if ((stream !== 0) !== known.hasStream) throw broken(`${known.name} for the stream ${stream}`);
  return { type: known.type, stream, length };
}

export function broken(what: string): SallyportError {
  return new SallyportError('init_protocol', `Cannot understand the sandbox's init: ${what}`);
}
