/**
 * What the web answers, by the first part of the path:
 *   /bytes/N  N bytes            /upload    size and sha256 of the body      /redirect?to=URL&status=302
 *   /sse/N    N events           /inject    an answer nobody asked for       /status/N   that status
 *   /git/…    one repository     anything else: the request itself, as JSON
 */
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { finished, pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { answerGit } from './git.ts';
import type { SeenRequest } from './http.ts';

export interface Exchange {
  readonly seen: SeenRequest;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The path's parts after the first. */
  readonly words: readonly string[];
  readonly query: URLSearchParams;
}

type Route = (exchange: Exchange) => Promise<void>;

export const sseIntervalMs = 50;
const chunkBytes = 64 * 1024;
const mostBytes = 8 * 2 ** 30;

/** NX-22: comes on the idle connection, right behind an answer that was complete. */
export const unsolicited = 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 8\r\n\r\ninjected';

const routes: Readonly<Record<string, Route>> = {
  bytes: answerBytes,
  upload: answerUpload,
  redirect: answerRedirect,
  sse: answerEvents,
  inject: answerTwice,
  status: answerStatus,
  git: answerGit,
};

export async function route(seen: SeenRequest, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const [path = '', query = ''] = seen.target.split('?', 2);
  const [, first = '', ...words] = path.split('/');
  const chosen = Object.hasOwn(routes, first) ? routes[first] : undefined;
  await (chosen ?? answerEcho)({ seen, request, response, words, query: new URLSearchParams(query) });
}

async function answerEcho({ seen, request, response }: Exchange): Promise<void> {
  await finished(request.resume());
  answerJson(response, seen);
}

async function answerBytes({ request, response, words }: Exchange): Promise<void> {
  request.resume();
  const length = Math.min(Number(words[0] ?? 0), mostBytes);
  response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': length });
  await pipeline(Readable.from(chunksOf(length)), response);
}

function* chunksOf(length: number): Generator<Buffer> {
  const chunk = Buffer.alloc(chunkBytes, 'sinkhole');
  for (let left = length; left > 0; left -= chunkBytes) yield left < chunkBytes ? chunk.subarray(0, left) : chunk;
}

async function answerUpload({ request, response }: Exchange): Promise<void> {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    hash.update(chunk);
    bytes += chunk.length;
  }
  answerJson(response, { bytes, sha256: hash.digest('hex') });
}

async function answerRedirect({ request, response, query }: Exchange): Promise<void> {
  request.resume();
  response.writeHead(Number(query.get('status') ?? 302), { location: query.get('to') ?? '/' });
  response.end();
}

/** Events numbered from 1; each goes out by itself. */
async function answerEvents({ request, response, words }: Exchange): Promise<void> {
  request.resume();
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  const count = Number(words[0] ?? 1);
  for (let event = 1; event <= count && response.writable; event += 1) {
    if (event > 1) await sleep(sseIntervalMs);
    response.write(`data: ${event}\n\n`);
  }
  response.end();
}

async function answerTwice({ seen, request, response }: Exchange): Promise<void> {
  request.resume();
  const { socket } = response;
  response.writeHead(200, { 'content-type': 'text/plain', 'content-length': 6 });
  response.end('wanted', () => {
    if (seen.httpVersion.startsWith('1.')) setImmediate(() => socket?.write(unsolicited));
  });
}

async function answerStatus({ request, response, words }: Exchange): Promise<void> {
  request.resume();
  response.writeHead(Number(words[0] ?? 200), { 'content-length': 0 });
  response.end();
}

function answerJson(response: ServerResponse, body: unknown): void {
  const bytes = Buffer.from(`${JSON.stringify(body)}\n`);
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': bytes.length });
  response.end(bytes);
}
