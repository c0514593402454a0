/**
 * One command or file operation as the host holds it. Output waits in a queue that credit bounds; credit goes back as the
 * reader takes chunks, so a reader that stops stops the writer inside. Knows no wire: it is given the way to send.
 */
import { SallyportError } from '../errors/error.ts';
import { pair16, pair32, u32 } from './fields.ts';
import { broken, encodeFrame, hostFrame } from './frame.ts';
import { creditBytes, stdinChunkBytes } from './limits.ts';
import type { Message } from './messages.ts';
import type { Channel, ExitReport, InitStream, OutputChunk } from './types.ts';

const channelNumber = { stdout: 1, stderr: 2 } as const;
/** Credit is owed in quarters of the window: fewer frames, never a stalled writer. */
const creditStep = creditBytes / 4;

/** Sends a frame; settles when the socket has room for more. */
export type Send = (frame: Buffer) => Promise<void> | undefined;

interface Deferred<T> {
  readonly promise: Promise<T>;
  resolve(value: T): void;
  reject(error: unknown): void;
}

export class HostStream implements InitStream {
  readonly id: number;
  readonly output: AsyncIterable<OutputChunk>;
  readonly #send: Send;
  readonly #started = deferred<{ readonly pid: number }>();
  readonly #exit = deferred<ExitReport>();
  readonly #closed = deferred<void>();
  readonly #credit = { stdout: creditBytes, stderr: creditBytes };
  readonly #owed = { stdout: 0, stderr: 0 };
  #queue: OutputChunk[] = [];
  #queueAt = 0;
  #waiting: Deferred<IteratorResult<OutputChunk>> | undefined;
  #error: SallyportError | undefined;
  #hasExited = false;
  #isClosed = false;
  #isDiscarding = false;
  #stdinCredit = 0;
  #wakeWriters: Deferred<void> = deferred();

  constructor(id: number, send: Send) {
    this.id = id;
    this.#send = send;
    this.output = { [Symbol.asyncIterator]: () => this.#iterator() };
  }

  get started(): Promise<{ readonly pid: number }> {
    return this.#started.promise;
  }
  get exit(): Promise<ExitReport> {
    return this.#exit.promise;
  }
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  async write(data: Buffer): Promise<void> {
    for (let at = 0; at < data.length; ) {
      while (this.#stdinCredit === 0) {
        this.#checkWritable();
        await this.#wakeWriters.promise;
      }
      this.#checkWritable();
      const size = Math.min(this.#stdinCredit, stdinChunkBytes, data.length - at);
      this.#stdinCredit -= size;
      await this.#send(encodeFrame(hostFrame.stdin, this.id, data.subarray(at, at + size)));
      at += size;
    }
  }

  endStdin(): void {
    this.#tell(hostFrame.stdinEof);
  }

  signal(signal: number, scope: 'main' | 'tree'): void {
    this.#tell(hostFrame.signal, pair32(signal, scope === 'tree' ? 1 : 0));
  }

  kill(graceMs: number): void {
    this.#tell(hostFrame.kill, u32(graceMs));
  }

  resize(rows: number, columns: number): void {
    this.#tell(hostFrame.resize, pair16(rows, columns));
  }

  discard(): void {
    if (this.#isDiscarding || this.#hasExited) return;
    this.#isDiscarding = true;
    this.#tell(hostFrame.discard);
  }

  /** A message of init about this stream. @throws SallyportError `init_protocol` */
  take(message: Extract<Message, { stream: number }>): void {
    switch (message.kind) {
      case 'started':
        this.#started.resolve({ pid: message.pid });
        return;
      case 'output':
        this.#takeOutput(message.channel, message.data);
        return;
      case 'stdin-credit':
        this.#stdinCredit += message.bytes;
        this.#wake();
        return;
      case 'exit':
        this.#takeExit(message.report);
        return;
      case 'closed':
        if (!this.#hasExited) throw broken('CLOSED before EXIT');
        this.#isClosed = true;
        this.#closed.resolve();
        return;
    }
  }

  /** The channel is gone: everything that waits is told. */
  fail(error: SallyportError): void {
    this.#error ??= error;
    this.#isClosed = true;
    this.#started.reject(error);
    this.#exit.reject(error);
    this.#closed.resolve();
    this.#wake();
    if (!this.#hasExited) this.#waiting?.reject(error);
    this.#waiting = undefined;
  }

  #takeOutput(channel: Channel, data: Buffer): void {
    if (this.#hasExited) throw broken('output after EXIT');
    this.#credit[channel] -= data.length;
    if (this.#credit[channel] < 0) throw broken(`more ${channel} than its credit`);
    if (this.#isDiscarding) return;
    const chunk = { channel, data };
    if (this.#waiting === undefined) {
      this.#queue.push(chunk);
      return;
    }
    this.#waiting.resolve({ done: false, value: chunk });
    this.#waiting = undefined;
    this.#repay(chunk);
  }

  #takeExit(report: ExitReport): void {
    if (this.#hasExited) throw broken('a second EXIT');
    this.#hasExited = true;
    this.#started.reject(new SallyportError('exec_failed', 'The command could not be started'));
    this.#exit.resolve(report);
    this.#wake();
    this.#waiting?.resolve({ done: true, value: undefined });
    this.#waiting = undefined;
  }

  #iterator(): AsyncIterator<OutputChunk> {
    return {
      next: () => this.#take(),
      return: async () => {
        this.#queue = [];
        this.discard();
        return { done: true, value: undefined };
      },
    };
  }

  #take(): Promise<IteratorResult<OutputChunk>> {
    const chunk = this.#queue[this.#queueAt];
    if (chunk !== undefined) {
      this.#queueAt++;
      if (this.#queueAt === this.#queue.length) {
        this.#queue = [];
        this.#queueAt = 0;
      }
      this.#repay(chunk);
      return Promise.resolve({ done: false, value: chunk });
    }
    if (this.#hasExited || this.#isDiscarding) return Promise.resolve({ done: true, value: undefined });
    if (this.#error !== undefined) return Promise.reject(this.#error);
    this.#waiting = deferred();
    return this.#waiting.promise;
  }

  #repay({ channel, data }: OutputChunk): void {
    this.#owed[channel] += data.length;
    if (this.#owed[channel] < creditStep || this.#hasExited) return;
    this.#credit[channel] += this.#owed[channel];
    this.#tell(hostFrame.credit, pair32(channelNumber[channel], this.#owed[channel]));
    this.#owed[channel] = 0;
  }

  #checkWritable(): void {
    if (this.#error !== undefined) throw this.#error;
    if (this.#hasExited) throw new SallyportError('exec_not_found', 'Cannot write to the command: it has ended');
  }

  #wake(): void {
    this.#wakeWriters.resolve();
    this.#wakeWriters = deferred();
  }

  #tell(type: number, payload?: Buffer): void {
    if (!this.#isClosed) void this.#send(encodeFrame(type, this.id, payload));
  }
}

function deferred<T>(): Deferred<T> {
  let resolve: (value: T) => void = () => undefined;
  let reject: (error: unknown) => void = () => undefined;
  const promise = new Promise<T>((onValue, onError) => {
    resolve = onValue;
    reject = onError;
  });
  // what nobody waits for must not end the process
  promise.catch(() => undefined);
  return { promise, resolve, reject };
}
