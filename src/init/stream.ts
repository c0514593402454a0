/**
 * One command or file operation as the host holds it: which message of init may come when, what each settles, and the credit
 * of its output. Credit goes back as the reader takes chunks, so a reader that stops stops the writer inside. Knows no
 * socket: it is given the way to send.
 */
import { SallyportError } from '../errors/error.ts';
import { deferred } from './deferred.ts';
import { errnoName } from './errno.ts';
import { terminalSize } from './fields.ts';
import { broken, encodeFrame, hostFrame } from './frame.ts';
import { maxU32, pair32, u32, wholeNumber } from './integers.ts';
import { creditBytes, creditStepBytes } from './limits.ts';
import type { StreamMessage } from './messages.ts';
import { OutputQueue } from './output-queue.ts';
import { Stdin } from './stdin.ts';
import type { Channel, ExitReport, InitStream, OutputChunk } from './types.ts';

const channelNumber = { stdout: 1, stderr: 2 } as const;

/** Sends a frame; a promise settles when the socket has room for more. */
export type Send = (frame: Buffer) => Promise<void> | undefined;

export interface HostStreamOptions {
  readonly id: number;
  readonly hasStdin: boolean;
  /** A file operation has none. */
  readonly hasStderr: boolean;
  readonly send: Send;
}

export class HostStream implements InitStream {
  readonly id: number;
  readonly #send: Send;
  readonly #started = deferred<{ readonly pid: number }>();
  readonly #exit = deferred<ExitReport>();
  readonly #closed = deferred<void>();
  readonly #output: OutputQueue;
  readonly #stdin: Stdin;
  /** What init may still send, as far as it knows. */
  readonly #credit: Record<Channel, number>;
  /** What the reader has taken and init was not told yet. */
  readonly #owed = { stdout: 0, stderr: 0 };
  #hasStarted = false;
  #hasExited = false;
  #isClosed = false;
  #isDiscarding = false;
  #onArrival: (channel: Channel, bytes: number) => void = () => undefined;

  constructor({ id, hasStdin, hasStderr, send }: HostStreamOptions) {
    this.id = id;
    this.#send = send;
    this.#credit = { stdout: creditBytes, stderr: hasStderr ? creditBytes : 0 };
    this.#output = new OutputQueue({
      onTaken: (channel, bytes) => this.#repay(channel, bytes),
      onLeft: () => this.#sendDiscard(),
    });
    this.#stdin = new Stdin({
      isOpen: hasStdin,
      send: (data) => this.#tell(hostFrame.stdin, data),
      sendEnd: () => void this.#tell(hostFrame.stdinEof),
    });
  }

  get output(): AsyncIterable<OutputChunk> {
    return this.#output;
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

  onArrival(listener: (channel: Channel, bytes: number) => void): void {
    this.#onArrival = listener;
  }

  write(data: Buffer): Promise<void> {
    return this.#stdin.write(data);
  }

  endStdin(): void {
    this.#stdin.end();
  }

  /** @throws SallyportError `invalid_request` */
  signal(signal: number, scope: 'main' | 'tree'): void {
    this.#tell(hostFrame.signal, pair32(wholeNumber(signal, 'a signal', 1, 64), scope === 'tree' ? 1 : 0));
  }

  /** Never refuses: a grace that cannot be is none, one too long is the longest. */
  kill(graceMs: number): void {
    const grace = graceMs > 0 ? Math.min(Math.ceil(graceMs), maxU32) : 0;
    this.#tell(hostFrame.kill, u32(grace));
  }

  /** @throws SallyportError `invalid_request` */
  resize(rows: number, columns: number): void {
    this.#tell(hostFrame.resize, terminalSize(rows, columns));
  }

  /** A reader that is there still gets what is on its way, and then the end. */
  discard(): void {
    if (!this.#output.hasReader) this.#output.drop();
    this.#sendDiscard();
  }

  /** A message of init about this stream. @throws SallyportError `init_protocol` */
  take(message: StreamMessage): void {
    switch (message.kind) {
      case 'output':
        this.#takeOutput(message.channel, message.data);
        return;
      case 'stdin-credit':
        this.#stdin.addCredit(message.bytes);
        return;
      case 'started':
        if (this.#hasStarted || this.#hasExited) throw broken(`STARTED came late or twice for stream ${this.id}`);
        this.#hasStarted = true;
        this.#started.resolve({ pid: message.pid });
        return;
      case 'exit':
        this.#takeExit(message.report);
        return;
      case 'closed':
        if (!this.#hasExited) throw broken(`CLOSED came before EXIT for stream ${this.id}`);
        this.#isClosed = true;
        this.#closed.resolve();
        return;
    }
  }

  /** The channel is gone: everything that waits is told. What was settled stays, output that came can still be read. */
  fail(error: SallyportError): void {
    this.#isClosed = true;
    this.#started.reject(error);
    this.#exit.reject(error);
    this.#closed.reject(error);
    this.#stdin.stop(error);
    this.#output.fail(error);
  }

  #takeOutput(channel: Channel, data: Buffer): void {
    if (this.#hasExited) throw broken(`output came after EXIT for stream ${this.id}`);
    this.#credit[channel] -= data.length;
    if (this.#credit[channel] < 0) throw broken(`stream ${this.id} sent more ${channel} than its credit`);
    this.#onArrival(channel, data.length);
    this.#output.push(channel, data);
  }

  #takeExit(report: ExitReport): void {
    if (this.#hasExited) throw broken(`a second EXIT for stream ${this.id}`);
    this.#hasExited = true;
    this.#started.reject(startError(report));
    this.#stdin.stop(new SallyportError('exec_not_found', 'Cannot write to the command: it has ended'));
    this.#output.end();
    this.#exit.resolve(report);
  }

  #repay(channel: Channel, bytes: number): void {
    this.#owed[channel] += bytes;
    if (this.#owed[channel] < creditStepBytes || this.#hasExited || this.#isDiscarding) return;
    const owed = this.#owed[channel];
    this.#owed[channel] = 0;
    this.#credit[channel] += owed;
    this.#tell(hostFrame.credit, pair32(channelNumber[channel], owed));
  }

  #sendDiscard(): void {
    if (this.#isDiscarding || this.#hasExited) return;
    this.#isDiscarding = true;
    this.#tell(hostFrame.discard);
  }

  #tell(type: number, payload?: Buffer): Promise<void> | undefined {
    return this.#isClosed ? undefined : this.#send(encodeFrame(type, this.id, payload));
  }
}

/** For a `started` that never came true; the EXIT's outcome says the same in numbers. */
function startError({ outcome }: ExitReport): SallyportError {
  const why =
    outcome.kind === 'failed' ? `${outcome.stage} failed with ${errnoName(outcome.errno)}` : 'it was ended before';
  return new SallyportError('exec_failed', `Cannot start the command: ${why}`);
}
