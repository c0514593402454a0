/** Less than the Grant, from now on. */
import type { CommandDescription } from '../command.ts';
import { clientOptions, jsonOption, networkOptions } from '../shared-options.ts';

export const egressTighten: CommandDescription = {
  name: 'egress tighten',
  summary: 'cut off more of what a running sandbox may reach; there is no way back',
  arguments: [{ name: '<id>', summary: 'sandbox' }],
  options: [...networkOptions, jsonOption, ...clientOptions],
  load: () => import('../actions/egress-tighten.ts'),
};
