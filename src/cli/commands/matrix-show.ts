/** The permission matrix. */
import type { CommandDescription } from '../command.ts';
import { homeOption, jsonOption, policyOption } from '../shared-options.ts';

export const matrixShow: CommandDescription = {
  name: 'matrix show',
  summary: 'show the permission matrix',
  options: [jsonOption, policyOption, homeOption],
  load: () => import('../actions/matrix-show.ts'),
};
