/** What a sandbox printed. */
import type { CommandDescription } from '../command.ts';
import { clientOptions, jsonOption } from '../shared-options.ts';

export const logs: CommandDescription = {
  name: 'logs',
  summary: 'show the head of what the commands of a sandbox printed',
  arguments: [{ name: '<id>', summary: 'sandbox' }],
  options: [jsonOption, ...clientOptions],
  load: () => import('../actions/logs.ts'),
};
