/** Writing to the caller's streams: a slow reader makes us wait, a reader that is gone is told by EPIPE. */
import { once } from 'node:events';
import type { Writable } from 'node:stream';

export class ReaderGone extends Error {
  override readonly name = 'ReaderGone';
}

/** Settles when the stream takes more. @throws ReaderGone when nobody reads any more, or on abort */
export async function write(stream: Writable, data: string | Buffer, signal?: AbortSignal): Promise<void> {
  if (stream.destroyed || stream.errored !== null) throw new ReaderGone('The reader of the output is gone');
  if (stream.write(data)) return;
  try {
    await once(stream, 'drain', signal === undefined ? {} : { signal });
  } catch (cause) {
    throw new ReaderGone('The reader of the output is gone', { cause });
  }
}

export function writeJson(stream: Writable, value: unknown): Promise<void> {
  return write(stream, `${JSON.stringify(value, null, 2)}\n`);
}
