/** `sallyport egress tighten`: cut off more of what a running sandbox may reach. */
import type { Action } from '../command.ts';
import { networkRequestOf } from '../sandbox-request.ts';
import { write, writeJson } from '../terminal/write.ts';
import { UsageError } from '../usage-error.ts';
import { withClient } from './with-client.ts';

export const run: Action = (context, { arguments: [id = ''], options }) =>
  withClient(context, options, async (client) => {
    const network = networkRequestOf(options);
    if (network === undefined)
      throw new UsageError('Name what is left: --network deny, --allow-host or --network-rule');
    const path = `/v1/sandboxes/${encodeURIComponent(id)}/egress/tighten`;
    const state = await client.json<{ readonly connections: number }>('POST', path, { json: { network } });
    if (options.flag('json')) await writeJson(context.stdout, state);
    else await write(context.stdout, `${id} is tightened; ${state.connections} connections are left\n`);
    return undefined;
  });
