/** The command line: finds the command, runs it, tells errors, sets the exit status. */
import { CommanderError } from 'commander';
import { type Context, processContext } from './context.ts';
import { buildProgram } from './program.ts';
import { tellError } from './report-error.ts';
import { ReaderGone } from './terminal/write.ts';
import { UsageError } from './usage-error.ts';

const usageStatus = 2;
/** Of a shell, for a writer whose reader is gone: 128 + SIGPIPE. */
const readerGoneStatus = 141;

/** @param argv without the program's own name. @returns the exit status */
export async function main(argv: readonly string[], context: Context = processContext()): Promise<number> {
  let status = 0;
  const program = buildProgram(context, (given) => {
    status = given;
  });
  try {
    await program.parseAsync([...argv], { from: 'user' });
    return status;
  } catch (thrown) {
    return failureStatus(context, argv, thrown);
  }
}

function failureStatus(context: Context, argv: readonly string[], thrown: unknown): number {
  // commander has told its errors itself, and calls help and version errors too
  if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? 0 : usageStatus;
  if (thrown instanceof ReaderGone) return readerGoneStatus;
  tellError(context, thrown, ownOptions(argv).includes('--json'));
  return thrown instanceof UsageError ? usageStatus : 1;
}

/** What comes before `--` is ours. */
function ownOptions(argv: readonly string[]): readonly string[] {
  const end = argv.indexOf('--');
  return end === -1 ? argv : argv.slice(0, end);
}
