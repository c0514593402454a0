/** One command in a fresh sandbox. */
import type { CommandDescription } from '../command.ts';
import { homeOption, policyOption, requestOptions, resolverOption, upstreamCaOption } from '../shared-options.ts';

export const run: CommandDescription = {
  name: 'run',
  summary: 'run one command in a fresh sandbox and keep what it made',
  arguments: [{ name: '<command...>', summary: 'program and arguments' }],
  passThrough: true,
  options: [
    ...requestOptions,
    { flags: '--input <path>', summary: 'file or folder to show at /inputs', repeat: true },
    { flags: '--artifact <glob>', summary: 'files to keep, relative to the working folder', repeat: true },
    { flags: '--output <folder>', summary: 'where artifacts and record go (default ./sallyport-out)' },
    { flags: '--json', summary: 'print the record on stdout, the output of the command on stderr' },
    { flags: '--quiet', summary: 'no summary' },
    resolverOption,
    upstreamCaOption,
    policyOption,
    homeOption,
  ],
  examples: ["sallyport run --class analysis --input data.csv --artifact 'out/*' -- python3 /inputs/analyze.py"],
  load: () => import('../actions/run.ts'),
};
