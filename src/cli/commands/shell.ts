/** A login bash in a sandbox. */
import type { CommandDescription } from '../command.ts';
import { clientOptions } from '../shared-options.ts';

export const shell: CommandDescription = {
  name: 'shell',
  summary: 'open a shell in a sandbox',
  arguments: [{ name: '<id>', summary: 'sandbox' }],
  options: [{ flags: '--user <user>', summary: 'who it runs as', choices: ['user', 'root'] }, ...clientOptions],
  load: () => import('../actions/shell.ts'),
};
