/**
 * Runs one host program to its end: a fixed environment, no shell, bounded output, a deadline. The program gets
 * SIGKILL when the deadline passes or the caller gives up; a failure carries the program's own last words.
 */
import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { SallyportError } from '../errors/error.ts';
import type { ErrorCode } from '../errors/table.ts';
import { errnoOf } from './errno.ts';

const stdoutBytes = 8 * 1024 * 1024;
const lastLines = 12;
const lineCharacters = 400;

export interface ProgramOptions {
  /** Of the error when the program fails. */
  readonly code: ErrorCode;
  readonly deadlineMs: number;
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
  /** An open fd that the program finds as its fd 3. */
  readonly fd3?: number;
  readonly signal?: AbortSignal;
  /** Called with each line of stderr. */
  readonly onLine?: (line: string) => void;
}

/**
 * @param what what fails when it fails: "Cannot build image base"
 * @returns its standard output
 * @throws SallyportError with `options.code`, or `deadline`
 */
export async function runProgram(what: string, command: readonly string[], options: ProgramOptions): Promise<string> {
  const [program = '', ...args] = command;
  const child = spawn(program, args, {
    stdio: ['pipe', 'pipe', 'pipe', ...(options.fd3 === undefined ? [] : [options.fd3])],
    env: { PATH: process.env['PATH'] ?? '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C.UTF-8', ...options.env },
    // three pipes, whatever follows them
  }) as ChildProcessWithoutNullStreams;
  const stop = (): void => void child.kill('SIGKILL');
  const timer = setTimeout(stop, options.deadlineMs);
  options.signal?.addEventListener('abort', stop, { once: true });
  if (options.signal?.aborted) stop();
  try {
    const began = Date.now();
    // a program that ends before it has read its input breaks the pipe; its exit status says why
    child.stdin.on('error', () => undefined).end(options.stdin ?? '');
    const [stdout, tail, status] = await Promise.all([
      readBounded(child.stdout),
      readLines(child.stderr, options.onLine),
      exitOf(child),
    ]);
    if (status === '0') return stdout;
    if (Date.now() - began >= options.deadlineMs) {
      throw new SallyportError('deadline', `${what}: ${program} did not end in ${options.deadlineMs} ms`);
    }
    throw new SallyportError(options.code, [`${what}: ${program} ended with ${status}`, ...tail].join('\n'));
  } catch (thrown) {
    if (errnoOf(thrown) !== 'ENOENT') throw thrown;
    throw new SallyportError(options.code, `${what}: ${program} not found on PATH`, { cause: thrown });
  } finally {
    clearTimeout(timer);
    options.signal?.removeEventListener('abort', stop);
  }
}

function exitOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve(String(code ?? signal)));
  });
}

/** What is past the bound is read, so that the program does not block, and dropped. */
async function readBounded(stream: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    if (bytes < stdoutBytes) chunks.push(chunk);
    bytes += chunk.length;
  }
  return Buffer.concat(chunks).subarray(0, stdoutBytes).toString('utf8');
}

/** @returns the last lines */
async function readLines(stream: Readable, onLine: ((line: string) => void) | undefined): Promise<string[]> {
  const tail: string[] = [];
  for await (const line of createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY })) {
    onLine?.(line);
    if (line.trim() === '') continue;
    tail.push(line.slice(0, lineCharacters));
    if (tail.length > lastLines) tail.shift();
  }
  return tail;
}
