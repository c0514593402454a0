/** What works on this host. */
import type { CommandDescription } from '../command.ts';
import { homeOption, jsonOption, policyOption } from '../shared-options.ts';

export const doctor: CommandDescription = {
  name: 'doctor',
  summary: 'find out what works on this host by starting a sandbox of every tier',
  options: [jsonOption, policyOption, homeOption],
  load: () => import('../actions/doctor.ts'),
};
