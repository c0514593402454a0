/** What has come into one sandbox's /inputs so far, and what may still come. Counted as it comes, never afterwards. */
import { displayName } from '../units/display-name.ts';
import { tooLarge } from './input-errors.ts';
import type { InputFile } from './types.ts';

export interface InputLimits {
  readonly bytes: number;
  /** Files, folders and symlinks together. */
  readonly files: number;
}

export class InputTally {
  bytes = 0;
  readonly #limits: InputLimits;
  readonly #files: { readonly name: Buffer; readonly file: InputFile }[] = [];
  #count = 0;

  constructor(limits: InputLimits) {
    this.#limits = limits;
  }

  get filesLeft(): number {
    return this.#limits.files - this.#count;
  }

  /** Bytes of a file of this apparent size may come: refused before a terabyte of zeros is read (FS-24). */
  expect(bytes: number, name: Buffer): void {
    if (this.bytes + bytes <= this.#limits.bytes) return;
    throw tooLarge(`${displayName(name)} would make more than ${this.#limits.bytes} bytes`);
  }

  addBytes(bytes: number, name: Buffer): void {
    this.expect(bytes, name);
    this.bytes += bytes;
  }

  addEntry(name: Buffer): void {
    this.#count += 1;
    if (this.#count > this.#limits.files) {
      throw tooLarge(`${displayName(name)} would be more than ${this.#limits.files} files and folders`);
    }
  }

  record(name: Buffer, file: Omit<InputFile, 'path'>): void {
    this.#files.push({ name, file: { path: displayName(name), ...file } });
  }

  /** In the order of the names' bytes, whatever order the filesystem gave. */
  sorted(): InputFile[] {
    return this.#files.sort((a, b) => Buffer.compare(a.name, b.name)).map(({ file }) => file);
  }
}
