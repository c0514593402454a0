/** Bodies that come too slowly (HX-06). Node's own request timeout is off, because streamed bodies may last for hours. */
import type { IncomingMessage } from 'node:http';
import { SallyportError } from '../errors/error.ts';

/** Cuts the connection when the body is not there in time. */
export function limitBodyTime(request: IncomingMessage, deadlineMs: number): void {
  if (request.complete) return;
  const timer = setTimeout(() => request.destroy(), deadlineMs);
  const stop = (): void => clearTimeout(timer);
  request.once('end', stop);
  request.once('close', stop);
}

/** The chunks of a streamed body. @throws SallyportError `deadline` when the next one takes too long */
export async function* withIdleDeadline(
  chunks: AsyncIterable<Buffer>,
  idleMs: number,
): AsyncGenerator<Buffer, void, undefined> {
  const iterator = chunks[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await within(iterator.next(), idleMs);
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    // not awaited: a body that hangs would hang its own end
    iterator.return?.()?.catch(() => undefined);
  }
}

async function within<Value>(promise: Promise<Value>, deadlineMs: number): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = new SallyportError('deadline', `No more of the body came within ${deadlineMs} ms`);
    timer = setTimeout(() => reject(error), deadlineMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
