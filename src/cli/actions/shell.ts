/** `sallyport shell`: a login bash on this terminal. */
import { runPty } from '../api/pty-session.ts';
import type { Action } from '../command.ts';
import { exitStatusOf } from '../exit-status.ts';
import { endpointOf } from '../home.ts';
import { write } from '../terminal/write.ts';
import { UsageError } from '../usage-error.ts';

export const run: Action = async (context, { arguments: [id = ''], options }) => {
  if (context.stdin.isTTY !== true) throw new UsageError('a shell needs a terminal on standard input; use "exec"');
  const user = options.text('user');
  const query = user === undefined ? {} : { user };
  const result = await runPty(context, endpointOf(context, options), { sandboxId: id, query });
  if (result.detail !== null) await write(context.stderr, `sallyport: ${result.detail}\n`);
  return exitStatusOf(result);
};
