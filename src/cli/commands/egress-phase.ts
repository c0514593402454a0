/** The next set of rules of a sandbox. */
import type { CommandDescription } from '../command.ts';
import { clientOptions, jsonOption } from '../shared-options.ts';

export const egressPhase: CommandDescription = {
  name: 'egress phase',
  summary: 'move a sandbox on to a later phase of its network rules; there is no way back',
  arguments: [
    { name: '<id>', summary: 'sandbox' },
    { name: '<phase>', summary: 'one of the phases of its class' },
  ],
  options: [jsonOption, ...clientOptions],
  load: () => import('../actions/egress-phase.ts'),
};
