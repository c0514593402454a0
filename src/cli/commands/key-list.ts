/** The API keys. */
import type { CommandDescription } from '../command.ts';
import { homeOption, jsonOption } from '../shared-options.ts';

export const keyList: CommandDescription = {
  name: 'key list',
  summary: 'list the API keys',
  options: [jsonOption, homeOption],
  load: () => import('../actions/key-list.ts'),
};
