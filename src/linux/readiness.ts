/** Tells when an fd becomes readable, once. Does not keep the process alive. */
import { addon } from './addon.ts';

const listeners = new Map<number, () => void>();
let nextToken = 1;
let isWatching = false;

/**
 * @param fd one that can be polled (no file of a disk) and that nobody else watches
 * @returns the way to stop; must be called before the fd is closed
 * @throws Error with code EPERM, EEXIST or EBADF when it cannot be watched
 */
export function whenReadable(fd: number, listener: () => void): () => void {
  if (!isWatching) addon().startWatching(report);
  isWatching = true;
  const token = nextToken;
  addon().watch(fd, token);
  nextToken = nextToken >= 0x7fff_ffff ? 1 : nextToken + 1;
  // the report comes through the event loop, so never before this
  listeners.set(token, listener);
  return () => {
    if (listeners.delete(token)) addon().unwatch(fd);
  };
}

function report(token: number): void {
  listeners.get(token)?.();
}
