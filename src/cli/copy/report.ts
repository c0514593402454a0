/** What a copy did: counted, and what was left out is named. */
import type { Writable } from 'node:stream';
import { safeName } from '../terminal/safe-text.ts';

export class CopyReport {
  files = 0;
  bytes = 0;
  readonly #stderr: Writable;

  constructor(stderr: Writable) {
    this.#stderr = stderr;
  }

  copied(bytes: number): void {
    this.files++;
    this.bytes += bytes;
  }

  skipped(path: Buffer, reason: string): void {
    this.#stderr.write(`sallyport: not copied, ${reason}: ${safeName(path.toString())}\n`);
  }
}
