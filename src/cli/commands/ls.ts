/** The sandboxes, or the runs. */
import type { CommandDescription } from '../command.ts';
import { clientOptions, jsonOption } from '../shared-options.ts';

export const ls: CommandDescription = {
  name: 'ls',
  summary: 'list sandboxes or runs, newest first',
  options: [
    { flags: '--all', summary: 'those that ended, too' },
    { flags: '--runs', summary: 'runs instead of sandboxes' },
    jsonOption,
    ...clientOptions,
  ],
  load: () => import('../actions/ls.ts'),
};
