/** The daemon. */
import type { CommandDescription } from '../command.ts';
import { homeOption, policyOption, resolverOption, upstreamCaOption } from '../shared-options.ts';

export const up: CommandDescription = {
  name: 'up',
  summary: 'start the daemon; its first start makes an API key',
  options: [
    { flags: '--port <port>', summary: 'port (default 7117; 0: any)' },
    { flags: '--host <address>', summary: 'address to listen on (default 127.0.0.1)' },
    { flags: '--server-name <host:port>', summary: 'another name the API answers to', repeat: true },
    { flags: '--new-key', summary: 'make another API key and write it to the home' },
    { flags: '--log-level <level>', summary: 'least level of the log', choices: ['debug', 'info', 'warn', 'error'] },
    resolverOption,
    upstreamCaOption,
    policyOption,
    homeOption,
  ],
  load: () => import('../actions/up.ts'),
};
