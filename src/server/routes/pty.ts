/**
 * /v1/sandboxes/:id/pty: a command on a terminal, over a WebSocket. Binary frames are bytes of the terminal, both
 * ways; text frames are JSON: `resize` from the client, `start`, `exit` and `error` from here. A client that goes
 * away takes its command along.
 */
import type { FastifyRequest } from 'fastify';
import type { RawData, WebSocket } from 'ws';
import { z } from 'zod';
import { SallyportError } from '../../errors/error.ts';
import type { Exec } from '../../sandbox/types.ts';
import type { App, ServerDeps } from '../deps.ts';
import { reportError } from '../error-answer.ts';
import { runningSandbox } from '../find-sandbox.ts';
import type { Metrics } from '../metrics.ts';
import { sandboxParams } from '../schemas/ids.ts';
import { defaultTimeouts } from '../timeouts.ts';
import { withoutUndefined } from '../without-undefined.ts';

/** Bytes that may wait in the socket before output is taken from the command again. */
const sendBufferBytes = 1024 * 1024;
/** Bytes that may wait for the command before input is taken from the socket again. */
const receiveBufferBytes = 256 * 1024;
const defaultArgv = ['/bin/bash', '-l'];

const size = z
  .string()
  .regex(/^[1-9][0-9]{0,3}$/)
  .transform(Number);
const word = z.string().refine((text) => !text.includes('\0'), 'a NUL cannot be passed to a program');
const ptyQuery = z.strictObject({
  argv: z.string().optional().describe('JSON array of text; default a login bash.'),
  cwd: word.optional(),
  user: z.enum(['user', 'root']).optional(),
  rows: size.optional(),
  cols: size.optional(),
});
type PtyQuery = z.output<typeof ptyQuery>;

const argvSchema = z.array(word).min(1);
const resizeSchema = z.strictObject({
  type: z.literal('resize'),
  rows: z.int().min(1).max(9999),
  columns: z.int().min(1).max(9999),
});

export function ptyRoutes(app: App, deps: ServerDeps, metrics: Metrics): void {
  const { pingMs } = { ...defaultTimeouts, ...deps.timeouts };
  app.route({
    method: 'GET',
    url: '/v1/sandboxes/:id/pty',
    schema: {
      tags: ['execs'],
      summary: 'A command on a terminal, over a WebSocket',
      params: sandboxParams,
      querystring: ptyQuery,
    },
    handler: async () => {
      throw new SallyportError('invalid_request', 'Cannot open a terminal: the request is no WebSocket upgrade');
    },
    wsHandler: (socket: WebSocket, request: FastifyRequest) => {
      // the schemas above have parsed both; the plugin's handler type cannot say so
      const { id } = request.params as z.output<typeof sandboxParams>;
      const query = request.query as PtyQuery;
      keepAlive(socket, pingMs);
      serve(socket, () => startPty(deps, metrics, id, query)).catch((thrown) => {
        sendMessage(socket, { type: 'error', error: reportError(thrown, request).body });
        socket.close(1011);
      });
    },
  });
}

function startPty(deps: ServerDeps, metrics: Metrics, id: string, { argv, rows, cols, ...rest }: PtyQuery): Exec {
  const exec = runningSandbox(deps, id).exec({
    ...withoutUndefined(rest),
    argv: argv === undefined ? defaultArgv : parseArgv(argv),
    pty: { rows: rows ?? 24, columns: cols ?? 80 },
    stdin: true,
  });
  metrics.countExec(exec);
  return exec;
}

function parseArgv(text: string): string[] {
  try {
    return argvSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw new SallyportError('invalid_request', 'Invalid querystring.argv: not a JSON array of text', { cause });
  }
}

async function serve(socket: WebSocket, start: () => Exec): Promise<void> {
  const exec = start();
  socket.once('close', () => exec.kill());
  receive(socket, exec);
  await exec.started;
  sendMessage(socket, { type: 'start', execId: exec.id });
  for await (const { data } of exec.output) await sendBytes(socket, data);
  sendMessage(socket, { type: 'exit', result: await exec.result });
  socket.close(1000);
}

function receive(socket: WebSocket, exec: Exec): void {
  let waiting = 0;
  const pass = (data: Buffer): void => {
    waiting += data.length;
    if (waiting > receiveBufferBytes) socket.pause();
    const taken = (): void => {
      waiting -= data.length;
      if (waiting <= receiveBufferBytes && socket.isPaused) socket.resume();
    };
    // a write that fails means that the command has ended, which the output's end tells
    exec.write(data).then(taken, taken);
  };
  socket.on('message', (data, isBinary) => {
    if (isBinary) return pass(bytesOf(data));
    const message = parseMessage(bytesOf(data).toString());
    if (message === undefined) return socket.close(1008, 'a text frame must be {"type":"resize","rows":…,"columns":…}');
    exec.resize(message.rows, message.columns);
  });
}

function parseMessage(text: string): z.output<typeof resizeSchema> | undefined {
  try {
    return resizeSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function bytesOf(data: RawData): Buffer {
  if (Buffer.isBuffer(data)) return data;
  return Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data);
}

function sendMessage(socket: WebSocket, message: object): void {
  if (socket.readyState === socket.OPEN) socket.send(JSON.stringify(message));
}

/** Resolves at once while little waits in the socket, else when these bytes are out or the socket is closed. */
function sendBytes(socket: WebSocket, data: Buffer): Promise<void> {
  if (socket.readyState !== socket.OPEN) return Promise.resolve();
  return new Promise((resolve) => {
    // the callback comes with an error when the socket closes: there is nobody to tell
    socket.send(data, { binary: true }, () => resolve());
    if (socket.bufferedAmount < sendBufferBytes) resolve();
  });
}

/** A peer that vanished without closing is found out by its missing pong (HX-06). */
function keepAlive(socket: WebSocket, pingMs: number): void {
  let answered = true;
  socket.on('pong', () => {
    answered = true;
  });
  const timer = setInterval(() => {
    if (!answered) return socket.terminate();
    answered = false;
    socket.ping();
  }, pingMs);
  socket.once('close', () => clearInterval(timer));
}
