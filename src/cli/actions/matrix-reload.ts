/** `sallyport matrix reload`: the daemon reads its policy file again. */
import type { Action } from '../command.ts';
import { write, writeJson } from '../terminal/write.ts';
import { withClient } from './with-client.ts';

export const run: Action = (context, { options }) =>
  withClient(context, options, async (client) => {
    const answer = await client.json<{ sha256: string; sandboxes: number }>('POST', '/v1/matrix/reload');
    if (options.flag('json')) await writeJson(context.stdout, answer);
    else
      await write(context.stdout, `policy ${answer.sha256} binds; laid over ${answer.sandboxes} running sandboxes\n`);
    return undefined;
  });
