/**
 * The writing side of one stream: bytes go in the order of the calls, in pieces, within the credit that init gave and as
 * the socket has room, so that at most one piece a stream waits in the socket's memory.
 */
import { SallyportError } from '../errors/error.ts';
import { type Deferred, deferred, heard } from './deferred.ts';
import { broken } from './frame.ts';
import { maxU32 } from './integers.ts';
import { stdinChunkBytes } from './limits.ts';

export interface StdinOptions {
  /** False: the command reads /dev/null. */
  readonly isOpen: boolean;
  /** Sends a piece; a promise means: wait for it before the next. */
  readonly send: (data: Buffer) => Promise<void> | undefined;
  readonly sendEnd: () => void;
}

export class Stdin {
  readonly #options: StdinOptions;
  #credit = 0;
  #pending = 0;
  #last: Promise<void> = Promise.resolve();
  #grown: Deferred<void> = deferred();
  #isEnding = false;
  #stopped: SallyportError | undefined;

  constructor(options: StdinOptions) {
    this.#options = options;
  }

  /** @throws SallyportError `exec_not_found`, `init_lost`, `init_protocol`, `invalid_request` (by rejection) */
  write(data: Buffer): Promise<void> {
    const refusal = this.#refusal();
    if (refusal !== undefined) return heard(Promise.reject(refusal));
    return this.#enqueue(() => this.#pump(data));
  }

  /** Ends it after what was written before. Again, or where none is open, it does nothing. */
  end(): void {
    if (!this.#options.isOpen || this.#isEnding) return;
    this.#isEnding = true;
    void this.#enqueue(async () => {
      if (this.#stopped === undefined) this.#options.sendEnd();
    });
  }

  /** @throws SallyportError `init_protocol` */
  addCredit(bytes: number): void {
    this.#credit += bytes;
    if (this.#credit > maxU32) throw broken(`a credit of ${this.#credit} bytes for STDIN`);
    this.#wake();
  }

  /** Nobody reads any more: writers are told why. */
  stop(error: SallyportError): void {
    this.#stopped ??= error;
    this.#wake();
  }

  #refusal(): SallyportError | undefined {
    if (!this.#options.isOpen)
      return new SallyportError('invalid_request', 'Cannot write to the command: it was started without stdin');
    if (this.#isEnding)
      return new SallyportError('invalid_request', 'Cannot write to the command: its stdin was ended');
    return this.#stopped;
  }

  /** Starts at once when nothing waits, so that frames keep the order of the calls. */
  #enqueue(work: () => Promise<void>): Promise<void> {
    const run = this.#pending === 0 ? work() : this.#last.then(work);
    this.#pending++;
    const done = (): void => {
      this.#pending--;
    };
    this.#last = run.then(done, done);
    return run;
  }

  async #pump(data: Buffer): Promise<void> {
    for (let at = 0; at < data.length; ) {
      while (this.#credit === 0 && this.#stopped === undefined) await this.#grown.promise;
      if (this.#stopped !== undefined) throw this.#stopped;
      const size = Math.min(this.#credit, stdinChunkBytes, data.length - at);
      this.#credit -= size;
      const room = this.#options.send(data.subarray(at, at + size));
      at += size;
      if (room !== undefined) await room;
    }
  }

  #wake(): void {
    this.#grown.resolve();
    this.#grown = deferred();
  }
}
