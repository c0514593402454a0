/** A request that becomes a WebSocket where a rule allows it; after the 101 the bytes are the two ends' own, counted (NX-35). */
import { request as httpRequest, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { pump } from '../flow/pump.ts';
import { type DenialBody, denialBody, failureBody } from './denial.ts';
import { DeniedUpstream, type ExchangeParts, headOf, judgeRequest, Note, statusOf } from './exchange.ts';
import { forwardable, headBytes } from './headers.ts';

const answerMs = 30_000;

export function upgrade(parts: ExchangeParts, request: IncomingMessage, inside: Duplex, head: Buffer): void {
  const note = new Note(parts, request);
  const judged = judgeRequest(parts, headOf(request));
  if (judged.kind === 'deny') {
    note.deny(judged.denial);
    refuseRaw(inside, statusOf(judged.denial), denialBody(judged.denial, parts.host));
    return;
  }
  note.allow(judged.decision);
  inside.once('close', parts.hold(judged.attempt));
  connectBoth(parts, request, inside, head, note);
}

function connectBoth(parts: ExchangeParts, request: IncomingMessage, inside: Duplex, head: Buffer, note: Note): void {
  const headers = [...forwardable(request.rawHeaders), ['Connection', 'Upgrade'], ['Upgrade', 'websocket']];
  const upstream = httpRequest({
    agent: parts.agent,
    method: request.method ?? 'GET',
    path: request.url ?? '/',
    headers: headers.flat() as never,
    setHost: false,
  });
  const fail = (error: NodeJS.ErrnoException): void => {
    if (error instanceof DeniedUpstream) note.deny(error.denial);
    note.close(error.code ?? error.message);
    refuseRaw(inside, 502, failureBody(error.code ?? error.message, parts.host));
  };
  upstream.setTimeout(answerMs, () => upstream.destroy(new Error(`no answer in ${answerMs} ms`)));
  upstream.once('error', fail);
  inside.once('close', () => upstream.destroy());
  upstream.once('response', (answer) => {
    answer.resume();
    note.status(answer.statusCode ?? null);
    note.close('the upstream did not become a WebSocket');
    refuseRaw(inside, 502, failureBody(`it answered ${answer.statusCode} to the WebSocket request`, parts.host));
  });
  upstream.once('upgrade', (answer, outside, firstBytes) => {
    upstream.setTimeout(0);
    note.status(101);
    note.bytes('down', headBytes(answer.rawHeaders));
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
  });
  note.bytes('up', headBytes(request.rawHeaders));
  upstream.end();
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
