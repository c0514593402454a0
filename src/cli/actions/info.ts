/** `sallyport info`: everything about one sandbox, and what it uses while it runs. */
import type { CgroupUsage } from '../../linux/types.ts';
import type { SandboxInfo } from '../../sandbox/types.ts';
import type { ApiClient } from '../api/client.ts';
import type { Action } from '../command.ts';
import { renderTable } from '../terminal/table.ts';
import { write, writeJson } from '../terminal/write.ts';
import { withClient } from './with-client.ts';

export const run: Action = (context, { arguments: [id = ''], options }) =>
  withClient(context, options, async (client) => {
    const path = `/v1/sandboxes/${encodeURIComponent(id)}`;
    const info = await client.json<SandboxInfo>('GET', path);
    const usage = info.state === 'running' ? await usageOf(client, path) : undefined;
    if (options.flag('json')) await writeJson(context.stdout, { ...info, ...(usage === undefined ? {} : { usage }) });
    else await write(context.stdout, renderTable(undefined, rowsOf(info, usage)));
    return undefined;
  });

/** It may end between the two calls. */
function usageOf(client: ApiClient, path: string): Promise<CgroupUsage | undefined> {
  return client.json<CgroupUsage>('GET', `${path}/stats`).catch(() => undefined);
}

function rowsOf(info: SandboxInfo, usage: CgroupUsage | undefined): [string, string][] {
  const rows: [string, string | undefined][] = [
    ['id', info.id],
    ['state', info.state],
    ['class', info.class],
    ['tier', info.tier],
    ['image', info.image.name],
    ['image digest', info.image.digest],
    ['runtime', `${info.runtime.name} ${info.runtime.version}`],
    ['grant digest', info.grantDigest],
    ['created', info.createdAt],
    ['deadline', info.deadlineAt],
    ['ended', info.endedAt],
    ['end reason', info.endReason],
    ['end detail', info.endDetail],
    ['memory now', usage === undefined ? undefined : `${usage.memoryBytes} bytes, at most ${usage.memoryPeakBytes}`],
    ['cpu time', usage === undefined ? undefined : `${(usage.cpuMicros / 1e6).toFixed(2)}s`],
    ['processes', usage === undefined ? undefined : `${usage.pids}, refused ${usage.pidsRefused}`],
    ...Object.entries(info.metadata).map(([name, value]): [string, string] => [`metadata ${name}`, value]),
  ];
  return rows.flatMap(([name, value]): [string, string][] => (value === undefined ? [] : [[name, value]]));
}
