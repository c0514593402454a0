/** `sallyport create`: a sandbox of the daemon; its id is all that is printed. */
import type { SandboxInfo } from '../../sandbox/types.ts';
import type { Action } from '../command.ts';
import { sandboxRequestOf } from '../sandbox-request.ts';
import { write, writeJson } from '../terminal/write.ts';
import { parsePairs } from '../usage-error.ts';
import { withClient } from './with-client.ts';

export const run: Action = (context, { options }) => {
  const metadata = parsePairs('--metadata', options.list('metadata'));
  const json = { ...sandboxRequestOf(options), ...(Object.keys(metadata).length === 0 ? {} : { metadata }) };
  return withClient(context, options, async (client) => {
    const info = await client.json<SandboxInfo>('POST', '/v1/sandboxes', { json });
    if (options.flag('json')) await writeJson(context.stdout, info);
    else await write(context.stdout, `${info.id}\n`);
    return undefined;
  });
};
