/** A daemon of its own for a measure: started, waited for, stopped by pid. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client } from 'undici';

const root = fileURLToPath(new URL('../../..', import.meta.url));
export const home = process.env['SALLYPORT_HOME'] ?? '/var/lib/sallyport';
const startDeadlineMs = 20_000;

export interface Daemon {
  readonly pid: number;
  readonly api: Api;
  readonly child: ChildProcess;
  stop(): Promise<void>;
}

export interface ExecAnswer {
  readonly stdout: { readonly text?: string };
  readonly result: { readonly exitCode: number | null };
}

export class Api {
  readonly #client: Client;
  readonly #key: string;

  constructor(origin: string, key: string) {
    this.#client = new Client(origin, { headersTimeout: 120_000, bodyTimeout: 120_000 });
    this.#key = key;
  }

  async call<T>(method: 'GET' | 'POST' | 'DELETE', path: string, body?: unknown): Promise<T> {
    const answer = await this.#client.request({
      method,
      path,
      headers: {
        authorization: `Bearer ${this.#key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.body.text();
    if (answer.statusCode >= 300) throw new Error(`${method} ${path}: ${answer.statusCode} ${text}`);
    return (text === '' ? undefined : JSON.parse(text)) as T;
  }

  async create(request: Readonly<Record<string, unknown>>): Promise<string> {
    return (await this.call<{ id: string }>('POST', '/v1/sandboxes', request)).id;
  }

  exec(id: string, argv: readonly string[]): Promise<ExecAnswer> {
    return this.call('POST', `/v1/sandboxes/${id}/exec`, { argv });
  }

  async destroy(id: string): Promise<void> {
    await this.call('DELETE', `/v1/sandboxes/${id}`);
  }

  /** The binary stream; `take` sees each chunk of the socket. */
  async stream(id: string, argv: readonly string[], take: (chunk: Buffer) => void | Promise<void>): Promise<void> {
    const answer = await this.#client.request({
      method: 'POST',
      path: `/v1/sandboxes/${id}/exec`,
      headers: {
        authorization: `Bearer ${this.#key}`,
        'content-type': 'application/json',
        accept: 'application/vnd.sallyport.exec-stream',
      },
      body: JSON.stringify({ argv }),
    });
    for await (const chunk of answer.body) await take(chunk as Buffer);
  }

  close(): Promise<void> {
    return this.#client.destroy();
  }
}

export async function startDaemon(options: readonly string[] = []): Promise<Daemon> {
  const port = await freePort();
  const child = spawn(process.execPath, [join(root, 'bin/sallyport.js'), 'up', '--port', String(port), ...options], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, SALLYPORT_HOME: home },
  });
  if (child.pid === undefined) throw new Error('the daemon did not start');
  const origin = `http://127.0.0.1:${port}`;
  await waitFor(origin, child);
  const api = new Api(origin, readFileSync(join(home, 'api-key'), 'utf8').trim());
  return { pid: child.pid, api, child, stop: () => stop(child, api) };
}

async function waitFor(origin: string, child: ChildProcess): Promise<void> {
  const until = Date.now() + startDeadlineMs;
  while (Date.now() < until) {
    if (child.exitCode !== null) throw new Error(`the daemon ended with ${child.exitCode}`);
    const answer = await fetch(`${origin}/healthz`).catch(() => undefined);
    if (answer?.ok) return;
    await sleep(50);
  }
  throw new Error('the daemon did not answer');
}

async function stop(child: ChildProcess, api: Api): Promise<void> {
  await api.close();
  if (child.exitCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await Promise.race([ended, sleep(20_000)]);
  if (child.exitCode === null) child.kill('SIGKILL');
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() =>
        address !== null && typeof address === 'object' ? resolve(address.port) : reject(new Error('no port')),
      );
    });
  });
}
