/**
 * Carries an exec's output to its client. Back-pressure reaches the command: nothing more is taken from it while the
 * socket is full. A client that goes away takes its command along, unless it asked to be detached.
 */
import type { FastifyReply } from 'fastify';
import type { Exec, ExecResult } from '../../sandbox/types.ts';
import { reportError } from '../error-answer.ts';
import { Capture, type Captured } from './captured.ts';
import { drained, onClientGone } from './client-gone.ts';
import type { ExecEncoding } from './encoding.ts';

export interface AnswerOptions {
  /** The command goes on without its client. */
  readonly detach: boolean;
  /** A client that takes nothing for so long after the exec's end is cut off. */
  readonly drainMs: number;
}

export interface ExecAnswer {
  readonly execId: string;
  readonly stdout: Captured;
  readonly stderr: Captured;
  readonly result: ExecResult;
}

/** Waits for the end. @throws SallyportError of the exec */
export async function collectExec(exec: Exec, reply: FastifyReply, { detach }: AnswerOptions): Promise<ExecAnswer> {
  const captures = { stdout: new Capture(), stderr: new Capture() };
  const unwatch = onClientGone(reply.raw, () => {
    if (!detach) exec.kill();
  });
  try {
    for await (const { channel, data } of exec.output) captures[channel].add(data);
    const result = await exec.result;
    return { execId: exec.id, stdout: captures.stdout.read(), stderr: captures.stderr.read(), result };
  } finally {
    unwatch();
  }
}

/** Streams; settles when the answer is complete. The status is sent here, so an exec that failed to start must be refused before. */
export async function streamExec(
  exec: Exec,
  reply: FastifyReply,
  encoding: ExecEncoding,
  options: AnswerOptions,
): Promise<void> {
  reply.hijack();
  const answer = reply.raw;
  answer.writeHead(200, { ...outgoingHeaders(reply), 'content-type': encoding.contentType });
  const unwatch = onClientGone(answer, () => {
    if (!options.detach) exec.kill();
  });
  try {
    encoding.message(answer, { type: 'start', execId: exec.id });
    cutOffWhenStuck(exec, reply, options.drainMs);
    await pipeOutput(exec, reply, encoding);
    encoding.message(answer, { type: 'result', result: await exec.result });
  } catch (thrown) {
    encoding.message(answer, { type: 'error', error: reportError(thrown, reply.request).body });
  } finally {
    unwatch();
    answer.end();
  }
}

/** Takes all of the output; what a client that is gone cannot get still passes through the sandbox's log. */
async function pipeOutput(exec: Exec, reply: FastifyReply, encoding: ExecEncoding): Promise<void> {
  const answer = reply.raw;
  for await (const chunk of exec.output) {
    if (answer.destroyed) continue;
    encoding.output(answer, chunk);
    if (answer.writableNeedDrain) await drained(answer);
  }
}

/** While the exec runs, its own deadline bounds the wait for a client that does not read; afterwards this does. */
function cutOffWhenStuck(exec: Exec, reply: FastifyReply, drainMs: number): void {
  const limit = (): void => {
    reply.raw.setTimeout(drainMs, () => reply.raw.destroy());
  };
  exec.result.then(limit, limit);
}

/** The headers that hooks have set; a hijacked reply does not send them by itself. */
export function outgoingHeaders(reply: FastifyReply): Record<string, string> {
  const headers = Object.entries(reply.getHeaders()).filter(([, value]) => value !== undefined);
  return Object.fromEntries(headers.map(([name, value]) => [name, String(value)]));
}

/** Lets a command run without a client: its output goes through the log, so it never waits for a reader. */
export async function runUnattended(exec: Exec): Promise<void> {
  for await (const _ of exec.output) {
    // taken is all it must be
  }
}

/** Gives a command its whole standard input. One that does not read it is no fault. */
export async function feed(exec: Exec, stdin: Buffer): Promise<void> {
  try {
    await exec.write(stdin);
    exec.endStdin();
  } catch {
    // the command ended first; its result tells how
  }
}
