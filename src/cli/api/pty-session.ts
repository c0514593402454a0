/** A terminal in a sandbox on this terminal: raw mode while it lasts, and the terminal as it was afterwards, always. */
import { WebSocket } from 'ws';
import { SallyportError } from '../../errors/error.ts';
import type { ExecResult } from '../../sandbox/types.ts';
import type { Context } from '../context.ts';
import type { Endpoint } from '../home.ts';
import { parseRemoteError, remoteError } from './remote-error.ts';

/** Bytes of typed or pasted input that may wait in the socket before no more is read. */
const sendBufferBytes = 256 * 1024;

/** Exit status when a signal ended this program: 128 + SIGTERM. */
const leftBySignal = 143;

export interface PtyCall {
  readonly sandboxId: string;
  /** Default a login bash. */
  readonly argv?: readonly string[];
  readonly query?: Readonly<Record<string, string>>;
}

/** @throws SallyportError of the exec, `daemon_unreachable` */
export async function runPty(context: Context, endpoint: Endpoint, call: PtyCall): Promise<ExecResult> {
  const socket = new WebSocket(urlOf(context, endpoint, call), {
    headers: { authorization: `Bearer ${endpoint.key}` },
  });
  const isOpen = opened(socket, endpoint);
  const result = outcome(socket, context);
  result.catch(() => undefined);
  await isOpen;
  const detach = attach(socket, context);
  try {
    return await result;
  } finally {
    detach();
    socket.terminate();
  }
}

function urlOf({ stdout }: Context, { url }: Endpoint, { sandboxId, argv, query }: PtyCall): URL {
  const target = new URL(`/v1/sandboxes/${encodeURIComponent(sandboxId)}/pty`, url.replace(/^http/, 'ws'));
  for (const [name, value] of Object.entries(query ?? {})) target.searchParams.set(name, value);
  if (argv !== undefined) target.searchParams.set('argv', JSON.stringify(argv));
  const { rows, columns } = sizeOf(stdout);
  target.searchParams.set('rows', String(rows));
  target.searchParams.set('cols', String(columns));
  return target;
}

/** A terminal whose size nobody has set says 0. */
function sizeOf({ rows = 0, columns = 0 }: Context['stdout']): { readonly rows: number; readonly columns: number } {
  return { rows: rows === 0 ? 24 : rows, columns: columns === 0 ? 80 : columns };
}

function opened(socket: WebSocket, { url }: Endpoint): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once('open', resolve);
    socket.once('error', (cause) => {
      reject(new SallyportError('daemon_unreachable', `Cannot open a terminal at ${url}: ${cause.message}`, { cause }));
    });
    socket.once('unexpected-response', (_request, answer) => {
      let text = '';
      answer.on('data', (chunk) => {
        text += chunk;
      });
      answer.once('end', () => reject(parseRemoteError(text, 'The daemon refused the terminal without a reason')));
    });
  });
}

/** Shows output until the result comes. */
function outcome(socket: WebSocket, { stdout }: Context): Promise<ExecResult> {
  return new Promise((resolve, reject) => {
    socket.on('message', (data, isBinary) => {
      if (!isBinary) return readMessage(String(data), resolve, reject);
      if (stdout.write(data)) return;
      // this terminal is slower than that one: the command is held back
      socket.pause();
      stdout.once('drain', () => socket.resume());
    });
    socket.once('close', () => {
      reject(new SallyportError('daemon_unreachable', 'The daemon closed the terminal before the command ended'));
    });
  });
}

function readMessage(text: string, resolve: (result: ExecResult) => void, reject: (error: Error) => void): void {
  const message = JSON.parse(text) as PtyMessage;
  if (message.type === 'exit') resolve(message.result);
  if (message.type === 'error') reject(remoteError(message.error));
}

type PtyMessage =
  | { readonly type: 'start'; readonly execId: string }
  | { readonly type: 'exit'; readonly result: ExecResult }
  | { readonly type: 'error'; readonly error: { readonly code: string; readonly message: string } };

/** Sends what is typed and the size; returns the way back. */
function attach(socket: WebSocket, { stdin, stdout }: Context): () => void {
  const type = (data: Buffer): void => {
    socket.send(data, { binary: true }, () => {
      if (stdin.isPaused()) stdin.resume();
    });
    if (socket.bufferedAmount > sendBufferBytes) stdin.pause();
  };
  // the end of a piped input is what Ctrl-D is on a terminal
  const end = (): void => socket.send(Buffer.from([4]), { binary: true });
  const resize = (): void => {
    socket.send(JSON.stringify({ type: 'resize', ...sizeOf(stdout) }));
  };
  const restore = (): void => {
    stdin.setRawMode?.(false);
  };
  // ended by a signal, Node runs no exit handler: the terminal would stay raw
  const leave = (): void => process.exit(leftBySignal);
  stdin.setRawMode?.(true);
  process.once('exit', restore).once('SIGTERM', leave).once('SIGHUP', leave);
  stdin.on('data', type).once('end', end);
  stdout.on('resize', resize);
  return () => {
    restore();
    process.removeListener('exit', restore).removeListener('SIGTERM', leave).removeListener('SIGHUP', leave);
    stdin.removeListener('data', type).removeListener('end', end).pause();
    stdout.removeListener('resize', resize);
  };
}
