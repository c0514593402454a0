/** `sallyport logs --egress`: what a sandbox tried to reach, a line each. */
import { createInterface } from 'node:readline';
import type { EgressRecord, EgressSummary } from '../../egress/records.ts';
import type { ApiClient } from '../api/client.ts';
import type { Context } from '../context.ts';
import type { Options } from '../options.ts';
import { safeName } from '../terminal/safe-text.ts';
import { renderTable } from '../terminal/table.ts';
import { write, writeJson } from '../terminal/write.ts';

interface State {
  readonly mode: string;
  readonly phase: string | null;
  readonly connections: number;
  readonly summary: EgressSummary;
  readonly records: readonly EgressRecord[];
}

export async function showEgress(
  context: Context,
  client: ApiClient,
  id: string,
  options: Options,
): Promise<undefined> {
  const path = `/v1/sandboxes/${encodeURIComponent(id)}/egress`;
  if (options.flag('follow')) return followEgress(context, client, path, options.flag('json'));
  const state = await client.json<State>('GET', path);
  if (options.flag('json')) {
    await writeJson(context.stdout, state);
    return undefined;
  }
  if (state.records.length > 0) await write(context.stdout, renderTable(columns, state.records.map(rowOf)));
  await write(context.stderr, `sallyport: ${sentenceOf(state)}\n`);
  return undefined;
}

async function followEgress(context: Context, client: ApiClient, path: string, isJson: boolean): Promise<undefined> {
  const lines = createInterface({ input: await client.open('GET', `${path}?follow=true`) });
  for await (const line of lines) {
    const text = isJson
      ? line
      : rowOf(JSON.parse(line) as EgressRecord)
          .filter((cell) => cell !== '')
          .map(safeName)
          .join('  ');
    await write(context.stdout, `${text}\n`);
  }
  return undefined;
}

const columns = ['time', 'what', 'verdict', 'rule', 'where', 'bytes up/down', 'why'];

function rowOf(record: EgressRecord): string[] {
  const { at, kind, verdict, rule, upBytes, downBytes, count } = record;
  return [
    at.slice(11, 23),
    count > 1 ? `${whatOf(record)} ×${count}` : whatOf(record),
    verdict,
    rule ?? '-',
    whereOf(record),
    kind === 'connection' || kind === 'request' ? `${upBytes}/${downBytes}` : '',
    whyOf(record),
  ];
}

function whatOf({ kind, protocol, method, status }: EgressRecord): string {
  if (kind === 'request') return `${method}${status === null ? '' : ` → ${status}`}`;
  return kind === 'dns' ? `dns ${protocol}` : (protocol ?? 'tcp');
}

function whereOf({ host, address, port, path, kind }: EgressRecord): string {
  if (kind === 'dns') return host ?? '';
  const name = host ?? address ?? '';
  const place = host === null || address === null ? '' : ` (${address})`;
  return `${name.includes(':') ? `[${name}]` : name}${port === null ? '' : `:${port}`}${path ?? ''}${place}`;
}

function whyOf({ code, reason, fault }: EgressRecord): string {
  return [code === null ? null : `${code}: ${reason}`, fault].filter((text) => text !== null).join('; ');
}

function sentenceOf({ mode, phase, connections, summary }: State): string {
  const { allowed, denied, wouldDeny, lost } = summary;
  const parts = [
    `network ${mode}${phase === null ? '' : `, phase ${phase}`}`,
    `${allowed} allowed, ${denied} denied${wouldDeny > 0 ? `, ${wouldDeny} would be denied` : ''}`,
    `${connections} connections open`,
    ...(lost > 0 ? [`${lost} entries are not kept`] : []),
  ];
  return parts.join('; ');
}
