/** `sallyport completion`: the script of a shell. */
import type { Action } from '../command.ts';
import { completionScripts } from '../completion/scripts.ts';
import { write } from '../terminal/write.ts';

export const run: Action = async (context, { arguments: [shell = ''] }) => {
  await write(context.stdout, completionScripts.get(shell) ?? '');
  return undefined;
};
