/** The version of this program. */
import type { CommandDescription } from '../command.ts';

export const version: CommandDescription = {
  name: 'version',
  summary: 'print the version',
  load: () => import('../actions/version.ts'),
};
