/**
 * Output between the channel and its one reader, in the order it was sent. Its memory follows its bytes: large output is
 * kept as it came, small output is copied together. Otherwise a command that writes single bytes beside one that floods
 * would pin a receive buffer a byte, and fill the host's memory within its credit.
 */
import { SallyportError } from '../errors/error.ts';
import { type Deferred, deferred, heard } from './deferred.ts';
import { outputBlockBytes, smallOutputBytes } from './limits.ts';
import type { Channel, OutputChunk } from './types.ts';

type Taken = IteratorResult<OutputChunk, undefined>;

export interface OutputQueueOptions {
  /** The reader took so many bytes. */
  readonly onTaken: (channel: Channel, bytes: number) => void;
  /** The reader left before the end. */
  readonly onLeft: () => void;
}

export class OutputQueue implements AsyncIterable<OutputChunk> {
  readonly #options: OutputQueueOptions;
  readonly #dropped = { stdout: 0, stderr: 0 };
  readonly #queued = { stdout: 0, stderr: 0 };
  /** A ring of sorts: what lies before `first` is taken. */
  #blocks: (Block | undefined)[] = [];
  #first = 0;
  #waiting: Deferred<Taken> | undefined;
  #hasReader = false;
  #isEnded = false;
  #isDropping = false;
  #error: SallyportError | undefined;

  constructor(options: OutputQueueOptions) {
    this.#options = options;
  }

  get hasReader(): boolean {
    return this.#hasReader;
  }

  /** Bytes that wait for the reader. */
  get queued(): { readonly stdout: number; readonly stderr: number } {
    return { ...this.#queued };
  }

  /** Bytes that came and that no reader got, because it had left. */
  get dropped(): { readonly stdout: number; readonly stderr: number } {
    return { ...this.#dropped };
  }

  push(channel: Channel, data: Buffer): void {
    if (this.#isDropping) {
      this.#dropped[channel] += data.length;
      return;
    }
    if (this.#waiting === undefined) {
      this.#append(channel, data);
      return;
    }
    const chunk = { channel, data: isWasteful(data) ? ownCopy(data) : data };
    this.#settleWaiting({ done: false, value: chunk });
    this.#options.onTaken(channel, data.length);
  }

  /** No more comes. What waits can still be read. */
  end(): void {
    this.#isEnded = true;
    this.#settleWaiting({ done: true, value: undefined });
  }

  /** Like {@link end}, but the reader is told why once it has read what waits. */
  fail(error: SallyportError): void {
    if (this.#isEnded) return;
    this.#error = error;
    this.#waiting?.reject(error);
    this.#waiting = undefined;
  }

  /** Forgets what waits and what will come, and counts it. */
  drop(): void {
    this.#isDropping = true;
    for (const channel of ['stdout', 'stderr'] as const) {
      this.#dropped[channel] += this.#queued[channel];
      this.#queued[channel] = 0;
    }
    this.#blocks = [];
    this.#first = 0;
    this.#settleWaiting({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): AsyncIterator<OutputChunk, undefined> {
    this.#hasReader = true;
    return { next: () => this.#next(), return: () => this.#leave() };
  }

  #next(): Promise<Taken> {
    const chunk = this.#takeChunk();
    if (chunk !== undefined) {
      this.#options.onTaken(chunk.channel, chunk.data.length);
      return Promise.resolve({ done: false, value: chunk });
    }
    if (this.#error !== undefined) return heard(Promise.reject(this.#error));
    if (this.#isEnded || this.#isDropping) return Promise.resolve({ done: true, value: undefined });
    if (this.#waiting !== undefined)
      return heard(Promise.reject(new SallyportError('internal', 'Cannot read the output twice at once')));
    this.#waiting = deferred();
    return this.#waiting.promise;
  }

  #leave(): Promise<Taken> {
    const isEarly = !this.#isEnded && this.#error === undefined && !this.#isDropping;
    this.drop();
    if (isEarly) this.#options.onLeft();
    return Promise.resolve({ done: true, value: undefined });
  }

  #settleWaiting(result: Taken): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.resolve(result);
  }

  #append(channel: Channel, data: Buffer): void {
    this.#queued[channel] += data.length;
    if (!isWasteful(data)) {
      this.#blocks.push(new Block(channel, data));
      return;
    }
    const last = this.#blocks.at(-1);
    if (last?.append(channel, data) === true) return;
    const room = Buffer.allocUnsafeSlow(Math.max(outputBlockBytes, data.length));
    data.copy(room);
    this.#blocks.push(new Block(channel, room, data.length));
  }

  #takeChunk(): OutputChunk | undefined {
    const block = this.#blocks[this.#first];
    if (block === undefined) return undefined;
    const chunk = block.take();
    this.#queued[chunk.channel] -= chunk.data.length;
    if (block.isEmpty) this.#shift();
    return chunk;
  }

  /** The array is cut only once half of it is behind, so that a chunk costs the same in a queue of any length. */
  #shift(): void {
    this.#blocks[this.#first++] = undefined;
    if (this.#first < 32 && this.#first < this.#blocks.length) return;
    if (this.#first * 2 < this.#blocks.length) return;
    this.#blocks = this.#blocks.slice(this.#first);
    this.#first = 0;
  }
}

/** Bytes in a row, cut into runs of one channel each. */
class Block {
  readonly #bytes: Buffer;
  /** Lengths; those of stderr negative. Numbers, because a run may be one byte. */
  readonly #runs: number[];
  #size: number;
  #takenRuns = 0;
  #takenBytes = 0;

  constructor(channel: Channel, bytes: Buffer, size = bytes.length) {
    this.#bytes = bytes;
    this.#size = size;
    this.#runs = [channel === 'stdout' ? size : -size];
  }

  get isEmpty(): boolean {
    return this.#takenRuns === this.#runs.length;
  }

  /** @returns false when there is no room for all of it */
  append(channel: Channel, data: Buffer): boolean {
    if (this.isEmpty || this.#bytes.length - this.#size < data.length) return false;
    data.copy(this.#bytes, this.#size);
    this.#size += data.length;
    const signed = channel === 'stdout' ? data.length : -data.length;
    const last = this.#runs[this.#runs.length - 1] ?? 0;
    if (last > 0 === signed > 0) this.#runs[this.#runs.length - 1] = last + signed;
    else this.#runs.push(signed);
    return true;
  }

  take(): OutputChunk {
    const signed = this.#runs[this.#takenRuns] ?? 0;
    const start = this.#takenBytes;
    this.#takenRuns++;
    this.#takenBytes += Math.abs(signed);
    const data = this.#bytes.subarray(start, this.#takenBytes);
    return { channel: signed > 0 ? 'stdout' : 'stderr', data: isWasteful(data) ? ownCopy(data) : data };
  }
}

/** True when keeping the data keeps far more memory alive than it has bytes. */
function isWasteful(data: Buffer): boolean {
  return data.length < smallOutputBytes || data.length * 4 < data.buffer.byteLength;
}

function ownCopy(data: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(data.length);
  data.copy(copy);
  return copy;
}
