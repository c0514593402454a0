/** The head of one output channel, kept for an answer in JSON; the rest is counted. */

/** Bytes kept of each channel. */
export const captureLimitBytes = 1024 * 1024;

export interface Captured {
  readonly text?: string;
  readonly base64?: string;
  readonly bytes: number;
  readonly truncated: boolean;
}

export class Capture {
  readonly #chunks: Buffer[] = [];
  #kept = 0;
  #bytes = 0;

  add(data: Buffer): void {
    this.#bytes += data.length;
    const kept = data.subarray(0, captureLimitBytes - this.#kept);
    if (kept.length === 0) return;
    this.#kept += kept.length;
    this.#chunks.push(kept);
  }

  read(): Captured {
    const truncated = this.#bytes > this.#kept;
    const head = Buffer.concat(this.#chunks, this.#kept);
    const whole = truncated ? withoutCutCharacter(head) : head;
    const counts = { bytes: this.#bytes, truncated };
    const text = textOf(whole);
    return text === undefined ? { base64: head.toString('base64'), ...counts } : { text, ...counts };
  }
}

function textOf(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** Drops the beginning of a UTF-8 character that the limit cut in two. */
function withoutCutCharacter(bytes: Buffer): Buffer {
  for (let back = 1; back <= 3 && back <= bytes.length; back++) {
    const byte = bytes.readUInt8(bytes.length - back);
    if (byte < 0x80) return bytes;
    if (byte >= 0xc0) return back < characterBytes(byte) ? bytes.subarray(0, -back) : bytes;
  }
  return bytes;
}

function characterBytes(lead: number): number {
  if (lead >= 0xf0) return 4;
  return lead >= 0xe0 ? 3 : 2;
}
