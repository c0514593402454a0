/** Completion for shells. */
import type { CommandDescription } from '../command.ts';

export const completion: CommandDescription = {
  name: 'completion',
  summary: 'print the completion script of a shell',
  arguments: [{ name: '<shell>', summary: 'the shell', choices: ['bash', 'zsh', 'fish'] }],
  examples: ['source <(sallyport completion bash)', 'sallyport completion fish | source'],
  load: () => import('../actions/completion.ts'),
};
