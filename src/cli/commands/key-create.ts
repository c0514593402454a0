/** A new API key. */
import type { CommandDescription } from '../command.ts';
import { homeOption, jsonOption } from '../shared-options.ts';

export const keyCreate: CommandDescription = {
  name: 'key create',
  summary: 'make an API key and print it, this once',
  arguments: [{ name: '[name]', summary: 'what it is for' }],
  options: [jsonOption, homeOption],
  load: () => import('../actions/key-create.ts'),
};
