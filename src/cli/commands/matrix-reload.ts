/** A changed policy file for a running daemon. */
import type { CommandDescription } from '../command.ts';
import { clientOptions, jsonOption } from '../shared-options.ts';

export const matrixReload: CommandDescription = {
  name: 'matrix reload',
  summary: 'have the daemon read its policy file again; one that is invalid changes nothing',
  options: [jsonOption, ...clientOptions],
  load: () => import('../actions/matrix-reload.ts'),
};
