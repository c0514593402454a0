/** The head of what a sandbox printed, for `sallyport logs`: bounded, and what did not fit is counted. */
import type { OutputChunk } from '../init/types.ts';

/** Kept per sandbox; see docs/limits.md. */
const logBytes = 256 * 1024;

export class OutputLog {
  readonly #chunks: OutputChunk[] = [];
  #kept = 0;
  #omitted = 0;

  add({ channel, data }: OutputChunk): void {
    const room = logBytes - this.#kept;
    const kept = data.subarray(0, room);
    this.#omitted += data.length - kept.length;
    if (kept.length === 0) return;
    // a copy: the chunk may be a window into a far larger receive buffer
    this.#chunks.push({ channel, data: Buffer.from(kept) });
    this.#kept += kept.length;
  }

  read(): { readonly chunks: readonly OutputChunk[]; readonly omittedBytes: number } {
    return { chunks: [...this.#chunks], omittedBytes: this.#omitted };
  }
}
