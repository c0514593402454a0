/** The end of sandboxes. */
import type { CommandDescription } from '../command.ts';
import { clientOptions, jsonOption } from '../shared-options.ts';

export const kill: CommandDescription = {
  name: 'kill',
  summary: 'end sandboxes and remove everything of them',
  arguments: [{ name: '<id...>', summary: 'sandboxes' }],
  options: [jsonOption, ...clientOptions],
  load: () => import('../actions/kill.ts'),
};
