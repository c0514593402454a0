/**
 * Calls of the daemon's API. One connection is kept alive for the calls of a command. Node's own client: it loads in a
 * millisecond, where others would double the time of a short command.
 */
import { Agent, request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Readable } from 'node:stream';
import { SallyportError } from '../../errors/error.ts';
import type { Endpoint } from '../home.ts';
import { parseRemoteError } from './remote-error.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

export interface CallOptions {
  readonly headers?: OutgoingHttpHeaders;
  /** Sent as JSON. */
  readonly json?: unknown;
  /** Sent as it comes. */
  readonly body?: Readable;
  readonly signal?: AbortSignal;
}

/** Of an error or a JSON answer; the API's own answers are far smaller. */
const answerLimitBytes = 64 * 1024 * 1024;

export class ApiClient {
  readonly endpoint: Endpoint;
  readonly #agent = new Agent({ keepAlive: true });

  constructor(endpoint: Endpoint) {
    this.endpoint = endpoint;
  }

  /** The JSON answer, whose type is the route's. @throws SallyportError what the daemon says, `daemon_unreachable` */
  async json<Answer>(method: Method, path: string, options: CallOptions = {}): Promise<Answer> {
    const text = await readText(await this.open(method, path, options));
    return JSON.parse(text === '' ? 'null' : text) as Answer;
  }

  /** The answer as a stream; the caller reads or destroys it. @throws SallyportError as {@link json} */
  async open(method: Method, path: string, options: CallOptions = {}): Promise<IncomingMessage> {
    const answer = await this.#send(method, path, options);
    const { statusCode = 0 } = answer;
    if (statusCode >= 200 && statusCode < 300) return answer;
    throw parseRemoteError(await readText(answer), `The daemon answered ${statusCode}`);
  }

  close(): void {
    this.#agent.destroy();
  }

  #send(method: Method, path: string, { headers, json, body, signal }: CallOptions): Promise<IncomingMessage> {
    const url = new URL(path, this.endpoint.url);
    const isSecure = url.protocol === 'https:';
    return new Promise((resolve, reject) => {
      const request = (isSecure ? httpsRequest : httpRequest)(url, {
        method,
        ...(isSecure ? {} : { agent: this.#agent }),
        ...(signal === undefined ? {} : { signal }),
        headers: {
          authorization: `Bearer ${this.endpoint.key}`,
          ...(json === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
      });
      request.once('response', resolve);
      request.once('error', (cause) => reject(unreachable(this.endpoint.url, cause)));
      if (body === undefined) request.end(json === undefined ? undefined : JSON.stringify(json));
      else body.once('error', (cause) => request.destroy(cause)).pipe(request);
    });
  }
}

function unreachable(url: string, cause: Error): SallyportError {
  const code = 'code' in cause ? String(cause.code) : cause.message;
  return new SallyportError('daemon_unreachable', `Cannot reach the daemon at ${url}: ${code}`, { cause });
}

async function readText(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > answerLimitBytes) throw new SallyportError('internal', 'The answer of the daemon is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
