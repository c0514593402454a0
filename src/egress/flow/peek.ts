/**
 * Looks at the first bytes of a connection until enough is known of it. They stay in the socket: whoever takes it over reads
 * them again.
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
    const read = new Gathered();
    const done = (why: Peeked['why']): void => {
      clearTimeout(timer);
      socket.off('readable', onReadable).off('end', onEnd).off('close', onEnd).off('error', onEnd);
      // in the tick of the read: with an end right behind it, the next tick would tell of the end and take nothing back
      if (read.length > 0 && !socket.destroyed && !socket.readableEnded) socket.unshift(Buffer.from(read.bytes()));
      settle({ bytes: read.bytes(), why });
    };
    const onEnd = (): void => done('ended');
    const onReadable = (): void => {
      for (let piece: Buffer | null = socket.read(); piece !== null; piece = socket.read()) {
        read.add(piece);
        const why = isEnough(read.bytes()) ? 'enough' : read.length >= mostPeeked ? 'full' : undefined;
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

/** Room that doubles, so that a hello in a thousand pieces is not copied a thousand times. */
class Gathered {
  length = 0;
  #room = Buffer.alloc(0);

  add(piece: Buffer): void {
    const length = this.length + piece.length;
    if (length > this.#room.length) {
      const room = Buffer.allocUnsafe(Math.max(1_024, 2 * length));
      this.#room.copy(room, 0, 0, this.length);
      this.#room = room;
    }
    piece.copy(this.#room, this.length);
    this.length = length;
  }

  /** What has come so far; the room is written to behind it only. */
  bytes(): Buffer {
    return this.#room.subarray(0, this.length);
  }
}
