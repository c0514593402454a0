/** `sallyport exec`: a command in a sandbox of the daemon. Its exit status is ours. */
import { SallyportError } from '../../errors/error.ts';
import type { ExecResult } from '../../sandbox/types.ts';
import { parseDuration } from '../../units/duration.ts';
import type { ApiClient } from '../api/client.ts';
import { type ExecCall, runExec } from '../api/run-exec.ts';
import { argumentBytes } from '../argument-bytes.ts';
import type { Action, Call } from '../command.ts';
import type { Context } from '../context.ts';
import { exitStatusOf, startFailureStatus } from '../exit-status.ts';
import { ReaderGone, write } from '../terminal/write.ts';
import { parseArgument, parsePairs, UsageError } from '../usage-error.ts';
import { withClient } from './with-client.ts';

export const run: Action = async (context, call) => {
  try {
    const result = await withClient(context, call.options, (client) => execute(context, call, client));
    if (result.detail !== null) await write(context.stderr, `sallyport: ${result.detail}\n`);
    return exitStatusOf(result);
  } catch (thrown) {
    if (!(thrown instanceof SallyportError) || thrown.code !== 'exec_failed') throw thrown;
    await write(context.stderr, `sallyport: ${thrown.message}\n`);
    return startFailureStatus(thrown.message);
  }
};

async function execute(context: Context, call: Call, client: ApiClient): Promise<ExecResult> {
  const [id = '', ...rest] = call.arguments;
  // commander leaves everything after the id alone, the separator too
  const command = rest[0] === '--' ? rest.slice(1) : rest;
  if (command.length === 0) throw new UsageError('the command is missing');
  if (call.options.flag('tty')) return executeOnTerminal(context, call, client, command);
  const gone = new AbortController();
  const interrupts = forwardInterrupts(client, id, gone);
  const stdin: Pick<ExecCall, 'stdin'> = call.options.flag('interactive') ? { stdin: context.stdin } : {};
  try {
    return await runExec(client, {
      sandboxId: id,
      request: requestOf(call, command),
      ...stdin,
      signal: gone.signal,
      onStart: interrupts.started,
      onOutput: (channel, data) => write(context[channel], data, gone.signal),
    });
  } catch (thrown) {
    if (gone.signal.aborted) throw new ReaderGone('Interrupted', { cause: thrown });
    throw thrown;
  } finally {
    interrupts.stop();
    if (stdin.stdin !== undefined) context.stdin.destroy();
  }
}

async function executeOnTerminal(
  context: Context,
  { arguments: [id = ''], options }: Call,
  client: ApiClient,
  argv: string[],
) {
  if (context.stdin.isTTY !== true) throw new UsageError('-t needs a terminal on standard input');
  const { runPty } = await import('../api/pty-session.ts');
  const [user, cwd] = [options.text('user'), options.text('cwd')];
  const query = { ...(user === undefined ? {} : { user }), ...(cwd === undefined ? {} : { cwd }) };
  return runPty(context, client.endpoint, { sandboxId: id, argv, query });
}

function requestOf({ options }: Call, command: readonly string[]): Record<string, unknown> {
  const [timeout, user, cwd, env] = [
    options.text('timeout'),
    options.text('user'),
    options.text('cwd'),
    options.list('env'),
  ];
  return {
    argv: argumentBytes(command).map((part) => (typeof part === 'string' ? part : { base64: part.toString('base64') })),
    ...(timeout === undefined ? {} : { timeoutMs: parseArgument('--timeout', timeout, parseDuration) }),
    ...(user === undefined ? {} : { user }),
    ...(cwd === undefined ? {} : { cwd }),
    ...(env.length === 0 ? {} : { env: parsePairs('--env', env) }),
  };
}

/** The first Ctrl-C is the command's; a second one ends it with us. */
function forwardInterrupts(client: ApiClient, sandboxId: string, gone: AbortController) {
  let execId: string | undefined;
  let isForwarded = false;
  const onInterrupt = (): void => {
    if (execId === undefined || isForwarded) {
      gone.abort();
      return;
    }
    isForwarded = true;
    const path = `/v1/sandboxes/${encodeURIComponent(sandboxId)}/exec/${execId}/signal`;
    client.json('POST', path, { json: { signal: 'SIGINT' } }).catch(() => gone.abort());
  };
  const onTerminate = (): void => gone.abort();
  process.on('SIGINT', onInterrupt).on('SIGTERM', onTerminate);
  return {
    started: (id: string): void => {
      execId = id;
    },
    stop: (): void => {
      process.removeListener('SIGINT', onInterrupt).removeListener('SIGTERM', onTerminate);
    },
  };
}
