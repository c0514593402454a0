/** One command in a sandbox of the daemon: output passed on as it comes, input sent along, its result at the end. */
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { SallyportError } from '../../errors/error.ts';
import type { Channel } from '../../init/types.ts';
import type { ExecResult } from '../../sandbox/types.ts';
import type { ExecMessage } from '../../server/exec/encoding.ts';
import type { ApiClient } from './client.ts';
import { ExecStreamParser } from './exec-stream.ts';
import { remoteError } from './remote-error.ts';

export interface ExecCall {
  readonly sandboxId: string;
  /** The body of the request. */
  readonly request: Readonly<Record<string, unknown>>;
  /** Sent as standard input. */
  readonly stdin?: Readable;
  readonly onStart?: (execId: string) => void;
  /** A promise holds the command back until it settles. */
  readonly onOutput: (channel: Channel, data: Buffer) => Promise<void>;
  readonly signal?: AbortSignal;
}

const accept = 'application/vnd.sallyport.exec-stream';

/** @throws SallyportError of the exec, `daemon_unreachable` */
export async function runExec(client: ApiClient, call: ExecCall): Promise<ExecResult> {
  const path = `/v1/sandboxes/${encodeURIComponent(call.sandboxId)}/exec`;
  const { signal, request, stdin } = call;
  const json = { ...request, ...(stdin === undefined ? {} : { openStdin: true }) };
  const answer = await client.open('POST', path, {
    headers: { accept },
    json,
    ...(signal === undefined ? {} : { signal }),
  });
  const parser = new ExecStreamParser();
  try {
    for await (const chunk of chunksOf(answer)) {
      for (const event of parser.push(chunk)) {
        if (event.type === 'output') await call.onOutput(event.channel, event.data);
        else if (event.message.type === 'start') begin(client, call, path, event.message.execId);
        else return resultOf(event.message);
      }
    }
  } finally {
    answer.destroy();
  }
  throw lostConnection();
}

/** @throws SallyportError `daemon_unreachable` when the connection breaks */
async function* chunksOf(answer: IncomingMessage): AsyncGenerator<Buffer> {
  try {
    yield* answer as AsyncIterable<Buffer>;
  } catch (cause) {
    throw lostConnection(cause);
  }
}

function lostConnection(cause?: unknown): SallyportError {
  const message = 'The daemon closed the connection before the command ended';
  return new SallyportError('daemon_unreachable', message, { cause });
}

function begin(client: ApiClient, { stdin, onStart }: ExecCall, path: string, execId: string): void {
  onStart?.(execId);
  if (stdin === undefined) return;
  // A command that ended, or that closed its input, is told by its result.
  client.open('POST', `${path}/${execId}/stdin`, { body: stdin }).then(
    (answer) => answer.resume(),
    () => undefined,
  );
}

function resultOf(message: Exclude<ExecMessage, { readonly type: 'start' }>): ExecResult {
  if (message.type === 'result') return message.result;
  throw remoteError(message.error);
}
