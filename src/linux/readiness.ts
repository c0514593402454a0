/** Tells when an fd becomes readable, once. Does not keep the process alive. */
import { addon } from './addon.ts';

const listeners = new Map<number, () => void>();
let nextToken = 1;
let isWatching = false;

/** @returns the way to stop; must be called before the fd is closed */
export function whenReadable(fd: number, listener: () => void): () => void {
  if (!isWatching) addon().startWatching(report);
  isWatching = true;
  const token = nextToken;
  nextToken = nextToken >= 0x7fff_ffff ? 1 : nextToken + 1;
  listeners.set(token, listener);
  addon().watch(fd, token);
  return () => {
    if (listeners.delete(token)) addon().unwatch(fd);
  };
}

function report(token: number): void {
  listeners.get(token)?.();
}
