/**
 * Smart HTTP for git through the `git http-backend` of the host (CGI, RFC 3875). The repository is made anew for each
 * request in a mount namespace of its own, always with the same commit: nothing to keep, and nothing left behind.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import type { Exchange } from './routes.ts';

const script = fileURLToPath(new URL('./repository.sh', import.meta.url));
const deadlineMs = 30_000;
const longestHead = 16 * 1024;

export async function answerGit({ request, response, words, query }: Exchange): Promise<void> {
  const { method = 'GET', headers } = request;
  const child = spawn('sh', ['-c', 'exec setpriv --pdeathsig KILL unshare --mount sh -eu "$0"', script], {
    stdio: ['pipe', 'pipe', 'inherit'],
    timeout: deadlineMs,
    killSignal: 'SIGKILL',
    env: {
      PATH: process.env['PATH'],
      PATH_INFO: `/${words.join('/')}`,
      QUERY_STRING: query.toString(),
      REQUEST_METHOD: method,
      CONTENT_TYPE: headers['content-type'],
      CONTENT_LENGTH: headers['content-length'],
      HTTP_CONTENT_ENCODING: headers['content-encoding'],
      GIT_PROTOCOL: headers['git-protocol']?.toString(),
    },
  });
  // a backend that has read enough ends before its input does
  pipeline(request, child.stdin).catch(() => undefined);
  try {
    await answerFrom(child, response);
  } finally {
    child.kill('SIGKILL');
  }
}

async function answerFrom(
  { stdout }: ChildProcessByStdio<Writable, Readable, null>,
  response: Exchange['response'],
): Promise<void> {
  const { head, rest } = await headOf(stdout);
  const fields = head.split('\r\n').map((line) => line.split(': ', 2) as [string, string]);
  const status = fields.find(([name]) => name === 'Status')?.[1] ?? '200';
  for (const [name, text] of fields) if (name !== 'Status') response.setHeader(name, text);
  response.writeHead(Number.parseInt(status, 10));
  response.write(rest);
  await pipeline(stdout, response);
}

async function headOf(stdout: Readable): Promise<{ readonly head: string; readonly rest: Buffer }> {
  let buffered = Buffer.alloc(0);
  const chunks = stdout.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>;
  for await (const chunk of chunks) {
    buffered = Buffer.concat([buffered, chunk]);
    const end = buffered.indexOf('\r\n\r\n');
    if (end >= 0) return { head: buffered.toString('latin1', 0, end), rest: buffered.subarray(end + 4) };
    if (buffered.length > longestHead) break;
  }
  throw new Error('git http-backend gave no answer');
}
