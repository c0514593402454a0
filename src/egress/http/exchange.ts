/**
 * One request: read strictly, judged, sent on as a request of our own making, and its answer streamed back as it comes. Nothing
 * is held back: a server that sends an event a second is heard every second.
 */
import { type ClientRequest, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import { parseIpAddress } from '../../network/ip-address.ts';
import { printable } from '../records.ts';
import type { Attempt, Decision, Denial, HttpRequest, Target } from '../types.ts';
import { answerHead } from './answer-head.ts';
import { carry } from './carry.ts';
import { type DenialBody, denialBody, failureBody } from './denial.ts';
import { headBytes, requestHeaders } from './headers.ts';
import { type RequestHead, readRequest } from './request.ts';
import type { Lease, UpstreamPool } from './upstream-pool.ts';

export type AnyRequest = IncomingMessage | Http2ServerRequest;
export type AnyResponse = ServerResponse | Http2ServerResponse;

/** What one connection gives its requests. */
export interface ExchangeParts {
  readonly target: Target;
  /** Of the target, as a Host says it: the one that is judged is the one that is sent. */
  readonly authority: string;
  readonly attemptOf: (request: HttpRequest) => Attempt;
  readonly decide: (attempt: Attempt) => Decision;
  /** Counts a request and the bytes of its head; a denial when they are more than is left. */
  readonly charge: (decision: Decision, headBytes: number) => Denial | undefined;
  readonly onBytes: (direction: 'up' | 'down', bytes: number) => number | 'stop';
  /** Told of a request that is sent on; what it returns is called when it is over. */
  readonly hold: (attempt: Attempt) => () => void;
  readonly pool: UpstreamPool;
  readonly record: (entry: RequestEntry) => void;
}

export interface RequestEntry {
  readonly verdict: 'allow' | 'deny' | 'would-deny';
  readonly denial: Denial | undefined;
  readonly rule: string | null;
  readonly method: string;
  readonly path: string;
  readonly status: number | null;
  readonly fault: string | null;
  readonly durationMs: number;
  readonly upBytes: number;
  readonly downBytes: number;
}

/** From the end of the request, no upstream may take longer to begin its answer; see docs/limits.md. */
const answerMs = 120_000;
/** Interim answers (1xx) of one request; there is no use for more, and an upstream could send them for ever. */
const mostInterim = 8;

type Judged =
  | {
      readonly kind: 'allow';
      readonly decision: Extract<Decision, { verdict: 'allow' }>;
      readonly attempt: Attempt;
    }
  | { readonly kind: 'deny'; readonly denial: Denial };

export function judgeRequest(parts: ExchangeParts, head: RequestHead): Judged {
  const read = readRequest(head);
  if (read.kind === 'ambiguous') {
    return { kind: 'deny', denial: { code: 'ambiguous_request', rule: null, reason: read.reason } };
  }
  const attempt = parts.attemptOf(read.request);
  const decision = parts.decide(attempt);
  if (decision.verdict === 'deny') return { kind: 'deny', denial: decision };
  const denial = misaddressed(parts.target, read.authority) ?? parts.charge(decision, sizeOf(head));
  return denial === undefined ? { kind: 'allow', decision, attempt } : { kind: 'deny', denial };
}

/** To a raw address its own Host only: the rules compare names, and this is none. */
function misaddressed(target: Target, authority: string): Denial | undefined {
  if (target.kind === 'host') return undefined;
  const name = authority.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
  if (parseIpAddress(name.toLowerCase())?.text === target.address.text) return undefined;
  const reason = `The request is for ${printable(authority)}, the connection is to ${target.address.text}.`;
  return { code: 'host_mismatch', rule: null, reason };
}

function sizeOf({ method, url, rawHeaders }: RequestHead): number {
  return headBytes(rawHeaders) + method.length + url.length;
}

/** Settles when the exchange is over, however it went. */
export async function exchange(parts: ExchangeParts, request: AnyRequest, response: AnyResponse): Promise<void> {
  const note = new Note(parts, request);
  const head = headOf(request);
  const judged = judgeRequest(parts, head);
  const host = parts.target.kind === 'host' ? parts.target.host : null;
  if (judged.kind === 'deny') {
    note.deny(judged.denial);
    answerWith(request, response, statusOf(judged.denial), denialBody(judged.denial, host));
    return;
  }
  note.allow(judged.decision);
  note.add('up', sizeOf(head));
  const release = parts.hold(judged.attempt);
  try {
    const lease = await parts.pool.acquire();
    await new Forwarding(parts, request, response, note, lease).done;
  } catch (error) {
    // who asked may have gone while there was no connection yet
    answerFailure(request, response, error as NodeJS.ErrnoException, host);
    if (error instanceof DeniedUpstream) note.deny(error.denial);
    note.close(faultOf(error as NodeJS.ErrnoException));
  } finally {
    release();
  }
}

/** 421 "Misdirected Request" (RFC 9110 §15.5.20) tells a client to make a connection of its own for that host. */
export function statusOf({ code }: Denial): number {
  if (code === 'ambiguous_request') return 400;
  return code === 'host_mismatch' ? 421 : 403;
}

/** A request on its way over one upstream connection. It is over once; whatever upstream does ends in that. */
class Forwarding {
  readonly done: Promise<void>;
  readonly #parts: ExchangeParts;
  readonly #request: AnyRequest;
  readonly #response: AnyResponse;
  readonly #note: Note;
  readonly #lease: Lease;
  readonly #upstream: ClientRequest;
  #settle: () => void = () => undefined;
  #timer: NodeJS.Timeout | undefined;
  #interim = 0;
  #isOver = false;

  constructor(parts: ExchangeParts, request: AnyRequest, response: AnyResponse, note: Note, lease: Lease) {
    [this.#parts, this.#request, this.#response] = [parts, request, response];
    [this.#note, this.#lease] = [note, lease];
    this.done = new Promise((resolve) => {
      this.#settle = resolve;
    });
    const hasBody = bodyOf(request);
    this.#upstream = httpRequest({
      agent: lease.agent,
      method: request.method ?? 'GET',
      path: request.url ?? '/',
      headers: requestHeaders(headOf(request), parts.authority, hasBody).flat() as never,
      setHost: false,
    });
    this.#listen();
    this.#send(hasBody);
  }

  #listen(): void {
    const { upstream, response } = { upstream: this.#upstream, response: this.#response };
    upstream.on('error', (error) => this.#fail(error));
    upstream.on('information', (interim) => this.#guard(() => this.#onInterim(interim)));
    upstream.once('response', (answer) => this.#guard(() => this.#onAnswer(answer)));
    upstream.once('upgrade', (_answer, socket) => {
      socket.destroy();
      this.#fail(new Error('it answered with an upgrade that nobody asked for'));
    });
    upstream.once('finish', () => this.#awaitAnswer());
    // who asked has gone: nobody reads the answer any more
    response.once('close', () => {
      if (!response.writableFinished) this.#fail(new Error('the connection inside ended'));
    });
    if (response.destroyed) this.#fail(new Error('the connection inside ended'));
  }

  #send(hasBody: boolean): void {
    if (this.#isOver) return;
    if (!hasBody) {
      this.#upstream.end();
      return;
    }
    const length = Number(this.#request.headers['content-length'] ?? Number.NaN);
    let sent = 0;
    this.#request.once('end', () => {
      if (sent < length) this.#fail(new Error('the body is shorter than its length'));
    });
    carry(this.#request, this.#upstream, (bytes) => {
      sent += bytes;
      return sent > length ? 'stop' : this.#note.bytes('up', bytes);
    });
  }

  #awaitAnswer(): void {
    if (this.#isOver) return;
    this.#timer = setTimeout(() => this.#fail(new Error(`no answer in ${answerMs} ms`)), answerMs);
  }

  /** Only "100 Continue" is of use to the one who asked for it. */
  #onInterim({ statusCode, rawHeaders }: { statusCode: number; rawHeaders: string[] }): void {
    this.#interim += 1;
    if (this.#interim > mostInterim) throw new Error('it sent one interim answer after the other');
    if (this.#note.bytes('down', headBytes(rawHeaders)) === 'stop') throw new Error('the budget is used up');
    const isAwaited = statusCode === 100 && this.#request.headers.expect !== undefined && this.#interim === 1;
    if (isAwaited && !this.#response.headersSent && !('stream' in this.#response)) this.#response.writeContinue();
  }

  #onAnswer(answer: IncomingMessage): void {
    clearTimeout(this.#timer);
    if (this.#isOver) return void answer.destroy();
    this.#note.status(answer.statusCode ?? null);
    if (this.#note.bytes('down', headBytes(answer.rawHeaders)) === 'stop') throw new Error('the budget is used up');
    answerHead(this.#response, answer);
    answer.once('close', () => this.#over(answer.complete ? null : 'the answer broke off', answer.complete));
    carry(answer, this.#response, (bytes) => this.#note.bytes('down', bytes));
  }

  /** What an upstream sends may be what Node will not pass on: that is its fault, and no more than this exchange's end. */
  #guard(step: () => void): void {
    try {
      step();
    } catch (error) {
      this.#fail(error as NodeJS.ErrnoException);
    }
  }

  #fail(error: NodeJS.ErrnoException): void {
    if (this.#isOver) return;
    const { target } = this.#parts;
    answerFailure(this.#request, this.#response, error, target.kind === 'host' ? target.host : null);
    this.#over(faultOf(error), false);
    this.#upstream.destroy();
  }

  #over(fault: string | null, isComplete: boolean): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#lease.finish(isComplete);
    this.#note.close(fault);
    this.#settle();
  }
}

/** HTTP/1.1 says so in a header (RFC 9112 §6.3); HTTP/2 by not ending its stream. */
function bodyOf(request: AnyRequest): boolean {
  if ('stream' in request) return !request.stream.endAfterHeaders;
  const { headers } = request;
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
}

export function headOf(request: AnyRequest): RequestHead {
  const { method = '', url = '', rawHeaders } = request;
  // of HTTP/2 only: the compatibility layer leaves the pseudo headers among the others
  const authority = 'stream' in request ? (request.headers[':authority'] ?? '') : undefined;
  return { method, url, rawHeaders, ...(authority === undefined ? {} : { authority: String(authority) }) };
}

/** An answer of our own; the connection ends after it, as an unread body may still come. */
export function answerWith(request: AnyRequest, response: AnyResponse, status: number, body: DenialBody): void {
  response.on('error', () => undefined);
  if (response.headersSent || response.destroyed) return void response.destroy();
  const text = `${JSON.stringify(body)}\n`;
  const isHttp2 = 'stream' in response;
  (response as ServerResponse).writeHead(status, {
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(text)),
    'cache-control': 'no-store',
    ...(isHttp2 ? {} : { connection: 'close' }),
  });
  (response as ServerResponse).end(request.method === 'HEAD' ? undefined : text);
  request.resume();
}

function answerFailure(
  request: AnyRequest,
  response: AnyResponse,
  error: NodeJS.ErrnoException,
  host: string | null,
): void {
  if (error instanceof DeniedUpstream) answerWith(request, response, 403, denialBody(error.denial, host));
  else answerWith(request, response, 502, failureBody(faultOf(error), host));
}

export function faultOf({ code, message }: NodeJS.ErrnoException): string {
  return code ?? message;
}

/** An address that the policy does not let us dial. */
export class DeniedUpstream extends Error {
  readonly denial: Denial;

  constructor(denial: Denial) {
    super(denial.reason);
    this.denial = denial;
  }
}

/** What is recorded of a request, once. */
export class Note {
  readonly #parts: ExchangeParts;
  readonly #method: string;
  readonly #path: string;
  readonly #startedMs = performance.now();
  #verdict: RequestEntry['verdict'] = 'allow';
  #denial: Denial | undefined;
  #rule: string | null = null;
  #status: number | null = null;
  readonly #bytes = { up: 0, down: 0 };
  #isClosed = false;

  constructor(parts: ExchangeParts, request: AnyRequest) {
    this.#parts = parts;
    this.#method = printable(request.method ?? '');
    this.#path = printable((request.url ?? '').split('?')[0] ?? '');
  }

  allow(decision: Extract<Decision, { verdict: 'allow' }>): void {
    this.#rule = decision.rule;
    this.#denial = decision.wouldDeny;
    if (decision.wouldDeny !== undefined) this.#verdict = 'would-deny';
  }

  deny(denial: Denial): void {
    this.#verdict = 'deny';
    this.#denial = denial;
    this.#rule = denial.rule;
    this.close(null);
  }

  status(status: number | null): void {
    this.#status = status;
  }

  /** Bytes that were charged already. */
  add(direction: 'up' | 'down', bytes: number): void {
    this.#bytes[direction] += bytes;
  }

  bytes(direction: 'up' | 'down', bytes: number): number | 'stop' {
    this.add(direction, bytes);
    return this.#parts.onBytes(direction, bytes);
  }

  close(fault: string | null): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#parts.record({
      verdict: this.#verdict,
      denial: this.#denial,
      rule: this.#rule,
      method: this.#method,
      path: this.#path,
      status: this.#status,
      fault,
      durationMs: Math.round(performance.now() - this.#startedMs),
      upBytes: this.#bytes.up,
      downBytes: this.#bytes.down,
    });
  }
}
