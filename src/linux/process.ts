/** Processes by pidfd: a signal never reaches a later process with the same pid. */
import { closeSync } from 'node:fs';
import { addon } from './addon.ts';
import { whenReadable } from './readiness.ts';
import type { ProcessHandle } from './types.ts';

/** @throws Error with code ESRCH when there is no such process */
export function openProcess(pid: number): ProcessHandle {
  const fd = addon().pidfdOpen(pid);
  let stop: () => void = () => undefined;
  const ended = new Promise<void>((resolve) => {
    stop = whenReadable(fd, resolve);
  });
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
