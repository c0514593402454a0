/** `sallyport egress suggest`: a `rules` list to put into the class, with what each rule is for. */
import { readFile } from 'node:fs/promises';
import { observedFlows } from '../../egress/observed.ts';
import type { EgressRecord } from '../../egress/records.ts';
import { ruleYaml } from '../../egress/rules/rule-yaml.ts';
import { type ObservedFlow, type Suggestion, suggestRules } from '../../egress/rules/suggest.ts';
import { SallyportError } from '../../errors/error.ts';
import type { Action, Call } from '../command.ts';
import type { Context } from '../context.ts';
import { safeName } from '../terminal/safe-text.ts';
import { write, writeJson } from '../terminal/write.ts';
import { withClient } from './with-client.ts';

/** Requests that are named under a rule; the rest is counted. */
const shownFlows = 10;

export const run: Action = async (context, call) => {
  const records = await recordsOf(context, call);
  const paths = call.options.text('paths') as 'exact' | 'siblings' | 'any' | undefined;
  const suggestion = suggestRules(observedFlows(records), {
    wildcards: call.options.flag('wildcards'),
    ...(paths === undefined ? {} : { paths }),
  });
  if (call.options.flag('json')) await writeJson(context.stdout, suggestion);
  else await show(context, suggestion);
  return undefined;
};

async function recordsOf(context: Context, call: Call): Promise<readonly EgressRecord[]> {
  const isSandbox = (source: string): boolean => /^sb-[0-9a-f]+$/.test(source);
  const files = call.arguments.filter((source) => !isSandbox(source));
  const fromFiles = await Promise.all(files.map(readRecords));
  const ids = call.arguments.filter(isSandbox);
  if (ids.length === 0) return fromFiles.flat();
  const fromSandboxes: EgressRecord[] = [];
  await withClient(context, call.options, async (client) => {
    for (const id of ids) {
      const { records } = await client.json<{ records: readonly EgressRecord[] }>('GET', `/v1/sandboxes/${id}/egress`);
      fromSandboxes.push(...records);
    }
    return undefined;
  });
  return [...fromFiles.flat(), ...fromSandboxes];
}

/** @throws SallyportError `invalid_request` for what is no flow log */
async function readRecords(file: string): Promise<readonly EgressRecord[]> {
  try {
    const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line !== '');
    return lines.map((line) => JSON.parse(line) as EgressRecord);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new SallyportError('invalid_request', `Cannot read ${file} as a flow log (egress.jsonl): ${reason}`);
  }
}

async function show(context: Context, { rules, uncovered }: Suggestion): Promise<void> {
  if (rules.length === 0) await write(context.stdout, '# Nothing was observed that needs a rule.\nrules: []\n');
  else await write(context.stdout, 'rules:\n');
  for (const { rule, flows } of rules) {
    const named = flows.slice(0, shownFlows).map((flow) => `  # ${describe(flow)}\n`);
    const more = flows.length > shownFlows ? [`  # and ${flows.length - shownFlows} more\n`] : [];
    const yaml = ruleYaml(rule)
      .trimEnd()
      .split('\n')
      .map((line) => `  ${line}\n`);
    await write(context.stdout, [...named, ...more, ...yaml].join(''));
  }
  for (const { flow, reason } of uncovered)
    await write(context.stderr, `sallyport: no rule for ${describe(flow)}: ${reason}\n`);
}

function describe({ target, port, protocol, method, path }: ObservedFlow): string {
  const place = target.kind === 'host' ? target.host : target.address.text;
  const where = `${place.includes(':') ? `[${place}]` : place}:${port}`;
  return safeName(method === undefined ? `${protocol} ${where}` : `${method} ${where}${path ?? ''}`);
}
