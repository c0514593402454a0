/**
 * Reads a structure of TLS from its bytes, front to back. What does not fit throws {@link MalformedBytes}, so that a reader
 * says only what it expects; whoever starts one catches it.
 */
export class MalformedBytes extends Error {}

export class ByteCursor {
  readonly #bytes: Buffer;
  readonly #what: string;
  #at = 0;

  /** @param what the name of the structure, for the reason of a refusal */
  constructor(bytes: Buffer, what: string) {
    this.#bytes = bytes;
    this.#what = what;
  }

  get left(): number {
    return this.#bytes.length - this.#at;
  }

  number(size: 1 | 2): number {
    return this.take(size).readUIntBE(0, size);
  }

  take(length: number): Buffer {
    if (length > this.left) this.fail('ends too early');
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  /** RFC 8446 section 3.4: a length of `lengthSize` bytes, then as many bytes. */
  vector(lengthSize: 1 | 2, leastBytes: number, mostBytes: number): Buffer {
    const length = this.number(lengthSize);
    if (length < leastBytes || length > mostBytes) this.fail(`has a part of ${length} bytes`);
    return this.take(length);
  }

  /** Nothing may follow. */
  end(): void {
    if (this.left > 0) this.fail(`has ${this.left} bytes too many`);
  }

  fail(why: string): never {
    throw new MalformedBytes(`${this.#what} ${why}`);
  }
}
