/** The server on a real socket: what only shows with connections. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import { type FakeSandbox, FakeSandboxes, floodChunkBytes } from '../../test/support/fake-sandboxes.ts';
import { openStore, type Store } from '../store/store.ts';
import { type ListeningServer, listen } from './listen.ts';

let folder: string;
let store: Store;
let server: ListeningServer;
let sandbox: FakeSandbox;
let key: string;
const log = pino({ level: 'silent' });
const timeouts = { headersMs: 300, bodyMs: 300, uploadIdleMs: 300, pingMs: 100, drainMs: 300 };

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-listen-'));
  store = await openStore(join(folder, 'store.db'));
  key = store.apiKeys.create('test').key;
  const sandboxes = new FakeSandboxes();
  sandbox = await sandboxes.create({ request: { class: 'a' } });
  server = await listen({ sandboxes, store, log, timeouts }, { port: 0 });
});
afterEach(async () => {
  await sandbox.end('daemon-stop');
  await server.close(200);
  await store.close();
  rmSync(folder, { recursive: true });
});

const execUrl = '/v1/sandboxes/sb-0/exec';
const binary = 'application/vnd.sallyport.exec-stream';
const port = () => Number(new URL(server.url).port);

function open(options: RequestOptions & { readonly body?: object }) {
  const { body, headers, ...rest } = options;
  const request = httpRequest(server.url, {
    ...rest,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(headers as Record<string, string>),
    },
  });
  request.on('error', () => undefined);
  return body === undefined ? request : request.end(JSON.stringify(body));
}

async function answerOf(request: ReturnType<typeof httpRequest>): Promise<IncomingMessage> {
  const [answer] = await once(request, 'response');
  return answer;
}

const streamExec = (argv: string[], query = '') =>
  open({ method: 'POST', path: `${execUrl}${query}`, headers: { accept: binary }, body: { argv } });

describe('starting', () => {
  it('is refused while there is no API key, and says how to make one', async () => {
    const empty = await openStore(join(folder, 'empty.db'));
    try {
      const deps = { sandboxes: new FakeSandboxes(), store: empty, log };
      await expect(listen(deps, { port: 0 })).rejects.toThrow(/sallyport key create/);
    } finally {
      await empty.close();
    }
  });
  it('is refused on a port that is taken', async () => {
    const deps = { sandboxes: new FakeSandboxes(), store, log };
    await expect(listen(deps, { port: port() })).rejects.toMatchObject({ code: 'daemon_running' });
  });
  it('listens on loopback only', () => {
    expect(new URL(server.url).hostname).toBe('127.0.0.1');
  });
});

describe('a streamed exec', () => {
  it('carries every byte', async () => {
    const bytes = 40 * 1024 * 1024 + 5;
    const answer = await answerOf(streamExec(['flood', String(bytes)]));
    let total = 0;
    for await (const chunk of answer) total += chunk.length;
    const frames = Math.ceil(bytes / floodChunkBytes);
    expect(total).toBeGreaterThan(bytes + frames * 8);
    expect(total).toBeLessThan(bytes + frames * 8 + 1000);
  });
  it('holds the command back while the client does not read', async () => {
    const answer = await answerOf(streamExec(['flood', String(1e9)]));
    answer.pause();
    await settledBytes();
    // what the two socket buffers of the kernel take, and no more
    expect(sandbox.execsMade[0]?.takenBytes).toBeLessThan(32 * 1024 * 1024);
    answer.destroy();
  });
  it('ends with its client', async () => {
    const answer = await answerOf(streamExec(['sleep']));
    answer.destroy();
    await sandbox.execsMade[0]?.killed;
  });
  it('goes on without its client when it was detached', async () => {
    const answer = await answerOf(streamExec(['flood', '100000000'], '?detach=true'));
    answer.destroy();
    const result = await sandbox.execsMade[0]?.result;
    expect(result).toMatchObject({ exitCode: 0, stdoutBytes: 100_000_000 });
  });
  it('in JSON form ends with its client too', async () => {
    const request = open({ method: 'POST', path: execUrl, body: { argv: ['sleep'] } });
    await vi.waitFor(() => expect(sandbox.execsMade).toHaveLength(1));
    request.destroy();
    await sandbox.execsMade[0]?.killed;
  });
  it('that ended is cut off when its client takes nothing more', async () => {
    const answer = await answerOf(streamExec(['flood', String(64 * 1024 * 1024)]));
    answer.pause();
    await settledBytes();
    sandbox.execsMade[0]?.kill();
    // a paused socket notices only when it writes
    await vi.waitFor(
      () => {
        answer.socket.write('x');
        expect(answer.socket.destroyed).toBe(true);
      },
      { timeout: 3_000 },
    );
  });

  /** Waits until the command gives no more bytes. */
  async function settledBytes(): Promise<void> {
    let last = -1;
    await vi.waitFor(
      () => {
        const now = sandbox.execsMade[0]?.takenBytes ?? 0;
        const isSettled = now > 0 && now === last;
        last = now;
        expect(isSettled).toBe(true);
      },
      { interval: 100, timeout: 5_000 },
    );
  }
});

