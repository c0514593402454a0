/** `sallyport key create`: a new API key, shown this once. */
import type { Action } from '../command.ts';
import { write, writeJson } from '../terminal/write.ts';
import { withStore } from './with-store.ts';

export const run: Action = (context, { arguments: [name = 'unnamed'], options }) =>
  withStore(context, options, async ({ apiKeys }) => {
    const { apiKey, key } = apiKeys.create(name);
    if (options.flag('json')) await writeJson(context.stdout, { ...apiKey, key });
    else await write(context.stdout, `${key}\n`);
    return undefined;
  });
