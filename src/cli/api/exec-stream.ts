/** The client's end of the binary exec stream: frames of u8 channel, 3 zero bytes, u32 big-endian length, payload. */
import { SallyportError } from '../../errors/error.ts';
import type { Channel } from '../../init/types.ts';
import { type ExecMessage, streamHeaderBytes as headerBytes, streamChannels } from '../../server/exec/encoding.ts';

export type ExecEvent =
  | { readonly type: 'output'; readonly channel: Channel; readonly data: Buffer }
  | { readonly type: 'message'; readonly message: ExecMessage };

const messageLimitBytes = 1024 * 1024;
const outputChannels = new Map<number, Channel>([
  [streamChannels.stdout, 'stdout'],
  [streamChannels.stderr, 'stderr'],
]);

/** Output is passed on piece by piece as it comes, uncopied; a message once it is whole. */
export class ExecStreamParser {
  readonly #header = Buffer.alloc(headerBytes);
  #headerFilled = 0;
  #left = 0;
  #message: Buffer[] = [];

  /** @throws SallyportError `internal` on a frame that is none */
  *push(chunk: Buffer): Generator<ExecEvent> {
    let rest = chunk;
    while (rest.length > 0) {
      if (this.#headerFilled < headerBytes) {
        rest = this.#takeHeader(rest);
        continue;
      }
      const part = rest.subarray(0, this.#left);
      rest = rest.subarray(part.length);
      this.#left -= part.length;
      yield* this.#takePayload(part);
      if (this.#left === 0) this.#headerFilled = 0;
    }
  }

  #takeHeader(bytes: Buffer): Buffer {
    const taken = bytes.copy(this.#header, this.#headerFilled, 0, headerBytes - this.#headerFilled);
    this.#headerFilled += taken;
    if (this.#headerFilled < headerBytes) return bytes.subarray(taken);
    this.#left = this.#header.readUInt32BE(4);
    const channel = this.#header.readUInt8(0);
    const isKnown = channel === streamChannels.message ? this.#left <= messageLimitBytes : outputChannels.has(channel);
    if (!isKnown || this.#left === 0) throw new SallyportError('internal', 'The exec stream of the daemon is broken');
    return bytes.subarray(taken);
  }

  *#takePayload(part: Buffer): Generator<ExecEvent> {
    const channel = outputChannels.get(this.#header.readUInt8(0));
    if (channel !== undefined) return yield { type: 'output', channel, data: part };
    this.#message.push(part);
    if (this.#left > 0) return;
    const text = Buffer.concat(this.#message).toString();
    this.#message = [];
    yield { type: 'message', message: JSON.parse(text) as ExecMessage };
  }
}