describe('standard input', () => {
  it('is answered when the command ends before the body does', async () => {
    const exec = answerOf(open({ method: 'POST', path: execUrl, body: { argv: ['cat'], openStdin: true } }));
    await vi.waitFor(() => expect(sandbox.execsMade).toHaveLength(1));
    const stdin = open({ method: 'POST', path: `${execUrl}/ex-0/stdin` });
    stdin.write('some');
    await vi.waitFor(() => expect(sandbox.execsMade[0]?.takenBytes).toBe(4));
    sandbox.execsMade[0]?.kill();
    const answer = await answerOf(stdin);
    expect(await text(answer)).toBe('{"bytes":4,"ended":true}');
    await exec;
  });
});

describe('a slow peer (HX-06)', () => {
  it.each([
    ['that never ends its headers', 'GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: '],
    ['that sends nothing at all', ''],
  ])('%s is cut off', async (_name, bytes) => {
    const socket = connect(port(), '127.0.0.1');
    if (bytes !== '') socket.write(bytes);
    await closed(socket);
  });
  it('that never ends its body is cut off', async () => {
    const head = `POST /v1/sandboxes HTTP/1.1\r\nHost: localhost:${port()}\r\nAuthorization: Bearer ${key}\r\n`;
    const socket = connect(port(), '127.0.0.1');
    socket.write(`${head}Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{`);
    await closed(socket);
  });
  it('that stops in the middle of a file leaves no file', async () => {
    const upload = open({ method: 'PUT', path: '/v1/sandboxes/sb-0/files/content?path=/a' });
    upload.write('half');
    const answer = await answerOf(upload);
    expect([answer.statusCode, sandbox.files.contents.size]).toEqual([504, 0]);
    upload.destroy();
  });
  it('that sends more than 16 KiB of headers is refused', async () => {
    const answer = await answerOf(open({ path: '/healthz', headers: { 'x-long': 'x'.repeat(20_000) } }).end());
    expect(answer.statusCode).toBe(431);
  });

  async function closed(socket: Socket): Promise<void> {
    socket.on('error', () => undefined);
    socket.resume();
    await once(socket, 'close');
  }
});

describe('a watch', () => {
  it('streams changes until the client goes', async () => {
    const answer = await answerOf(open({ path: '/v1/sandboxes/sb-0/files/watch?path=/work' }).end());
    await vi.waitFor(() => expect(sandbox.files.watcher).toBeDefined());
    sandbox.files.watcher?.({ kind: 'created', path: Buffer.from('a') });
    const [line] = await once(answer, 'data');
    expect(JSON.parse(line)).toEqual({ kind: 'created', path: 'a', path_b64: 'YQ==' });
    answer.destroy();
    await vi.waitFor(() => expect(sandbox.files.watcher).toBeUndefined());
  });
});

