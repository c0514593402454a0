/** What a sandbox printed. */
import type { CommandDescription } from '../command.ts';
import { clientOptions, jsonOption } from '../shared-options.ts';

export const logs: CommandDescription = {
  name: 'logs',
  summary: 'show the head of what the commands of a sandbox printed, or what it tried to reach',
  arguments: [{ name: '<id>', summary: 'sandbox' }],
  options: [
    { flags: '--egress', summary: 'its questions, connections and requests, with each verdict' },
    { flags: '--follow', summary: 'with --egress: go on until the sandbox ends' },
    jsonOption,
    ...clientOptions,
  ],
  load: () => import('../actions/logs.ts'),
};
