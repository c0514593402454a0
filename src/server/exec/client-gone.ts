/** Whether the client of an answer is still there, and whether it can take more. */
import type { ServerResponse } from 'node:http';

/** Calls back once when the connection closes before the answer was complete; returns the way to stop watching. */
export function onClientGone(answer: ServerResponse, callback: () => void): () => void {
  const onClose = (): void => {
    if (!answer.writableFinished) callback();
  };
  answer.once('close', onClose);
  return () => answer.removeListener('close', onClose);
}

/** Settles when the socket has taken what was written, or is closed. */
export function drained(answer: ServerResponse): Promise<void> {
  if (!answer.writableNeedDrain || answer.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const settle = (): void => {
      answer.removeListener('drain', settle);
      answer.removeListener('close', settle);
      resolve();
    };
    answer.once('drain', settle);
    answer.once('close', settle);
  });
}