describe('a terminal', () => {
  const ptyUrl = (query = '') => `${server.url.replace('http', 'ws')}/v1/sandboxes/sb-0/pty${query}`;
  const withKey = () => ({ headers: { authorization: `Bearer ${key}` } });

  it('carries bytes both ways, sizes, and the end', async () => {
    const socket = new WebSocket(ptyUrl('?argv=["cat"]&rows=5&cols=7'), withKey());
    const frames: string[] = [];
    socket.on('message', (data, isBinary) => frames.push(`${isBinary ? 'bytes' : 'text'} ${data}`));
    await once(socket, 'open');
    socket.send(Buffer.from('hello'));
    socket.send('{"type":"resize","rows":50,"columns":70}');
    await vi.waitFor(() => expect(frames).toContain('bytes hello'));
    const exec = sandbox.execsMade[0];
    expect(exec?.spec).toMatchObject({ argv: ['cat'], pty: { rows: 5, columns: 7 }, stdin: true });
    await vi.waitFor(() => expect(exec?.sizes).toEqual(['50x70']));
    exec?.endStdin();
    const [code] = await once(socket, 'close');
    expect(code).toBe(1000);
    expect(frames[0]).toBe('text {"type":"start","execId":"ex-0"}');
    expect(frames.at(-1)).toMatch(/^text \{"type":"exit","result":\{.*"exitCode":0/);
  });
  it('takes the key as a subprotocol, and agrees on another one', async () => {
    const socket = new WebSocket(ptyUrl(), ['sallyport.pty', `sallyport.key.${key}`]);
    await once(socket, 'open');
    expect(socket.protocol).toBe('sallyport.pty');
    socket.terminate();
  });
  it.each([
    ['no key', () => new WebSocket(ptyUrl()), 401],
    ['a wrong key', () => new WebSocket(ptyUrl(), ['sallyport.key.sp_x']), 401],
    ['a foreign Origin', () => new WebSocket(ptyUrl(), { ...withKey(), origin: 'http://evil.example' }), 403],
    ['a foreign Host', () => new WebSocket(ptyUrl(), { headers: { ...withKey().headers, host: 'evil.example' } }), 421],
    ['a bad size', () => new WebSocket(ptyUrl('?rows=-1'), withKey()), 400],
  ])('is refused with %s (HX-07)', async (_name, connectIt, status) => {
    const socket = connectIt();
    socket.on('error', () => undefined);
    const [, answer] = await once(socket, 'unexpected-response');
    expect(answer.statusCode).toBe(status);
    expect(sandbox.execsMade).toHaveLength(0);
    socket.terminate();
  });
  it('tells an error in words and closes', async () => {
    const socket = new WebSocket(ptyUrl('?argv=["missing"]'), withKey());
    const [data] = await once(socket, 'message');
    expect(JSON.parse(String(data))).toMatchObject({ type: 'error', error: { code: 'exec_failed' } });
    await once(socket, 'close');
  });
  it('ends with its client', async () => {
    const socket = new WebSocket(ptyUrl('?argv=["cat"]'), withKey());
    await once(socket, 'open');
    await vi.waitFor(() => expect(sandbox.execsMade).toHaveLength(1));
    socket.terminate();
    await sandbox.execsMade[0]?.killed;
  });
  it('is cut off when its client is half open (HX-06)', async () => {
    const socket = new WebSocket(ptyUrl('?argv=["cat"]'), { ...withKey(), autoPong: false });
    await once(socket, 'close');
    await sandbox.execsMade[0]?.killed;
  });
  it('holds the command back while the client does not read', async () => {
    const socket = new WebSocket(ptyUrl(`?argv=["flood","${1e9}"]`), withKey());
    await once(socket, 'open');
    socket.pause();
    let last = -1;
    await vi.waitFor(
      () => {
        const now = sandbox.execsMade[0]?.takenBytes ?? 0;
        const isSettled = now > 0 && now === last;
        last = now;
        expect(isSettled).toBe(true);
      },
      { interval: 50, timeout: 5_000 },
    );
    expect(last).toBeLessThan(32 * 1024 * 1024);
    socket.terminate();
  });
});

describe('stopping', () => {
  it('lets a running answer end, and refuses new requests', async () => {
    const answer = await answerOf(streamExec(['cat']));
    const stopped = server.close(2_000);
    await sandbox.end('daemon-stop');
    expect(await text(answer)).toContain('"type":"result"');
    await stopped;
    await expect(answerOf(open({ path: '/healthz' }).end())).rejects.toThrow();
  });
  it('cuts off what does not end in time', async () => {
    const answer = await answerOf(streamExec(['sleep']));
    answer.on('error', () => undefined);
    await server.close(50);
    await sandbox.execsMade[0]?.killed;
  });
});

async function text(answer: IncomingMessage): Promise<string> {
  let all = '';
  for await (const chunk of answer) all += chunk;
  return all;
}
