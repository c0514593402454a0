/**
 * Reads the first bytes of a connection until enough is known of it. What was read is the caller's: it goes upstream, or
 * back into the socket.
 */
import type { Socket } from 'node:net';

export interface Peeked {
  readonly bytes: Buffer;
  /** `enough`: the test was content; `ended`: nothing more comes; `late`: the deadline passed; `full`: past the bound. */
  readonly why: 'enough' | 'ended' | 'late' | 'full';
}

/** A ClientHello with many key shares and a long chain of tickets has some kilobytes; see docs/limits.md. */
export const mostPeeked = 64 * 1024;

/** @param isEnough asked after each piece with all bytes so far */
export function peek(socket: Socket, isEnough: (bytes: Buffer) => boolean, deadlineMs: number): Promise<Peeked> {
  return new Promise((settle) => {
    const pieces: Buffer[] = [];
    let length = 0;
    const done = (why: Peeked['why']): void => {
      clearTimeout(timer);
      socket.off('readable', onReadable).off('end', onEnd).off('close', onEnd).off('error', onEnd);
      settle({ bytes: Buffer.concat(pieces), why });
    };
    const onEnd = (): void => done('ended');
    const onReadable = (): void => {
      for (let piece = socket.read(); piece !== null; piece = socket.read()) {
        pieces.push(piece as Buffer);
        length += (piece as Buffer).length;
        const why = isEnough(joined(pieces)) ? 'enough' : length >= mostPeeked ? 'full' : undefined;
        if (why === undefined) continue;
        done(why);
        return;
      }
    };
    const timer = setTimeout(() => done('late'), deadlineMs);
    socket.on('readable', onReadable).once('end', onEnd).once('close', onEnd).once('error', onEnd);
    if (socket.destroyed) onEnd();
  });
}

/** In place, so that a hello in a thousand pieces is not copied a thousand times over by each look. */
function joined(pieces: Buffer[]): Buffer {
  if (pieces.length > 1) pieces.splice(0, pieces.length, Buffer.concat(pieces));
  return pieces[0] ?? Buffer.alloc(0);
}
