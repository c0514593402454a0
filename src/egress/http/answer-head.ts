/** The head of an upstream's answer, written for the one inside. Upstream is not trusted: what cannot be passed on is thrown. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerResponse } from 'node:http2';
import { forwardable } from './headers.ts';

/** @throws Error for a status that is none of a final answer, or what Node refuses to send */
export function answerHead(response: ServerResponse | Http2ServerResponse, answer: IncomingMessage): void {
  const { statusCode = 0, rawHeaders } = answer;
  if (statusCode < 200 || statusCode > 599) throw new Error(`it answered with the status ${statusCode}`);
  const headers = forwardable(rawHeaders);
  response.on('error', () => undefined);
  // the reason phrase stays out: HTTP/2 has none, and it may hold anything
  if ('stream' in response) return void response.writeHead(statusCode, singleValued(headers));
  response.writeHead(statusCode, headers.flat());
  // with the first of the body where that is here already, and alone where it is not: events may be seconds away
  setImmediate(() => {
    if (!response.writableEnded && !response.destroyed) response.flushHeaders();
  });
}

/** Of these the first counts; others become a list (RFC 9110 §5.3). */
const single: ReadonlySet<string> = new Set([
  'age',
  'content-disposition',
  'content-encoding',
  'content-length',
  'content-location',
  'content-range',
  'content-type',
  'date',
  'etag',
  'expires',
  'last-modified',
  'location',
  'retry-after',
  'server',
]);
const nameRule = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/;

function singleValued(headers: readonly (readonly [string, string])[]): Record<string, string | string[]> {
  const groups = new Map<string, string[]>();
  for (const [name, value] of headers) {
    const lower = name.toLowerCase();
    // "__proto__" would be no header of an object
    if (nameRule.test(lower) && !lower.startsWith('__')) groups.set(lower, [...(groups.get(lower) ?? []), value]);
  }
  return Object.fromEntries([...groups].map(([name, values]) => [name, joined(name, values)]));
}

function joined(name: string, values: readonly string[]): string | string[] {
  if (name === 'set-cookie') return [...values];
  return single.has(name) ? (values[0] ?? '') : values.join(', ');
}
