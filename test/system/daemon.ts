/**
 * A real daemon for a test file: `bin/sallyport.js up` on a free port, in a home of its own that borrows the images of
 * SALLYPORT_HOME, so that lock, database and key of another daemon are never touched. What the home still holds on
 * this host is asked of the host itself.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { home as builtHome } from './range.ts';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const program = join(root, 'bin/sallyport.js');
const startDeadlineMs = 20_000;
const stopDeadlineMs = 40_000;
const callDeadlineMs = 60_000;

/** A folder with the images of SALLYPORT_HOME and nothing else of it. */
export function makeHome(images: 'borrowed' | 'none' = 'borrowed'): string {
  const home = mkdtempSync(join(tmpdir(), 'sallyport-home-'));
  if (images === 'borrowed') borrowImages(home);
  return home;
}

export function borrowImages(home: string): void {
  for (const name of ['images', 'skeleton']) {
    mkdirSync(join(builtHome, name), { recursive: true });
    symlinkSync(join(builtHome, name), join(home, name));
  }
}

export function removeHome(home: string): void {
  rmSync(home, { recursive: true, force: true });
}

export interface Finished {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: Buffer;
  readonly stderr: string;
}

export interface CliOptions {
  readonly home: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly stdin?: string | Buffer;
  readonly deadlineMs?: number;
  /** Put before `node bin/sallyport.js`. */
  readonly wrapper?: readonly string[];
}

/** The command line in a process of its own. Arguments that are no UTF-8 go through `wrapper`. */
export async function cli(arguments_: readonly string[], options: CliOptions): Promise<Finished> {
  const [command = '', ...rest] = [...(options.wrapper ?? []), process.execPath, program, ...arguments_];
  return runProgram(command, rest, options);
}

/** Any program with the environment of the command line. */
export async function runProgram(
  command: string,
  arguments_: readonly string[],
  { home, env = {}, cwd = root, stdin = '', deadlineMs = callDeadlineMs }: CliOptions,
): Promise<Finished> {
  const child = spawn(command, arguments_, {
    cwd,
    stdio: 'pipe',
    env: { PATH: process.env['PATH'], SALLYPORT_HOME: home, ...env },
  });
  child.stdin.on('error', () => undefined).end(stdin);
  const timer = setTimeout(() => child.kill('SIGKILL'), deadlineMs);
  try {
    const closed = once(child, 'close');
    const [stdout, stderr] = await Promise.all([bytesOf(child.stdout), bytesOf(child.stderr)]);
    await closed;
    return { status: child.exitCode, signal: child.signalCode, stdout, stderr: stderr.toString() };
  } finally {
    clearTimeout(timer);
  }
}

