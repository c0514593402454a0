/** `sallyport doctor`: what works on this host and what does not. Exit status 1 when something failed. */
import type { Action } from '../command.ts';
import { diagnose, type Finding } from '../diagnosis.ts';
import { homeOf } from '../home.ts';
import { policyFileOf } from '../policy-file.ts';
import { safeText } from '../terminal/safe-text.ts';
import { write, writeJson } from '../terminal/write.ts';

export const run: Action = async (context, { options }) => {
  const findings: Finding[] = [];
  for await (const finding of diagnose(homeOf(context, options), policyFileOf(context, options))) {
    findings.push(finding);
    if (!options.flag('json')) await write(context.stdout, lineOf(finding));
  }
  if (options.flag('json')) await writeJson(context.stdout, findings);
  return findings.some(({ status }) => status === 'failed') ? 1 : 0;
};

const words = { ok: 'ok', failed: 'FAILED', note: 'note' } as const;

function lineOf({ check, status, detail, next }: Finding): string {
  const line = `${words[status].padEnd(8)}${check.padEnd(18)}${safeText(detail)}\n`;
  return next === undefined ? line : `${line}${' '.repeat(26)}next: ${next}\n`;
}
