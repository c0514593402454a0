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
import type { AttemptContent, Denial, HttpRequest, Target } from '../types.ts';
import { denialBody } from './denial.ts';
import {
  type AnyRequest,
  type AnyResponse,
  answerWith,
  DeniedUpstream,
  type ExchangeParts,
  exchange,
  type RequestEntry,
} from './exchange.ts';
import { mostHeaders } from './request.ts';
import { refuseRaw, upgrade } from './upgrade.ts';
import { type Connect, UpstreamPool } from './upstream-pool.ts';

/** All of these are in docs/limits.md. */
const headBytes = 32 * 1024;
const headMs = 15_000;
const keepAliveMs = 60_000;
const handshakeMs = 10_000;
/** Requests that one HTTP/1.1 connection may have sent without an answer to the first. */
const pipelined = 16;
const http2Streams = 32;
/** Upstream connections of one HTTP/2 connection inside; of HTTP/1.1 it is one. */
const http2Upstreams = 8;
/** Requests of a sandbox that wait for an answer: each holds its head. */
const waitingRequests = 512;

export interface HttpSideParts extends Pick<FlowParts, 'judge' | 'meter' | 'log' | 'dial' | 'onFault'> {
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
  return new OpenHttpSide(parts);
}

type ContentOf = (request: HttpRequest) => AttemptContent;

class OpenHttpSide implements ClosableHttpSide {
  readonly #parts: HttpSideParts;
  readonly #connections = new Map<Duplex, Connection>();
  readonly #sessions = new WeakMap<object, Connection>();
  readonly #http1: ReturnType<typeof createHttpServer>;
  readonly #http2: ReturnType<typeof createHttp2Server>;
  /** The one that a session is being made for: Node makes it within the emit. */
  #opening: Connection | undefined;
  #waiting = 0;

  constructor(parts: HttpSideParts) {
    this.#parts = parts;
    this.#http1 = this.#openHttp1();
    this.#http2 = this.#openHttp2();
  }

  servePlain(flow: Flow): void {
    const content: ContentOf = (request) => ({ protocol: 'http', request });
    this.#take(flow, flow.inside, 1, content, dialer(this.#parts, flow));
    this.#http1.emit('connection', flow.inside);
  }

