/**
 * Connections of one sandbox whose HTTP is understood: plain ones, and those whose TLS ends here. One parser reads each
 * request, the rules judge it, and what goes upstream is written anew: there is no second reading to disagree with.
 */
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createHttp2Server } from 'node:http2';
import type { Duplex } from 'node:stream';
import type { HostName } from '../../network/host-name.ts';
import type { Flow } from '../flow/flow.ts';
import type { FlowParts, HttpSide } from '../flow/types.ts';
import type { Authority } from '../tls/authority.ts';
import { terminateTls } from '../tls/open-connection.ts';
import { secure } from '../tls/upstream.ts';
import type { AttemptContent, Denial, HttpRequest } from '../types.ts';
import { denialBody } from './denial.ts';
import {
  type AnyRequest,
  type AnyResponse,
  DeniedUpstream,
  type ExchangeParts,
  exchange,
  type RequestEntry,
} from './exchange.ts';
import { refuseRaw, upgrade } from './upgrade.ts';
import { type Connect, UpstreamAgent } from './upstream-agent.ts';

/** All of these are in docs/limits.md. */
const headBytes = 32 * 1024;
const headMs = 15_000;
const keepAliveMs = 60_000;
const handshakeMs = 10_000;
const pipelined = 64;
const http2Streams = 100;

export interface HttpSideParts extends Pick<FlowParts, 'judge' | 'meter' | 'log' | 'dial'> {
  /** Absent where no rule needs TLS to be opened. */
  readonly authority?: Authority;
  readonly upstreamRoots: readonly string[];
}

/** One connection, whichever version of HTTP it speaks. */
interface Connection {
  readonly flow: Flow;
  readonly exchange: ExchangeParts;
  readonly socket: Duplex;
  waiting: number;
  last: Promise<void>;
  timer: NodeJS.Timeout | undefined;
}

export interface ClosableHttpSide extends HttpSide {
  /** Idle upstream connections end; the next request dials anew. */
  flush(): void;
}

export function openHttpSide(parts: HttpSideParts): ClosableHttpSide {
  const connections = new Map<Duplex, Connection>();
  const http1 = createHttpServer({ maxHeaderSize: headBytes, keepAlive: false, insecureHTTPParser: false });
  // a client that has asked and closes its half still waits for the answer; Node knows the switch and does not document it
  Object.assign(http1, { httpAllowHalfOpen: true });
  const http2 = createHttp2Server({
    maxSessionMemory: 4,
    settings: { maxConcurrentStreams: http2Streams, maxHeaderListSize: headBytes, enablePush: false },
  });
  const sessions = new WeakMap<object, Connection>();
  /** The one that a session is being made for: Node makes it within the emit. */
  let opening: Connection | undefined;
  const onRequest = (request: AnyRequest, response: AnyResponse): void => {
    const connection =
      'stream' in request ? sessions.get(request.stream.session ?? {}) : connections.get(request.socket);
    if (connection === undefined) response.destroy();
    else if ('stream' in request) void exchange(connection.exchange, request, response);
    else enqueue(connection, request, response as ServerResponse);
  };
  // without a listener Node would say "100 Continue" by itself, before anything was judged
  http1.on('request', onRequest).on('checkContinue', onRequest).on('checkExpectation', onRequest);
  http1.on('connect', (request: IncomingMessage, socket: Duplex) => {
    const connection = connections.get(request.socket);
    const denial: Denial = {
      code: 'ambiguous_request',
      rule: null,
      reason: 'CONNECT asks for a proxy; there is none.',
    };
    if (connection !== undefined) note(connection, denial, request);
    refuseRaw(socket, 400, denialBody(denial, connection?.exchange.host ?? null));
  });
  http1.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const connection = connections.get(request.socket);
    if (connection === undefined) return void socket.destroy();
    clearTimeout(connection.timer);
    upgrade(connection.exchange, request, socket, head);
  });
  http1.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) =>
    onUnreadable(connections.get(socket), error, socket),
  );
  http2.on('request', onRequest);
  http2.on('session', (session) => {
    if (opening !== undefined) sessions.set(session, opening);
    session.setTimeout(keepAliveMs, () => session.close());
    session.on('error', () => undefined);
  });

  const take = (flow: Flow, socket: Duplex, content: ContentOf, connect: Connect): Connection => {
    const agent = new UpstreamAgent(connect);
    const connection: Connection = {
      flow,
      socket,
      exchange: exchangeOf(parts, flow, content, agent),
      waiting: 0,
      last: Promise.resolve(),
      timer: setTimeout(() => socket.destroy(), headMs).unref(),
    };
    connections.set(socket, connection);
    socket.once('close', () => {
      clearTimeout(connection.timer);
      connections.delete(socket);
      agent.destroy();
      flow.finish(null);
    });
    return connection;
  };

  return {
    servePlain: (flow) => {
      take(
        flow,
        flow.inside,
        (request) => ({ protocol: 'http', request }),
        () => dialPlain(parts, flow),
      );
      http1.emit('connection', flow.inside);
    },
    serveOpened: async (flow) => {
      const connection = await terminate(parts, flow, take);
      if (connection === undefined) return;
      if (!connection.isHttp2) return void http1.emit('connection', connection.socket);
      clearTimeout(connection.timer);
      opening = connection;
      http2.emit('connection', connection.socket);
      opening = undefined;
    },
    refuse: (flow, denial, kind) => refuse(parts, flow, denial, kind),
    flush: () => {
      for (const {
        exchange: { agent },
      } of connections.values())
        dropIdle(agent);
    },
  };
}

