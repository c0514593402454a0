/** `sallyport explain`: what the rules of a sandbox say to a URL; status 1 when it would be denied. */
import type { Action } from '../command.ts';
import { renderTable } from '../terminal/table.ts';
import { write, writeJson } from '../terminal/write.ts';
import { withClient } from './with-client.ts';

interface Answer {
  readonly verdict: 'allow' | 'deny' | 'would-deny';
  readonly rule: string | null;
  readonly code: string | null;
  readonly reason: string;
  readonly handling: string | null;
  readonly nextStep: string | null;
  readonly file: string | null;
  readonly line: number | null;
}

export const run: Action = (context, { arguments: [id = '', url = ''], options }) =>
  withClient(context, options, async (client) => {
    const query = new URLSearchParams({ url });
    const method = options.text('method');
    if (method !== undefined) query.set('method', method);
    const answer = await client.json<Answer>('GET', `/v1/sandboxes/${encodeURIComponent(id)}/egress/explain?${query}`);
    if (options.flag('json')) await writeJson(context.stdout, answer);
    else await write(context.stdout, renderTable(undefined, rowsOf(answer)));
    return answer.verdict === 'deny' ? 1 : undefined;
  });

const handlings: Readonly<Record<string, string>> = {
  splice: 'bytes pass as they are',
  http: 'each request is judged',
  open: 'TLS is opened and each request is judged',
};

function rowsOf({ verdict, rule, code, reason, handling, nextStep, file, line }: Answer): string[][] {
  const place = file === null ? '' : ` (${file}${line === null ? '' : `:${line}`})`;
  const rows: [string, string | null][] = [
    ['verdict', code === null ? verdict : `${verdict}: ${code}`],
    ['rule', rule === null ? null : `${rule}${place}`],
    ['reason', reason],
    ['handling', handling === null ? null : (handlings[handling] ?? handling)],
    ['next', nextStep],
  ];
  return rows.flatMap(([name, value]) => (value === null ? [] : [[name, value]]));
}