export async function bytesOf(stream: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

export interface CallOptions {
  readonly headers?: OutgoingHttpHeaders;
  readonly json?: unknown;
  readonly body?: string | Buffer;
  readonly signal?: AbortSignal;
}

/** HTTP with nothing between the test and the wire. */
export class Api {
  readonly url: string;
  readonly key: string;

  constructor(url: string, key: string) {
    this.url = url;
    this.key = key;
  }

  /** Settles with the headers; the caller reads or destroys the body. */
  open(method: string, path: string, { headers = {}, json, body, signal }: CallOptions = {}): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const call = request(this.url + path, {
        method,
        ...(signal === undefined ? {} : { signal }),
        headers: {
          authorization: `Bearer ${this.key}`,
          ...(json === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
      });
      call.once('response', resolve).once('error', reject);
      call.end(json === undefined ? body : JSON.stringify(json));
    });
  }

  async call(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    const signal = options.signal ?? AbortSignal.timeout(callDeadlineMs);
    const answer = await this.open(method, path, { ...options, signal });
    return { status: answer.statusCode ?? 0, headers: answer.headers, body: await bytesOf(answer) };
  }

  /** The JSON of a success. */
  async json<Body>(method: string, path: string, json?: unknown): Promise<Body> {
    const { status, body } = await this.call(method, path, json === undefined ? {} : { json });
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${body}`);
    return JSON.parse(body.length === 0 ? 'null' : body.toString()) as Body;
  }

  async create(request_: Readonly<Record<string, unknown>> = {}): Promise<string> {
    const { id } = await this.json<{ readonly id: string }>('POST', '/v1/sandboxes', { class: 'coding', ...request_ });
    return id;
  }
}

export interface Daemon {
  readonly home: string;
  readonly pid: number;
  readonly api: Api;
  /** What it has written to its log so far. */
  log(): string;
  /** SIGTERM, or another signal; settles with the exit status when it is gone. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

/** Where a daemon runs that is not in the host's own network. */
export interface Elsewhere {
  /** Put before `node bin/sallyport.js`. */
  readonly wrapper: readonly string[];
  /** Makes a loopback port of there reachable from here. @returns the port here */
  readonly reach: (port: number) => Promise<number>;
}

export async function startDaemon(
  home: string,
  options: readonly string[] = [],
  elsewhere?: Elsewhere,
): Promise<Daemon> {
  const line = [process.execPath, program, 'up', '--port', '0', '--log-level', 'warn', ...options];
  const [command = '', ...rest] = [...(elsewhere?.wrapper ?? []), ...line];
  const child = spawn(command, rest, {
    cwd: root,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: process.env['PATH'], SALLYPORT_HOME: home },
  });
  let log = '';
  child.stderr.on('data', (chunk) => {
    log = (log + chunk).slice(-64 * 1024);
  });
  const url = await urlOf(child, home, () => log, elsewhere?.reach);
  const key = readFileSync(join(home, 'api-key'), 'utf8').trim();
  const { pid = 0 } = child;
  return { home, pid, api: new Api(url, key), log: () => log, stop: (signal = 'SIGTERM') => stop(child, signal) };
}

async function urlOf(
  child: ChildProcess,
  home: string,
  log: () => string,
  reach: Elsewhere['reach'] = async (port) => port,
): Promise<string> {
  const until = Date.now() + startDeadlineMs;
  while (Date.now() < until) {
    if (child.exitCode !== null) throw new Error(`the daemon ended with ${child.exitCode}: ${log()}`);
    const file = join(home, 'daemon-url');
    const written = existsSync(file) ? readFileSync(file, 'utf8').trim() : '';
    const url = written === '' ? '' : `http://127.0.0.1:${await reach(Number(new URL(written).port))}`;
    // the file of a killed predecessor may still be there
    if (
      url !== '' &&
      (await fetch(`${url}/healthz`)
        .then((answer) => answer.ok)
        .catch(() => false))
    )
      return url;
    await sleep(25);
  }
  child.kill('SIGKILL');
  throw new Error(`the daemon did not answer: ${log()}`);
}

async function stop(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
  const exited = once(child, 'exit');
  const timer = setTimeout(() => child.kill('SIGKILL'), stopDeadlineMs);
  child.kill(signal);
  await exited;
  clearTimeout(timer);
  return child.exitCode;
}

/** What sandboxes of this home hold on the host; other daemons' are not in it. */
export function footprint(home: string): string[] {
  const name = createHash('sha256').update(home).digest('hex').slice(0, 12);
  const parents = names('/sys/fs/cgroup').map((hierarchy) => `/sys/fs/cgroup/${hierarchy}/sallyport/${name}`);
  const cgroups = parents.flatMap((parent) => folders(parent).map((folder) => join(parent, folder)));
  const processes = names('/proc').filter(
    (pid) => /^\d+$/.test(pid) && readText(`/proc/${pid}/cgroup`).includes(`/sallyport/${name}`),
  );
  const mounts = readText('/proc/self/mountinfo').split('\n');
  return [
    ...names(join(home, 'run', 'boxes')).map((box) => `box folder ${box}`),
    ...cgroups.map((folder) => `cgroup ${folder}`),
    ...processes.map((pid) => `process ${pid} ${readText(`/proc/${pid}/comm`).trim()}`),
    ...mounts.filter((mount) => mount.includes(home)).map((mount) => `mount ${mount}`),
  ];
}

/** Waits for the kernel to finish what it does in the background. @returns what is still there */
export async function remains(home: string, deadlineMs = 5_000): Promise<string[]> {
  const until = Date.now() + deadlineMs;
  for (;;) {
    const found = footprint(home);
    if (found.length === 0 || Date.now() > until) return found;
    await sleep(50);
  }
}

/** Waits for a condition. @throws Error naming it when it does not come true in time */
export async function eventually(what: string, isTrue: () => boolean | Promise<boolean>, deadlineMs = 10_000) {
  const until = Date.now() + deadlineMs;
  while (Date.now() < until) {
    if (await isTrue()) return;
    await sleep(25);
  }
  throw new Error(`Waited ${deadlineMs} ms in vain: ${what}`);
}

function names(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function folders(parent: string): string[] {
  try {
    return readdirSync(parent, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
  } catch {
    return [];
  }
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
