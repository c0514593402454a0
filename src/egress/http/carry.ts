/** A body on its way through: piece by piece, at the pace of who takes it and of the bandwidth. */
import type { Readable, Writable } from 'node:stream';

/** @param onBytes told of each piece before it goes on: milliseconds to rest after it, or `stop`, and both ends go */
export function carry(from: Readable, to: Writable, onBytes: (bytes: number) => number | 'stop'): void {
  let resting = false;
  const goOn = (): void => {
    if (!resting && !to.writableNeedDrain) from.resume();
  };
  from.on('data', (chunk: Buffer) => {
    const rest = onBytes(chunk.length);
    if (rest === 'stop') {
      from.destroy();
      to.destroy(new Error('the budget is used up, or the body is longer than its length'));
      return;
    }
    const mayGoOn = to.write(chunk);
    if (rest > 0) {
      resting = true;
      setTimeout(() => {
        resting = false;
        goOn();
      }, rest).unref();
    }
    if (!mayGoOn || resting) from.pause();
  });
  to.on('drain', goOn);
  from.once('end', () => to.end());
  from.on('error', (error) => to.destroy(error));
  to.on('error', () => from.destroy());
}
