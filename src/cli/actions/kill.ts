/** `sallyport kill`: ends sandboxes; returns when nothing of them is left. */
import type { SandboxInfo } from '../../sandbox/types.ts';
import type { Action } from '../command.ts';
import { write, writeJson } from '../terminal/write.ts';
import { withClient } from './with-client.ts';

export const run: Action = (context, { arguments: ids, options }) =>
  withClient(context, options, async (client) => {
    const ended: SandboxInfo[] = [];
    for (const id of ids) ended.push(await client.json('DELETE', `/v1/sandboxes/${encodeURIComponent(id)}`));
    if (options.flag('json')) await writeJson(context.stdout, ended);
    else await write(context.stdout, ended.map(({ id }) => `${id}\n`).join(''));
    return undefined;
  });
