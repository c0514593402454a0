/** Errors as the caller of the CLI sees them: a sentence and the next step, or the error object with --json. */
import { asSallyportError } from '../errors/error.ts';
import type { Context } from './context.ts';
import { UsageError } from './usage-error.ts';

export function tellError({ stderr }: Context, thrown: unknown, json: boolean): void {
  if (thrown instanceof UsageError) {
    stderr.write(`sallyport: ${thrown.message}\n`);
    return;
  }
  const error = asSallyportError(thrown);
  if (json) stderr.write(`${JSON.stringify(error)}\n`);
  else stderr.write(`sallyport: ${error.message}\nnext: ${error.next}\n`);
}
