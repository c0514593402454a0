/** SIGINT, SIGTERM and SIGHUP as a request to end in order; the shell's exit status for the first is kept. */
import { constants } from 'node:os';

export interface Interruption {
  readonly signal: AbortSignal;
  /** 130 or 143 once one came. */
  status(): number | undefined;
  /** Asks for the end as a signal would. */
  interrupt(status: number): void;
  stop(): void;
}

export function listenForInterruption(): Interruption {
  const controller = new AbortController();
  let status: number | undefined;
  const interrupt = (given: number): void => {
    status ??= given;
    controller.abort();
  };
  const onSignal = (name: NodeJS.Signals): void => interrupt(128 + constants.signals[name]);
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal).on('SIGHUP', onSignal);
  return {
    signal: controller.signal,
    status: () => status,
    interrupt,
    stop: () => {
      process.removeListener('SIGINT', onSignal).removeListener('SIGTERM', onSignal).removeListener('SIGHUP', onSignal);
    },
  };
}
