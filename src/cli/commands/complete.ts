/** What the completion scripts ask. */
import type { CommandDescription } from '../command.ts';

export const complete: CommandDescription = {
  name: 'complete',
  summary: 'print what may follow, a candidate a line',
  arguments: [{ name: '[words...]', summary: 'the line so far, without "sallyport"; the last word is being typed' }],
  passThrough: true,
  hidden: true,
  load: () => import('../actions/complete.ts'),
};