  async serveOpened(flow: Flow): Promise<void> {
    const { target, attempt } = flow;
    const { authority } = this.#parts;
    if (authority === undefined || target.kind !== 'host') {
      return flow.fail('the connection would have to be opened, and this sandbox has no certificate authority');
    }
    const socket = await terminate(authority, target.host, ['h2', 'http/1.1'], flow);
    if (typeof socket === 'string') return flow.finish(`handshake inside: ${socket}`);
    const isHttp2 = socket.alpnProtocol === 'h2';
    const hello =
      attempt.content?.protocol === 'tls' ? attempt.content : { protocol: 'tls' as const, encryptedHello: false };
    const dialPlain = dialer(this.#parts, flow);
    const connect = async (): Promise<Duplex> => this.#secure(await dialPlain(), target.host);
    const most = isHttp2 ? http2Upstreams : 1;
    const connection = this.#take(flow, socket, most, (request) => ({ ...hello, request }), connect);
    if (isHttp2) this.#openSession(connection);
    else this.#http1.emit('connection', socket);
  }

  async refuse(flow: Flow, denial: Denial, kind: string): Promise<boolean> {
    const { target } = flow;
    const body = denialBody(denial, target.kind === 'host' ? target.host : null);
    const answer = (socket: Duplex): boolean => {
      socket.once('close', () => flow.finish(null));
      refuseRaw(socket, 403, body);
      return true;
    };
    if (kind === 'http') return answer(flow.inside);
    const { authority } = this.#parts;
    if (kind !== 'tls' || authority === undefined) return false;
    if (target.kind !== 'host' || !authority.covers(target.host)) return false;
    const socket = await terminate(authority, target.host, ['http/1.1'], flow);
    return typeof socket === 'string' ? false : answer(socket);
  }

  flush(): void {
    for (const { exchange } of this.#connections.values()) exchange.pool.flush();
  }

  #openHttp1(): ReturnType<typeof createHttpServer> {
    const server = createHttpServer({ maxHeaderSize: headBytes, keepAlive: false, insecureHTTPParser: false });
    server.maxHeadersCount = mostHeaders;
    // a client that has asked and closes its half still waits for the answer; Node knows the switch and does not document it
    Object.assign(server, { httpAllowHalfOpen: true });
    const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
      const connection = this.#connections.get(request.socket);
      if (connection === undefined) response.destroy();
      else this.#enqueue(connection, request, response);
    };
    // without a listener Node would say "100 Continue" by itself, before anything was judged
    server.on('request', onRequest).on('checkContinue', onRequest).on('checkExpectation', onRequest);
    server.on('connect', (request: IncomingMessage, socket: Duplex) => {
      const reason = 'CONNECT asks for a proxy, and there is none.';
      this.#refuseUnread(this.#connections.get(request.socket), socket, 400, reason, request);
    });
    server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      const connection = this.#connections.get(request.socket);
      if (connection === undefined) return void socket.destroy();
      clearTimeout(connection.timer);
      void upgrade(connection.exchange, request, socket, head).catch(this.#parts.onFault);
    });
    server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => this.#onUnreadable(error, socket));
    return server;
  }

  #openHttp2(): ReturnType<typeof createHttp2Server> {
    const server = createHttp2Server({
      maxSessionMemory: 4,
      maxHeaderListPairs: mostHeaders,
      settings: { maxConcurrentStreams: http2Streams, maxHeaderListSize: headBytes, enablePush: false },
    });
    const onRequest = (request: AnyRequest, response: AnyResponse): void => {
      const session = 'stream' in request ? request.stream.session : undefined;
      const connection = this.#sessions.get(session ?? {});
      if (connection === undefined) response.destroy();
      else this.#run(connection, request, response);
    };
    server.on('request', onRequest).on('checkContinue', onRequest);
    server.on('session', (session) => {
      if (this.#opening !== undefined) this.#sessions.set(session, this.#opening);
      session.setTimeout(keepAliveMs, () => session.close());
      session.on('error', () => undefined);
    });
    server.on('sessionError', () => undefined);
    return server;
  }

  #openSession(connection: Connection): void {
    clearTimeout(connection.timer);
    this.#opening = connection;
    this.#http2.emit('connection', connection.socket);
    this.#opening = undefined;
  }

  #take(flow: Flow, socket: Duplex, most: number, content: ContentOf, connect: Connect): Connection {
    const pool = new UpstreamPool(connect, most);
    const connection: Connection = {
      flow,
      socket,
      exchange: exchangeOf(this.#parts, flow, content, pool),
      waiting: 0,
      last: Promise.resolve(),
      timer: setTimeout(() => socket.destroy(), headMs).unref(),
    };
    this.#connections.set(socket, connection);
    socket.once('close', () => {
      clearTimeout(connection.timer);
      this.#connections.delete(socket);
      pool.close();
      flow.finish(null);
    });
    return connection;
  }

  async #secure(plain: Duplex, host: HostName): Promise<Duplex> {
    const { upstreamRoots: roots } = this.#parts;
    return secure(plain, { host, alpn: ['http/1.1'], timeoutMs: handshakeMs, roots });
  }

  /** HTTP/1.1: one after the other, in their order. Who sends more than one ahead is not read on until he has his answers. */
  #enqueue(connection: Connection, request: IncomingMessage, response: ServerResponse): void {
    clearTimeout(connection.timer);
    connection.waiting += 1;
    if (connection.waiting > pipelined) {
      const reason = `More than ${pipelined} requests wait on one connection.`;
      connection.exchange.record(refusedEntry({ code: 'too_many', rule: null, reason }, request));
      return void connection.socket.destroy();
    }
    if (connection.waiting > 1) connection.socket.pause();
    connection.last = connection.last.then(async () => {
      if (!connection.socket.destroyed) await this.#run(connection, request, response);
      connection.waiting -= 1;
      if (connection.waiting === 1) connection.socket.resume();
      if (connection.waiting > 0) return;
      connection.timer = setTimeout(() => connection.socket.destroy(), keepAliveMs).unref();
    });
  }

  /** Never rejects. */
  async #run(connection: Connection, request: AnyRequest, response: AnyResponse): Promise<void> {
    if (this.#waiting >= waitingRequests) {
      const denial: Denial = { code: 'too_many', rule: null, reason: `More than ${waitingRequests} requests wait.` };
      connection.exchange.record(refusedEntry(denial, request));
      return answerWith(request, response, 403, denialBody(denial, null));
    }
    this.#waiting += 1;
    try {
      await exchange(connection.exchange, request, response);
    } catch (error) {
      this.#parts.onFault(error);
      response.destroy();
    } finally {
      this.#waiting -= 1;
    }
  }

  /** What Node's parser refuses has more than one reading, or is no HTTP. */
  #onUnreadable(error: NodeJS.ErrnoException, socket: Duplex): void {
    if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
    const isLarge = error.code === 'HPE_HEADER_OVERFLOW';
    const reason = isLarge
      ? `The header is larger than ${headBytes / 1024} KiB.`
      : `The request cannot be read: ${error.message}.`;
    this.#refuseUnread(this.#connections.get(socket), socket, isLarge ? 431 : 400, reason, {});
  }

  #refuseUnread(
    connection: Connection | undefined,
    socket: Duplex,
    status: number,
    reason: string,
    request: { method?: string | undefined; url?: string | undefined },
  ): void {
    const denial: Denial = { code: 'ambiguous_request', rule: null, reason };
    connection?.exchange.record(refusedEntry(denial, request));
    refuseRaw(socket, status, denialBody(denial, hostOf(connection?.flow.target)));
  }
}

