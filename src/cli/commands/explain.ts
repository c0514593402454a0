/** Why a sandbox may or may not reach something. */
import type { CommandDescription } from '../command.ts';
import { clientOptions, jsonOption } from '../shared-options.ts';

export const explain: CommandDescription = {
  name: 'explain',
  summary: 'say whether a sandbox may reach a URL, by which rule, and what would allow it',
  arguments: [
    { name: '<id>', summary: 'sandbox' },
    { name: '<url>', summary: 'https://host/path, http://…, wss://…, tcp://host:port' },
  ],
  options: [{ flags: '--method <method>', summary: 'of HTTP, default GET' }, jsonOption, ...clientOptions],
  load: () => import('../actions/explain.ts'),
};
