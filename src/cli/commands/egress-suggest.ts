/** Rules from what was observed. */
import type { CommandDescription } from '../command.ts';
import { clientOptions, jsonOption } from '../shared-options.ts';

export const egressSuggest: CommandDescription = {
  name: 'egress suggest',
  summary: 'the smallest rules that allow what sandboxes in mode observe reached',
  arguments: [{ name: '<source...>', summary: 'running sandboxes, or egress.jsonl files of runs' }],
  options: [
    { flags: '--wildcards', summary: 'one pattern for three and more names below the same parent' },
    { flags: '--paths <how>', summary: 'how close paths are taken', choices: ['exact', 'siblings', 'any'] },
    jsonOption,
    ...clientOptions,
  ],
  examples: ['sallyport egress suggest sallyport-out/run-*/egress.jsonl'],
  load: () => import('../actions/egress-suggest.ts'),
};
