/** One sandbox. */
import type { CommandDescription } from '../command.ts';
import { clientOptions, jsonOption } from '../shared-options.ts';

export const info: CommandDescription = {
  name: 'info',
  summary: 'show a sandbox, what it uses, or why it ended',
  arguments: [{ name: '<id>', summary: 'sandbox' }],
  options: [jsonOption, ...clientOptions],
  load: () => import('../actions/info.ts'),
};
