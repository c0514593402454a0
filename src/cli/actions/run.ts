/** `sallyport run`: one command in a fresh sandbox, in this process, without a daemon. */
import type { Writable } from 'node:stream';
import { loadPolicy } from '../../admission/policy.ts';
import { SallyportError } from '../../errors/error.ts';
import { openHostSide } from '../../host/host-side.ts';
import { type RunOutcome, run as runInSandbox } from '../../run/run.ts';
import { type RunRecord, runExitCodes } from '../../run/types.ts';
import { openSandboxes } from '../../sandbox/sandboxes.ts';
import { appendRun } from '../../store/append-run.ts';
import { argumentBytes } from '../argument-bytes.ts';
import type { Action, Call } from '../command.ts';
import type { Context } from '../context.ts';
import { exitStatusOf, refusalStatus, startFailureStatus } from '../exit-status.ts';
import { homeFiles, homeOf } from '../home.ts';
import { type Interruption, listenForInterruption } from '../interruption.ts';
import { policyFileOf } from '../policy-file.ts';
import { tellError } from '../report-error.ts';
import { runSummary } from '../run-summary.ts';
import { sandboxRequestOf } from '../sandbox-request.ts';
import { ReaderGone, write } from '../terminal/write.ts';
import { upstreamsOf } from '../upstreams.ts';
import { withStore } from './with-store.ts';

/** Of a shell, for a writer whose reader is gone: 128 + SIGPIPE. */
const readerGoneStatus = 141;

export const run: Action = async (context, call) => {
  const interruption = listenForInterruption();
  try {
    const { record, folder } = await execute(context, call, interruption);
    await keep(context, call, record);
    await tell(context, call, record, folder);
    return interruption.status() ?? statusOf(record);
  } catch (thrown) {
    if (!(thrown instanceof SallyportError)) throw thrown;
    tellError(context, thrown, call.options.flag('json'));
    return interruption.status() ?? refusalStatus(thrown);
  } finally {
    interruption.stop();
  }
};

async function execute(context: Context, call: Call, interruption: Interruption): Promise<RunOutcome> {
  const { options } = call;
  const request = sandboxRequestOf(options);
  const policy = await loadPolicy(policyFileOf(context, options));
  const sandboxes = await openSandboxes({
    host: openHostSide({ home: homeOf(context, options), preparedNetworks: 1 }),
    policy,
    network: { ...upstreamsOf(options), daemonPorts: new Set() },
  });
  // with --json, standard output holds the record and nothing else
  const stdout = options.flag('json') ? context.stderr : context.stdout;
  try {
    return await runInSandbox({
      sandboxes,
      request,
      argv: argumentBytes(call.arguments),
      inputs: options.list('input'),
      artifacts: options.list('artifact'),
      outputFolder: options.text('output') ?? 'sallyport-out',
      onOutput: ({ channel, data }) => pass(channel === 'stdout' ? stdout : context.stderr, data, interruption),
      signal: interruption.signal,
    });
  } finally {
    await sandboxes.close();
  }
}

/** A reader that is gone ends the run, as SIGPIPE would: nobody wants the rest. */
async function pass(stream: Writable, data: Buffer, interruption: Interruption): Promise<void> {
  if (interruption.signal.aborted) return;
  try {
    await write(stream, data, interruption.signal);
  } catch (thrown) {
    if (!(thrown instanceof ReaderGone)) throw thrown;
    interruption.interrupt(readerGoneStatus);
  }
}

/** The store is a convenience here: the record lies beside the artifacts, so a store that fails only warns. */
async function keep(context: Context, { options }: Call, record: RunRecord): Promise<void> {
  try {
    if (appendRun(homeFiles.store(homeOf(context, options)), record)) return;
    await withStore(context, options, async ({ runs }) => runs.insert(record));
  } catch (thrown) {
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    await write(context.stderr, `sallyport: the run is not in "sallyport ls --runs": ${reason}\n`);
  }
}

async function tell(context: Context, { options }: Call, record: RunRecord, folder: string): Promise<void> {
  if (options.flag('json')) return write(context.stdout, `${JSON.stringify(record)}\n`);
  if (!options.flag('quiet')) await write(context.stderr, runSummary(record, folder));
}

function statusOf({ outcome, exec, error }: RunRecord): number {
  if (outcome === 'limit') return runExitCodes.limit;
  if (error?.code === 'exec_failed') return startFailureStatus(error.message);
  if (outcome === 'denied') return runExitCodes.denied;
  return exec === null ? runExitCodes.platform : exitStatusOf(exec);
}
