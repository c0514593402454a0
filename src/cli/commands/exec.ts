/** A command in a sandbox of the daemon. */
import type { CommandDescription } from '../command.ts';
import { clientOptions } from '../shared-options.ts';

export const exec: CommandDescription = {
  name: 'exec',
  summary: 'run a command in a sandbox; its exit status is passed on',
  arguments: [
    { name: '<id>', summary: 'sandbox' },
    { name: '<command...>', summary: 'program and arguments' },
  ],
  passThrough: true,
  options: [
    { flags: '-i, --interactive', summary: 'pass standard input on' },
    { flags: '-t, --tty', summary: 'on a terminal' },
    { flags: '--cwd <folder>', summary: 'working folder' },
    { flags: '--env <KEY=value>', summary: 'environment variable', repeat: true },
    { flags: '--user <user>', summary: 'who runs it', choices: ['user', 'root'] },
    { flags: '--timeout <duration>', summary: 'longest life, for instance 30s' },
    ...clientOptions,
  ],
  load: () => import('../actions/exec.ts'),
};
