/** Processes by pidfd: a signal never reaches a later process with the same pid. */
import { closeSync } from 'node:fs';
import { addon } from './addon.ts';
import { whenReadable } from './readiness.ts';
import type { ProcessHandle } from './types.ts';

/**
 * @returns a handle that has to be closed; after that `signal` is false and `ended` stays as it is
 * @throws Error with code ESRCH when there is no such process
 */
export function openProcess(pid: number): ProcessHandle {
  const fd = addon().pidfdOpen(pid);
  let settle: () => void = () => undefined;
  const ended = new Promise<void>((resolve) => {
    settle = resolve;
  });
  // a pidfd is readable once the process is a zombie (pidfd_open(2))
  const stop = watchOrClose(fd, settle);
  let isOpen = true;
  return {
    pid,
    ended,
    signal: (signal) => isOpen && addon().pidfdSendSignal(fd, signal),
    close: () => {
      if (!isOpen) return;
      isOpen = false;
      stop();
      closeSync(fd);
    },
  };
}

function watchOrClose(fd: number, listener: () => void): () => void {
  try {
    return whenReadable(fd, listener);
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}
