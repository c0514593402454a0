/**
 * Shell completion from commander's own tree: `sallyport completion bash|zsh|fish` prints a script, which asks
 * `sallyport complete -- …` for the words. Loaded only for these two.
 */
import tab from '@bomb.sh/tab/commander';
import type { Command } from 'commander';

export function addCompletion(program: Command): void {
  tab(program, { completionCommandName: 'completion' });
}
