/** A request that becomes a WebSocket where a rule allows it; after the 101 the bytes are the two ends' own, counted (NX-35). */
import { request as httpRequest, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { pump } from '../flow/pump.ts';
import { type DenialBody, denialBody, failureBody } from './denial.ts';
import { DeniedUpstream, type ExchangeParts, faultOf, headOf, judgeRequest, Note, statusOf } from './exchange.ts';
import { forwardable, headBytes, requestHeaders } from './headers.ts';
import type { Lease } from './upstream-pool.ts';

const answerMs = 30_000;

export async function upgrade(
  parts: ExchangeParts,
  request: IncomingMessage,
  inside: Duplex,
  head: Buffer,
): Promise<void> {
  const note = new Note(parts, request);
  const host = parts.target.kind === 'host' ? parts.target.host : null;
  const judged = judgeRequest(parts, headOf(request));
  if (judged.kind === 'deny') {
    note.deny(judged.denial);
    refuseRaw(inside, statusOf(judged.denial), denialBody(judged.denial, host));
    return;
  }
  note.allow(judged.decision);
  inside.on('error', () => inside.destroy());
  inside.once('close', parts.hold(judged.attempt));
  try {
    await switchOver(parts, request, inside, head, note);
  } catch (thrown) {
    const error = thrown as NodeJS.ErrnoException;
    if (error instanceof DeniedUpstream) note.deny(error.denial);
    note.close(faultOf(error));
    refuseRaw(inside, 502, failureBody(faultOf(error), host));
  }
}

/** Settles when the two are one. @throws Error when they do not come to be */
async function switchOver(
  parts: ExchangeParts,
  request: IncomingMessage,
  inside: Duplex,
  head: Buffer,
  note: Note,
): Promise<void> {
  const lease = await parts.pool.acquire();
  try {
    const { answer, outside, firstBytes } = await askToSwitch(parts, request, inside, lease);
    note.status(101);
    if (note.bytes('down', headBytes(answer.rawHeaders)) === 'stop') throw new Error('the budget is used up');
    inside.write(switchingHead(answer));
    if (firstBytes.length > 0) outside.unshift(firstBytes);
    if (head.length > 0) inside.unshift(head);
    pump({
      inside,
      outside,
      onBytes: (direction, bytes) => note.bytes(direction, bytes),
      onClosed: (fault) => note.close(fault),
    });
    inside.resume();
    outside.resume();
  } catch (error) {
    lease.finish(false);
    throw error;
  }
}

interface Switched {
  readonly answer: IncomingMessage;
  readonly outside: Duplex;
  readonly firstBytes: Buffer;
}

function askToSwitch(parts: ExchangeParts, request: IncomingMessage, inside: Duplex, lease: Lease): Promise<Switched> {
  return new Promise((resolve, reject) => {
    const kept = requestHeaders(headOf(request), parts.authority, false).filter(([name]) => name !== 'Connection');
    const headers = [...kept, ['Connection', 'Upgrade'], ['Upgrade', 'websocket']];
    const upstream = httpRequest({
      agent: lease.agent,
      method: request.method ?? 'GET',
      path: request.url ?? '/',
      headers: headers.flat() as never,
      setHost: false,
    });
    const timer = setTimeout(() => upstream.destroy(new Error(`no answer in ${answerMs} ms`)), answerMs);
    const fail = (error: Error): void => {
      clearTimeout(timer);
      reject(error);
      upstream.destroy();
    };
    // stays: an error that nobody listens to would end the daemon
    upstream.on('error', fail);
    inside.once('close', () => fail(new Error('the connection inside ended')));
    upstream.on('information', () => fail(new Error('it sent an interim answer to the WebSocket request')));
    upstream.once('response', ({ statusCode }) =>
      fail(new Error(`it answered ${statusCode} to the WebSocket request`)),
    );
    upstream.once('upgrade', (answer, outside, firstBytes) => {
      clearTimeout(timer);
      resolve({ answer, outside, firstBytes });
    });
    upstream.end();
  });
}

function switchingHead({ rawHeaders }: IncomingMessage): string {
  const headers = [...forwardable(rawHeaders), ['Connection', 'Upgrade'], ['Upgrade', 'websocket']];
  return `HTTP/1.1 101 Switching Protocols\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`;
}

const sentences: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  403: 'Forbidden',
  431: 'Request Header Fields Too Large',
  502: 'Bad Gateway',
};
const lingerMs = 1_000;

/** Where there is no response object: the whole answer by hand, then the end of the connection. */
export function refuseRaw(socket: Duplex, status: number, body: DenialBody): void {
  const text = `${JSON.stringify(body)}\n`;
  const head = [
    `HTTP/1.1 ${status} ${sentences[status] ?? 'Refused'}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(text)}`,
    'Cache-Control: no-store',
    'Connection: close',
  ].join('\r\n');
  socket.on('error', () => undefined);
  if (!socket.writable) return void socket.destroy();
  socket.end(`${head}\r\n\r\n${text}`);
  // closing with bytes unread would reset the connection, and with it the answer on its way
  socket.resume();
  setTimeout(() => socket.destroy(), lingerMs).unref();
}
