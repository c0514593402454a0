/** What a command in a sandbox tells the shell: its own exit status, or the reserved one for what ended it. */
import type { SallyportError } from '../errors/error.ts';
import { runExitCodes } from '../run/types.ts';
import { signalNumber } from '../sandbox/signal-names.ts';
import type { ExecResult } from '../sandbox/types.ts';

/** Of shells: 128 + n when a signal ended it. */
export function exitStatusOf({ exitCode, limit, signal }: ExecResult): number {
  if (limit !== null) return runExitCodes.limit;
  if (exitCode !== null) return exitCode;
  return signal === null ? runExitCodes.platform : 128 + signalNumber(signal);
}

/** Of shells: 127 for a program that is not there, 126 for one that cannot be run. */
export function startFailureStatus(message: string): number {
  return message.includes('ENOENT') ? 127 : 126;
}

const usageCodes: ReadonlySet<string> = new Set(['input_missing', 'input_unreadable', 'output_folder', 'path_invalid']);

/** Of a `sallyport run` that had no sandbox. */
export function refusalStatus({ code, status, message }: SallyportError): number {
  if (code === 'exec_failed') return startFailureStatus(message);
  if (status >= 500) return runExitCodes.platform;
  return usageCodes.has(code) ? 2 : runExitCodes.denied;
}
