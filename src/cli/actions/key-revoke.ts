/** `sallyport key revoke`: a key is refused from now on, also by a running daemon. */
import type { Action } from '../command.ts';
import { UsageError } from '../usage-error.ts';
import { withStore } from './with-store.ts';

export const run: Action = (context, { arguments: [id = ''], options }) =>
  withStore(context, options, async ({ apiKeys }) => {
    if (!apiKeys.revoke(id)) throw new UsageError(`${JSON.stringify(id)} is no valid key; see "sallyport key list"`);
    return undefined;
  });
