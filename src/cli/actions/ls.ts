/** `sallyport ls`: sandboxes, or runs. */
import type { RunRecord } from '../../run/types.ts';
import type { SandboxInfo } from '../../sandbox/types.ts';
import type { Action } from '../command.ts';
import { renderTable } from '../terminal/table.ts';
import { write, writeJson } from '../terminal/write.ts';
import { withClient } from './with-client.ts';

export const run: Action = (context, { options }) =>
  withClient(context, options, async (client) => {
    const table = options.flag('runs') ? runTable : sandboxTable;
    const path = options.flag('runs') ? '/v1/runs' : `/v1/sandboxes?ended=${options.flag('all')}`;
    const list = await client.json<{ readonly sandboxes: SandboxInfo[]; readonly runs: RunRecord[] }>('GET', path);
    if (options.flag('json')) await writeJson(context.stdout, options.flag('runs') ? list.runs : list.sandboxes);
    else await write(context.stdout, table(list));
    return undefined;
  });

function sandboxTable({ sandboxes }: { readonly sandboxes: readonly SandboxInfo[] }): string {
  const rows = sandboxes.map((info) => [
    info.id,
    info.class,
    info.tier,
    info.endReason ?? info.state,
    secondsOf(info.createdAt),
  ]);
  return renderTable(['ID', 'CLASS', 'TIER', 'STATE', 'CREATED'], rows);
}

function runTable({ runs }: { readonly runs: readonly RunRecord[] }): string {
  const rows = runs.map((record) => [
    record.runId,
    record.grant.class,
    record.limitsHit[0] ?? record.outcome,
    secondsOf(record.timings.createdAt),
  ]);
  return renderTable(['ID', 'CLASS', 'OUTCOME', 'CREATED'], rows);
}

/** Within 80 columns there is no room for milliseconds. */
function secondsOf(time: string): string {
  return time.replace(/\.\d+Z$/, 'Z');
}