type ContentOf = (request: HttpRequest) => AttemptContent;

type Take = (flow: Flow, socket: Duplex, content: ContentOf, connect: Connect) => Connection;

/** Ends the TLS of the connection here. @returns undefined when that failed; then the flow is over */
async function terminate(
  parts: HttpSideParts,
  flow: Flow,
  take: Take,
): Promise<(Connection & { readonly isHttp2: boolean }) | undefined> {
  const { authority } = parts;
  const { target, attempt } = flow;
  if (authority === undefined || target.kind !== 'host') {
    flow.fail('the connection would have to be opened, and this sandbox has no certificate authority');
    return undefined;
  }
  const hello =
    attempt.content?.protocol === 'tls' ? attempt.content : { protocol: 'tls' as const, encryptedHello: false };
  const socket = await terminateTls(flow.inside, {
    authority,
    host: target.host,
    alpn: ['h2', 'http/1.1'],
    handshakeTimeoutMs: handshakeMs,
  }).catch((error: unknown) => {
    flow.finish(`handshake inside: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  });
  if (socket === undefined) return undefined;
  const connection = take(
    flow,
    socket,
    (request) => ({ ...hello, request }),
    () => dialSecure(parts, flow, target.host),
  );
  return Object.assign(connection, { isHttp2: socket.alpnProtocol === 'h2' });
}

async function dialPlain(parts: HttpSideParts, flow: Flow): Promise<Duplex> {
  const dialled = await parts.dial(flow.target, flow.port, flow.signal);
  if (dialled.kind === 'denied') throw new DeniedUpstream(dialled.denial);
  if (dialled.kind === 'failed') throw new Error(dialled.fault);
  flow.setDialled(dialled.address.text);
  dialled.socket.on('error', () => dialled.socket.destroy());
  return dialled.socket;
}

async function dialSecure(parts: HttpSideParts, flow: Flow, host: HostName): Promise<Duplex> {
  const plain = await dialPlain(parts, flow);
  return secure(plain, { host, alpn: ['http/1.1'], timeoutMs: handshakeMs, roots: parts.upstreamRoots });
}

function exchangeOf(parts: HttpSideParts, flow: Flow, content: ContentOf, agent: UpstreamAgent): ExchangeParts {
  return {
    agent,
    host: flow.target.kind === 'host' ? flow.target.host : null,
    attemptOf: (request) => ({ target: flow.target, port: flow.port, content: content(request) }),
    decide: (attempt) => parts.judge.decide(attempt),
    charge: (decision) => parts.meter.charge(parts.judge.rule(decision.rule), 'requests', 1),
    onBytes: (direction, bytes) => flow.onBytes(direction, bytes),
    hold: (attempt) => flow.hold(attempt),
    record: (entry) => record(parts, flow, entry),
  };
}

function record({ log }: HttpSideParts, flow: Flow, { denial, durationMs, ...entry }: RequestEntry): void {
  log.add({
    kind: 'request',
    ...entry,
    code: denial?.code ?? null,
    reason: denial?.reason ?? null,
    at: new Date(Date.now() - durationMs).toISOString(),
    durationMs,
    host: flow.target.kind === 'host' ? flow.target.host : null,
    address: flow.target.kind === 'address' ? flow.target.address.text : null,
    port: flow.port,
    protocol: flow.attempt.content?.protocol ?? 'http',
  });
}

/** HTTP/1.1: one after the other, in their order; who sends many without waiting for an answer is cut off. */
function enqueue(connection: Connection, request: IncomingMessage, response: ServerResponse): void {
  clearTimeout(connection.timer);
  connection.waiting += 1;
  if (connection.waiting > pipelined) {
    note(
      connection,
      { code: 'too_many', rule: null, reason: `More than ${pipelined} requests wait on one connection.` },
      request,
    );
    return void connection.socket.destroy();
  }
  connection.last = connection.last.then(async () => {
    if (!connection.socket.destroyed) await exchange(connection.exchange, request, response);
    connection.waiting -= 1;
    if (connection.waiting > 0) return;
    connection.timer = setTimeout(() => connection.socket.destroy(), keepAliveMs).unref();
  });
}

/** What Node's parser refuses has more than one reading, or is no HTTP. */
function onUnreadable(connection: Connection | undefined, error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const isLarge = error.code === 'HPE_HEADER_OVERFLOW';
  const reason = isLarge
    ? `The header is larger than ${headBytes / 1024} KiB.`
    : `The request cannot be read: ${error.message}.`;
  const denial: Denial = { code: 'ambiguous_request', rule: null, reason };
  if (connection !== undefined) note(connection, denial, {});
  refuseRaw(socket, isLarge ? 431 : 400, denialBody(denial, connection?.exchange.host ?? null));
}

function note(
  connection: Connection,
  denial: Denial,
  { method = '', url = '' }: { method?: string | undefined; url?: string | undefined },
): void {
  connection.exchange.record({
    verdict: 'deny',
    denial,
    rule: denial.rule,
    method: method.slice(0, 32),
    path: (url.split('?')[0] ?? '').slice(0, 512),
    status: null,
    fault: null,
    durationMs: 0,
    upBytes: 0,
    downBytes: 0,
  });
}

async function refuse(parts: HttpSideParts, flow: Flow, denial: Denial, kind: string): Promise<boolean> {
  const body = denialBody(denial, flow.target.kind === 'host' ? flow.target.host : null);
  const answer = (socket: Duplex): boolean => {
    socket.once('close', () => flow.finish(null));
    refuseRaw(socket, 403, body);
    return true;
  };
  if (kind === 'http') return answer(flow.inside);
  const { authority } = parts;
  if (kind !== 'tls' || authority === undefined || flow.target.kind !== 'host' || !authority.covers(flow.target.host))
    return false;
  const context = { authority, host: flow.target.host, alpn: ['http/1.1'] as const, handshakeTimeoutMs: handshakeMs };
  const socket = await terminateTls(flow.inside, context).catch(() => undefined);
  if (socket === undefined) return false;
  return answer(socket);
}

function dropIdle(agent: UpstreamAgent): void {
  for (const sockets of Object.values(agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy();
}
