/**
 * What a caller is told when something fails: `{ code, message, retry, next }` of the error table, whatever threw.
 * No stack, and no path of the host in what the platform itself says (HX-23).
 */
import type { FastifyError, FastifyRequest } from 'fastify';
import { SallyportError } from '../errors/error.ts';

export interface ErrorBody {
  readonly code: string;
  readonly message: string;
  readonly retry: boolean;
  readonly next: string;
}

export interface ErrorAnswer {
  readonly status: number;
  readonly body: ErrorBody;
}

/** {@link errorAnswer}, with a line in the log for what an operator must see. */
export function reportError(thrown: unknown, { id, log, method, routeOptions }: FastifyRequest): ErrorAnswer {
  const answer = errorAnswer(thrown, id);
  const { status, body } = answer;
  if (status >= 500) log.error({ err: thrown, method, route: routeOptions.url, status }, body.code);
  return answer;
}

/** @param requestId lets an operator find the log line of an `internal` error */
export function errorAnswer(thrown: unknown, requestId: string): ErrorAnswer {
  const status = statusOf(thrown);
  const error = knownError(thrown) ?? new SallyportError('internal', `Internal error in request ${requestId}`);
  return { status: status ?? error.status, body: withoutHostPaths(error) };
}

/** Fastify's own refusals keep their precise status (413, 415, …). */
function statusOf(thrown: unknown): number | undefined {
  if (thrown instanceof SallyportError || !isFastifyError(thrown)) return undefined;
  const { statusCode } = thrown;
  return statusCode !== undefined && statusCode >= 400 && statusCode < 500 ? statusCode : undefined;
}

function knownError(thrown: unknown): SallyportError | undefined {
  if (thrown instanceof SallyportError) return thrown.code === 'internal' ? undefined : thrown;
  if (!isFastifyError(thrown)) return undefined;
  if (thrown.validation !== undefined) return new SallyportError('invalid_request', validationMessage(thrown));
  if (thrown.statusCode === 413) return new SallyportError('body_too_large', 'Cannot read the body: it is too large');
  if (statusOf(thrown) === undefined) return undefined;
  return new SallyportError('invalid_request', `Cannot read the request: ${thrown.message}`);
}

function validationMessage({ validation = [], validationContext = 'body' }: FastifyError): string {
  const [first] = validation;
  if (first === undefined) return `Invalid ${validationContext}`;
  const place = first.instancePath.replaceAll('/', '.').replace(/\.$/, '');
  return `Invalid ${validationContext}${place}: ${first.message ?? 'not as the schema says'}`;
}

function isFastifyError(thrown: unknown): thrown is FastifyError {
  return thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'string' && 'statusCode' in thrown;
}

const hostPath = /(?<![\w.:/])\/(?:[\w.@+-]+\/)+[\w.@+-]*/g;

/** Errors of the platform (5xx) speak of the host; those about the caller's input speak of paths in the sandbox. */
function withoutHostPaths(error: SallyportError): ErrorBody {
  const body = error.toJSON();
  if (error.status < 500) return body;
  return { ...body, message: body.message.replaceAll(hostPath, '<path>') };
}
