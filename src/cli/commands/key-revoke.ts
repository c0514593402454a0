/** The end of an API key. */
import type { CommandDescription } from '../command.ts';
import { homeOption } from '../shared-options.ts';

export const keyRevoke: CommandDescription = {
  name: 'key revoke',
  summary: 'refuse an API key from now on',
  arguments: [{ name: '<id>', summary: 'the id that "key list" shows' }],
  options: [homeOption],
  load: () => import('../actions/key-revoke.ts'),
};
