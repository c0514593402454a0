/**
 * The world's web: HTTP/1.1, and over TLS HTTP/1.1 and HTTP/2, on every address. Each request is told as it was parsed,
 * and each HTTP/1.1 connection byte by byte, since what a proxy smuggled shows only there. What answers is in `routes`.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createSecureServer } from 'node:http2';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { WebSocketServer } from 'ws';
import { type Netns, ports } from '../network.ts';
import type { Recording } from '../recording.ts';
import type { Authority } from './certificates.ts';
import { type Listening, listenEverywhere } from './everywhere.ts';
import { route } from './routes.ts';

interface Endpoint {
  readonly scheme: 'http' | 'https';
  /** What was dialled. */
  readonly address: string;
  readonly port: number;
  /** What TLS asked for; absent when it did not say. */
  readonly serverName?: string;
}

export interface SeenRequest extends Endpoint {
  readonly httpVersion: string;
  readonly method: string;
  readonly target: string;
  /** As received: order, case and repetitions. */
  readonly headers: readonly (readonly [name: string, value: string])[];
}

export interface SeenConnection extends Endpoint {
  /** What the client sent, up to a bound. */
  received(): Buffer;
}

export interface WebRecordings {
  readonly requests: Recording<SeenRequest>;
  readonly connections: Recording<SeenConnection>;
}

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

const keptBytes = 256 * 1024;
const settings = {
  maxHeaderSize: 64 * 1024,
  keepAliveTimeout: 60_000,
  requestTimeout: 0,
  headersTimeout: 60_000,
  // NX-21: the kind of server that smugglers look for; a careful one would hide what reached it
  insecureHTTPParser: true,
};
/** What clients get that name no server. */
const defaultName = 'sinkhole.example';

export async function serveWeb(world: Netns, authority: Authority, recordings: WebRecordings): Promise<Listening> {
  const opened: Listening[] = [];
  const sockets = new WebSocketServer({ noServer: true, maxPayload: 1024 * 1024 });
  const close = async (): Promise<void> => {
    await Promise.all(opened.map((listening) => listening.close()));
  };
  const acceptHttp = plainServer(recordings, sockets);
  const acceptHttps = secureServer(authority, recordings, sockets);
  try {
    for (const port of ports.http) opened.push(await listenEverywhere(world, port, acceptHttp));
    for (const port of ports.https)
      opened.push(await listenEverywhere(world, port, acceptHttps, { allowHalfOpen: false }));
  } catch (error) {
    await close();
    throw error;
  }
  return { close };
}

function plainServer(recordings: WebRecordings, sockets: WebSocketServer): (socket: Socket) => void {
  const server = createServer(settings, handlerOf('http', recordings));
  server.on('upgrade', (request, socket, head) => upgrade(sockets, recordings, 'http', request, socket, head));
  server.on('clientError', refuse);
  return (socket) => {
    server.emit('connection', socket);
    // after the server's own listener, which else would read past this one
    keepBytes(recordings, 'http', socket);
  };
}

function secureServer(authority: Authority, recordings: WebRecordings, sockets: WebSocketServer) {
  const server = createSecureServer({
    ...settings,
    allowHTTP1: true,
    SNICallback: (name, done) => done(null, authority.contextFor(name)),
    ...authority.credentialsFor(defaultName),
  });
  // Node's HTTP/2 requests and answers are made to be used as those of HTTP/1.1
  server.on('request', handlerOf('https', recordings) as never);
  server.on('upgrade', (request, socket, head) => upgrade(sockets, recordings, 'https', request, socket, head));
  server.on('secureConnection', (socket) => {
    if (socket.alpnProtocol !== 'h2') keepBytes(recordings, 'https', socket);
  });
  server.on('clientError', refuse);
  server.on('sessionError', () => undefined);
  return (socket: Socket): void => {
    server.emit('connection', socket);
  };
}

function handlerOf(scheme: Endpoint['scheme'], { requests }: WebRecordings): Handler {
  return (request, response) => {
    const seen = seenOf(scheme, request);
    requests.add(seen);
    response.on('error', () => undefined);
    route(seen, request, response).catch(() => response.destroy());
  };
}

function seenOf(scheme: Endpoint['scheme'], request: IncomingMessage): SeenRequest {
  const { rawHeaders, method = '', url: target = '', httpVersion, socket } = request;
  const headers = rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [[name, rawHeaders[at + 1] ?? ''] as const] : []));
  return { ...endpointOf(scheme, socket), httpVersion, method, target, headers };
}

function endpointOf(scheme: Endpoint['scheme'], socket: Socket): Endpoint {
  const { localAddress: address = '', localPort: port = 0 } = socket;
  const { servername } = socket as TLSSocket;
  return { scheme, address, port, ...(typeof servername === 'string' ? { serverName: servername } : {}) };
}

function keepBytes({ connections }: WebRecordings, scheme: Endpoint['scheme'], socket: Socket): void {
  const chunks: Buffer[] = [];
  let room = keptBytes;
  socket.on('data', (chunk: Buffer) => {
    if (room === 0) return;
    // the parser's own memory is used again after this event
    chunks.push(Buffer.from(chunk.subarray(0, room)));
    room -= Math.min(room, chunk.length);
  });
  connections.add({ ...endpointOf(scheme, socket), received: () => Buffer.concat(chunks) });
}

/** `/ws` echoes every message; any other path is no WebSocket. */
function upgrade(
  sockets: WebSocketServer,
  { requests }: WebRecordings,
  scheme: Endpoint['scheme'],
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): void {
  const seen = seenOf(scheme, request);
  requests.add(seen);
  if (!/^\/ws(\?|$)/.test(seen.target)) {
    socket.end('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n');
    return;
  }
  sockets.handleUpgrade(request, socket, head, (connection) => {
    connection.on('error', () => connection.terminate());
    connection.on('message', (data, isBinary) => connection.send(data, { binary: isBinary }));
  });
}

function refuse(_error: Error, socket: Duplex): void {
  if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n');
  else socket.destroy();
}
