/** `sallyport egress phase`: on to a later phase, one way. */
import type { Action } from '../command.ts';
import { write, writeJson } from '../terminal/write.ts';
import { withClient } from './with-client.ts';

interface State {
  readonly phase: string | null;
  readonly connections: number;
}

export const run: Action = (context, { arguments: [id = '', phase = ''], options }) =>
  withClient(context, options, async (client) => {
    const path = `/v1/sandboxes/${encodeURIComponent(id)}/egress/phase`;
    const state = await client.json<State>('POST', path, { json: { phase } });
    if (options.flag('json')) await writeJson(context.stdout, state);
    else await write(context.stdout, `${id} is in phase ${state.phase}; ${state.connections} connections are open\n`);
    return undefined;
  });
