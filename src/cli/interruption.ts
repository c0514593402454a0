/** SIGINT and SIGTERM as a request to end in order; the shell's exit status for them is kept. */
import { constants } from 'node:os';

export interface Interruption {
  readonly signal: AbortSignal;
  /** 130 or 143 once one came. */
  status(): number | undefined;
  stop(): void;
}

export function listenForInterruption(): Interruption {
  const controller = new AbortController();
  let status: number | undefined;
  const onSignal = (name: NodeJS.Signals): void => {
    status ??= 128 + constants.signals[name];
    controller.abort();
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal).on('SIGHUP', onSignal);
  return {
    signal: controller.signal,
    status: () => status,
    stop: () => {
      process.removeListener('SIGINT', onSignal).removeListener('SIGTERM', onSignal).removeListener('SIGHUP', onSignal);
    },
  };
}
