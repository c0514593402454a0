/** `sallyport complete`: candidates for a shell. Silent when it knows none: a completion has no place for errors. */
import type { SandboxInfo } from '../../sandbox/types.ts';
import type { Action, Call } from '../command.ts';
import { type Candidate, completionOf } from '../completion/candidates.ts';
import type { Context } from '../context.ts';
import { write } from '../terminal/write.ts';
import { withClient } from './with-client.ts';

/** Somebody waits with a finger on Tab. */
const daemonDeadlineMs = 1_000;

export const run: Action = async (context, call) => {
  const words = call.arguments[0] === '--' ? call.arguments.slice(1) : call.arguments;
  const completion = completionOf(call.commands, words);
  if (completion.kind === 'files') return undefined;
  const candidates =
    completion.kind === 'words' ? completion.candidates : await sandboxes(context, call, words.at(-1) ?? '');
  await write(
    context.stdout,
    candidates.map(({ word, summary }) => (summary === '' ? `${word}\n` : `${word}\t${summary}\n`)).join(''),
  );
  return undefined;
};

async function sandboxes(context: Context, { options }: Call, typed: string): Promise<Candidate[]> {
  try {
    const signal = AbortSignal.timeout(daemonDeadlineMs);
    const list = await withClient(context, options, (client) =>
      client.json<{ readonly sandboxes: SandboxInfo[] }>('GET', '/v1/sandboxes', { signal }),
    );
    const found = list.sandboxes.map(({ id, class: job }) => ({ word: id, summary: job }));
    return found.filter(({ word }) => word.startsWith(typed));
  } catch {
    return [];
  }
}
