/** `sallyport key list`: the API keys, without the keys. */
import type { Action } from '../command.ts';
import { renderTable } from '../terminal/table.ts';
import { write, writeJson } from '../terminal/write.ts';
import { withStore } from './with-store.ts';

export const run: Action = (context, { options }) =>
  withStore(context, options, async ({ apiKeys }) => {
    const keys = apiKeys.list();
    const rows = keys.map(({ id, name, createdAt, revokedAt }) => [id, name, createdAt, revokedAt ?? 'no']);
    if (options.flag('json')) await writeJson(context.stdout, keys);
    else await write(context.stdout, renderTable(['ID', 'NAME', 'CREATED', 'REVOKED'], rows));
    return undefined;
  });
