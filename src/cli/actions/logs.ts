/** `sallyport logs`: the head of what a sandbox printed. On a terminal its control sequences are shown, not obeyed. */
import type { Writable } from 'node:stream';
import type { Action } from '../command.ts';
import { safeText } from '../terminal/safe-text.ts';
import { write, writeJson } from '../terminal/write.ts';
import { UsageError } from '../usage-error.ts';
import { showEgress } from './logs-egress.ts';
import { withClient } from './with-client.ts';

interface Log {
  readonly chunks: readonly { readonly channel: 'stdout' | 'stderr'; readonly base64: string }[];
  readonly omittedBytes: number;
}

export const run: Action = (context, { arguments: [id = ''], options }) =>
  withClient(context, options, async (client) => {
    if (options.flag('egress')) return showEgress(context, client, id, options);
    if (options.flag('follow')) throw new UsageError('--follow is for --egress');
    const log = await client.json<Log>('GET', `/v1/sandboxes/${encodeURIComponent(id)}/log`);
    if (options.flag('json')) {
      await writeJson(context.stdout, log);
      return undefined;
    }
    for (const { channel, base64 } of log.chunks) await show(context[channel], Buffer.from(base64, 'base64'));
    if (log.omittedBytes > 0) await write(context.stderr, `sallyport: ${log.omittedBytes} more bytes were not kept\n`);
    return undefined;
  });

function show(stream: Writable & { readonly isTTY?: boolean }, data: Buffer): Promise<void> {
  return write(stream, stream.isTTY === true ? safeText(data.toString()) : data);
}
