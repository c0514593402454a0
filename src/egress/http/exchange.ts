/**
 * One request: read strictly, judged, sent on as a request of our own making, and its answer streamed back as it comes. Nothing
 * is held back: a server that sends an event a second is heard every second.
 */
import { type ClientRequest, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import type { Readable, Writable } from 'node:stream';
import { printable } from '../records.ts';
import type { Attempt, Decision, Denial, HttpRequest } from '../types.ts';
import { type DenialBody, denialBody, failureBody } from './denial.ts';
import { forwardable, headBytes, pairsOf } from './headers.ts';
import { type RequestHead, readRequest } from './request.ts';
import type { UpstreamAgent } from './upstream-agent.ts';

export type AnyRequest = IncomingMessage | Http2ServerRequest;
export type AnyResponse = ServerResponse | Http2ServerResponse;

/** What one connection gives its requests. */
export interface ExchangeParts {
  readonly attemptOf: (request: HttpRequest) => Attempt;
  readonly decide: (attempt: Attempt) => Decision;
  /** Counts a request; a denial when there are none left. */
  readonly charge: (decision: Decision) => Denial | undefined;
  readonly onBytes: (direction: 'up' | 'down', bytes: number) => number | 'stop';
  /** Told of a request that is sent on; what it returns is called when it is over. */
  readonly hold: (attempt: Attempt) => () => void;
  readonly agent: UpstreamAgent;
  readonly host: string | null;
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

/** Longer than that no upstream may take to begin its answer; see docs/limits.md. */
const answerMs = 120_000;

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
  const over = parts.charge(decision);
  return over === undefined ? { kind: 'allow', decision, attempt } : { kind: 'deny', denial: over };
}

/** Settles when the exchange is over, however it went. */
export async function exchange(parts: ExchangeParts, request: AnyRequest, response: AnyResponse): Promise<void> {
  const note = new Note(parts, request);
  const judged = judgeRequest(parts, headOf(request));
  if (judged.kind === 'deny') {
    note.deny(judged.denial);
    answerWith(request, response, statusOf(judged.denial), denialBody(judged.denial, parts.host));
    return;
  }
  note.allow(judged.decision);
  const release = parts.hold(judged.attempt);
  await forward(parts, request, response, note).finally(release);
}

/** 421 "Misdirected Request" (RFC 9110 §15.5.20) tells a client to make a connection of its own for that host. */
export function statusOf({ code }: Denial): number {
  if (code === 'ambiguous_request') return 400;
  return code === 'host_mismatch' ? 421 : 403;
}

function forward(parts: ExchangeParts, request: AnyRequest, response: AnyResponse, note: Note): Promise<void> {
  return new Promise((settle) => {
    const upstream = openUpstream(parts, headOf(request));
    const timer = setTimeout(() => upstream.destroy(new Error(`no answer in ${answerMs} ms`)), answerMs);
    const over = (fault: string | null): void => {
      clearTimeout(timer);
      note.close(fault);
      settle();
    };
    upstream.once('error', (error: NodeJS.ErrnoException) => {
      const fault = error.code ?? error.message;
      if (response.headersSent) response.destroy(error);
      else answerWith(request, response, error instanceof DeniedUpstream ? 403 : 502, bodyOf(error, parts.host));
      if (error instanceof DeniedUpstream) note.deny(error.denial);
      over(fault);
    });
    upstream.on('information', ({ statusCode, rawHeaders }) => informational(response, statusCode, rawHeaders));
    upstream.once('response', (answer) => {
      clearTimeout(timer);
      note.status(answer.statusCode ?? null);
      sendHead(response, answer);
      note.bytes('down', headBytes(answer.rawHeaders));
      carry(answer, response, (bytes) => note.bytes('down', bytes));
      answer.once('close', () => over(answer.complete ? null : 'the answer broke off'));
    });
    // who asked has gone: nobody reads the answer any more
    response.once('close', () => {
      if (!response.writableFinished) upstream.destroy(new Error('the connection inside ended'));
    });
    note.bytes('up', headBytes(request.rawHeaders));
    if (hasBody(request)) carry(request, upstream, (bytes) => note.bytes('up', bytes));
    else upstream.end();
  });
}

/** HTTP/1.1 says so in a header (RFC 9112 §6.3); HTTP/2 by not ending its stream. */
function hasBody(request: AnyRequest): boolean {
  if ('stream' in request) return !request.stream.endAfterHeaders;
  const { headers } = request;
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
}

function openUpstream({ agent }: ExchangeParts, head: RequestHead): ClientRequest {
  const headers = forwardable(head.rawHeaders);
  const lengths = headers.filter(([name]) => name.toLowerCase() === 'content-length');
  const isChunked = pairsOf(head.rawHeaders).some(([name]) => name.toLowerCase() === 'transfer-encoding');
  if (isChunked) headers.push(['Transfer-Encoding', 'chunked']);
  if (head.authority !== undefined && !headers.some(([name]) => name.toLowerCase() === 'host')) {
    headers.unshift(['Host', head.authority]);
  }
  // HTTP/2 says no length where HTTP/1.1 has to
  if (head.authority !== undefined && lengths.length === 0 && bodied.has(head.method)) {
    headers.push(['Transfer-Encoding', 'chunked']);
  }
  headers.push(['Connection', 'keep-alive']);
  return httpRequest({ agent, method: head.method, path: head.url, headers: headers.flat() as never, setHost: false });
}

const bodied: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH']);

/** The pieces go on as they come, at the pace of who takes them and of the bandwidth. */
export function carry(from: Readable, to: Writable, onBytes: (bytes: number) => number | 'stop'): void {
  let resting = false;
  from.on('data', (chunk: Buffer) => {
    const rest = onBytes(chunk.length);
    if (rest === 'stop') return void to.destroy(new Error('the budget is used up'));
    const mayGoOn = to.write(chunk);
    if (rest > 0) {
      resting = true;
      setTimeout(() => {
        resting = false;
        from.resume();
      }, rest).unref();
    }
    if (!mayGoOn || resting) from.pause();
  });
  to.on('drain', () => {
    if (!resting) from.resume();
  });
  from.once('end', () => to.end());
  from.on('error', (error) => to.destroy(error));
  to.on('error', () => from.destroy());
}

export function headOf(request: AnyRequest): RequestHead {
  const { method = '', url = '', rawHeaders } = request;
  // of HTTP/2 only: the compatibility layer leaves the pseudo headers among the others
  const authority = 'stream' in request ? (request.headers[':authority'] ?? '') : undefined;
  return { method, url, rawHeaders, ...(authority === undefined ? {} : { authority: String(authority) }) };
}

function sendHead(response: AnyResponse, { statusCode = 502, statusMessage, rawHeaders }: IncomingMessage): void {
  const headers = forwardable(rawHeaders);
  if ('stream' in response) {
    (response as Http2ServerResponse).writeHead(statusCode, grouped(headers));
    (response as Http2ServerResponse).stream.on('error', () => undefined);
    return;
  }
  (response as ServerResponse).writeHead(statusCode, statusMessage, headers.flat());
  // with the first of the body where that is here already, and alone where it is not: events may be seconds away
  setImmediate(() => {
    if (!response.writableEnded && !response.destroyed) (response as ServerResponse).flushHeaders();
  });
}

function grouped(headers: readonly (readonly [string, string])[]): Record<string, string[]> {
  const groups: Record<string, string[]> = {};
  for (const [name, value] of headers) {
    const lower = name.toLowerCase();
    groups[lower] = [...(groups[lower] ?? []), value];
  }
  return groups;
}

function informational(response: AnyResponse, status: number, rawHeaders: readonly string[]): void {
  if (response.headersSent || 'stream' in response) return;
  const plain = response as ServerResponse;
  if (status === 100) plain.writeContinue();
  if (status === 103) plain.writeEarlyHints(Object.fromEntries(forwardable(rawHeaders)));
}

/** An answer of our own; the connection ends after it, as an unread body may still come. */
export function answerWith(request: AnyRequest, response: AnyResponse, status: number, body: DenialBody): void {
  const text = `${JSON.stringify(body)}\n`;
  const isHttp2 = 'stream' in response;
  response.on('error', () => undefined);
  (response as ServerResponse).writeHead(status, {
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(text)),
    'cache-control': 'no-store',
    ...(isHttp2 ? {} : { connection: 'close' }),
  });
  (response as ServerResponse).end(request.method === 'HEAD' ? undefined : text);
  request.resume();
}

function bodyOf(error: NodeJS.ErrnoException, host: string | null): DenialBody {
  return error instanceof DeniedUpstream
    ? denialBody(error.denial, host)
    : failureBody(error.code ?? error.message, host);
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
  #up = 0;
  #down = 0;
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

  bytes(direction: 'up' | 'down', bytes: number): number | 'stop' {
    if (direction === 'up') this.#up += bytes;
    else this.#down += bytes;
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
      upBytes: this.#up,
      downBytes: this.#down,
    });
  }
}
