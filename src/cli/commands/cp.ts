/** Files in and out. */
import type { CommandDescription } from '../command.ts';
import { clientOptions, jsonOption } from '../shared-options.ts';

export const cp: CommandDescription = {
  name: 'cp',
  summary: 'copy files and folders into or out of a sandbox',
  arguments: [
    { name: '<from>', summary: '<id>:<path>, or a path of this machine' },
    { name: '<to>', summary: 'a path of this machine, or <id>:<path>' },
  ],
  options: [jsonOption, ...clientOptions],
  examples: ['sallyport cp data/ sb-1a2b:/home/user/', 'sallyport cp sb-1a2b:report.md .'],
  load: () => import('../actions/cp.ts'),
};