async function terminate(authority: Authority, host: HostName, alpn: readonly ('h2' | 'http/1.1')[], flow: Flow) {
  try {
    return await terminateTls(flow.inside, { authority, host, alpn, handshakeTimeoutMs: handshakeMs });
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** The first connection upstream was charged with the one inside; each further one is charged as it is made. */
function dialer(parts: HttpSideParts, flow: Flow): Connect {
  let made = 0;
  return async () => {
    made += 1;
    const over = made > 1 ? parts.meter.charge(flow.rule(), 'connections', 1) : undefined;
    if (over !== undefined) throw new DeniedUpstream(over);
    const dialled = await parts.dial(flow.target, flow.port, flow.signal);
    if (dialled.kind === 'denied') throw new DeniedUpstream(dialled.denial);
    if (dialled.kind === 'failed') throw new Error(dialled.fault);
    flow.addDialled(dialled.address);
    dialled.socket.on('error', () => dialled.socket.destroy());
    return dialled.socket;
  };
}

function exchangeOf(parts: HttpSideParts, flow: Flow, content: ContentOf, pool: UpstreamPool): ExchangeParts {
  const { target, port } = flow;
  return {
    pool,
    target,
    authority: authorityOf(target, port, flow.attempt.content?.protocol === 'tls' ? 443 : 80),
    attemptOf: (request) => ({ target, port, content: content(request) }),
    decide: (attempt) => parts.judge.decide(attempt),
    charge: (decision, bytes) => {
      const rule = parts.judge.rule(decision.rule);
      return parts.meter.charge(rule, 'requests', 1) ?? flow.charge('up', bytes);
    },
    onBytes: (direction, bytes) => flow.onBytes(direction, bytes),
    hold: (attempt) => flow.hold(attempt),
    record: (entry) => record(parts, flow, entry),
  };
}

function authorityOf(target: Target, port: number, usual: number): string {
  const name = target.kind === 'host' ? target.host : target.address.text;
  const bracketed = name.includes(':') ? `[${name}]` : name;
  return port === usual ? bracketed : `${bracketed}:${port}`;
}

function hostOf(target: Target | undefined): string | null {
  return target?.kind === 'host' ? target.host : null;
}

function record({ log }: HttpSideParts, flow: Flow, { denial, durationMs, ...entry }: RequestEntry): void {
  const { target } = flow;
  log.add({
    kind: 'request',
    ...entry,
    code: denial?.code ?? null,
    reason: denial?.reason ?? null,
    at: new Date(Date.now() - durationMs).toISOString(),
    durationMs,
    host: hostOf(target),
    address: target.kind === 'address' ? target.address.text : null,
    port: flow.port,
    protocol: flow.attempt.content?.protocol ?? 'http',
  });
}

function refusedEntry(
  denial: Denial,
  { method = '', url = '' }: { method?: string | undefined; url?: string | undefined },
): RequestEntry {
  return {
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
  };
}
