/**
 * Two sockets as one connection: bytes go each way at the pace of the slower, an end on one side is passed on while the other
 * side may still send, an error ends both.
 */
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';

export interface PumpParts {
  readonly inside: Duplex;
  readonly outside: Duplex;
  /**
   * Told of each piece before it goes on. @returns milliseconds that this direction has to rest after it, or `stop`: the
   * piece does not go on and the connection ends
   */
  readonly onBytes: (direction: 'up' | 'down', bytes: number) => number | 'stop';
  /** Once, when nothing passes any more. `fault` when it was no clean end. */
  readonly onClosed: (fault: string | null) => void;
}

export function pump({ inside, outside, onBytes, onClosed }: PumpParts): void {
  let open = 2;
  let fault: string | null = null;
  const destroyBoth = (): void => {
    cut(inside);
    cut(outside);
  };
  for (const [from, to, direction] of [
    [inside, outside, 'up'],
    [outside, inside, 'down'],
  ] as const) {
    forward(from, to, (bytes) => onBytes(direction, bytes), destroyBoth);
    from.on('error', (error: NodeJS.ErrnoException) => {
      fault ??= `${direction === 'up' ? 'inside' : 'upstream'}: ${error.code ?? error.message}`;
      destroyBoth();
    });
    from.once('close', () => {
      open -= 1;
      // a side that went without an end (a reset) takes the other along
      if (!from.readableEnded) destroyBoth();
      if (open === 0) onClosed(fault);
    });
  }
}

/** What broke off on one side must not look like an end on the other: TCP is reset, TLS goes without its close_notify. */
function cut(stream: Duplex): void {
  if (stream instanceof Socket && !(stream instanceof TLSSocket)) stream.resetAndDestroy();
  else stream.destroy();
}

function forward(from: Duplex, to: Duplex, onBytes: (bytes: number) => number | 'stop', destroyBoth: () => void): void {
  let resting = false;
  from.on('data', (chunk: Buffer) => {
    const rest = onBytes(chunk.length);
    if (rest === 'stop') return destroyBoth();
    const mayGoOn = to.write(chunk);
    if (rest > 0) {
      resting = true;
      setTimeout(() => {
        resting = false;
        if (!to.writableNeedDrain) from.resume();
      }, rest).unref();
    }
    if (!mayGoOn || resting) from.pause();
  });
  to.on('drain', () => {
    if (!resting) from.resume();
  });
  from.once('end', () => to.end());
}
