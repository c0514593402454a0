/** A sandbox of the daemon. */
import type { CommandDescription } from '../command.ts';
import { clientOptions, jsonOption, requestOptions } from '../shared-options.ts';

export const create: CommandDescription = {
  name: 'create',
  summary: 'create a sandbox and print its id',
  options: [
    ...requestOptions,
    { flags: '--metadata <KEY=value>', summary: 'label of the sandbox', repeat: true },
    jsonOption,
    ...clientOptions,
  ],
  load: () => import('../actions/create.ts'),
};
