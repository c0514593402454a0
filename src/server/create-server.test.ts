/** The routes: what each refuses, and what each does, on a server without a socket. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { FakeSandboxes } from '../../test/support/fake-sandboxes.ts';
import { openStore, type Store } from '../store/store.ts';
import { createServer } from './create-server.ts';
import type { App } from './deps.ts';

let folder: string;
let store: Store;
let sandboxes: FakeSandboxes;
let app: App;
let key: string;
const routes: { readonly method: string; readonly url: string }[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-server-'));
  store = await openStore(join(folder, 'store.db'));
  key = store.apiKeys.create('test').key;
  sandboxes = new FakeSandboxes();
  routes.length = 0;
  app = createServer({ sandboxes, store, log: pino({ level: 'silent' }), allowedHosts: ['sally.example'] });
  app.addHook('onRoute', ({ method, url }) => {
    routes.push(...[method].flat().map((each) => ({ method: each, url })));
  });
  await app.ready();
});
afterEach(async () => {
  await app.close();
  await store.close();
  rmSync(folder, { recursive: true });
});

const publicUrls = ['/healthz', '/openapi.json'];
type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

async function call(method: Method, url: string, body?: unknown, headers: Record<string, string> = {}) {
  const answer = await app.inject({
    method,
    url,
    headers: { authorization: `Bearer ${key}`, ...headers },
    ...(body === undefined ? {} : { payload: body as object }),
  });
  return {
    status: answer.statusCode,
    headers: answer.headers,
    text: answer.body,
    raw: answer.rawPayload,
    json: () => answer.json(),
  };
}

/** Each route with ids filled in, and a header or two; gives `METHOD url → status` of every one. */
async function askAll(headers: Record<string, string>): Promise<Map<string, number>> {
  const statuses = new Map<string, number>();
  for (const { method, url } of routes) {
    const target = url.replace(':execId', 'ex-0').replace(':id', 'sb-0');
    const answer = await app.inject({ method: method as Method, url: target, headers });
    statuses.set(`${method} ${url}`, answer.statusCode);
  }
  return statuses;
}

const others = (statuses: ReadonlyMap<string, number>) =>
  [...statuses].filter(([route]) => !publicUrls.some((url) => route.endsWith(url)));

describe('every route of the table', () => {
  it('is one of those we know, so that the next tests miss none', () => {
    expect(routes.length).toBe(33);
  });
  it('refuses a request without a key, except the public ones', async () => {
    const statuses = await askAll({});
    for (const [route, status] of others(statuses)) expect([route, status]).toEqual([route, 401]);
    for (const url of publicUrls) expect(statuses.get(`GET ${url}`)).toBe(200);
  });
  it.each([
    ['a wrong key', { authorization: 'Bearer sp_wrong' }],
    ['a key in the wrong scheme', { authorization: 'Basic c3A6' }],
    ['an empty key', { 'x-api-key': '' }],
  ])('refuses %s', async (_name, headers) => {
    for (const [route, status] of others(await askAll(headers))) expect([route, status]).toEqual([route, 401]);
  });
  it('refuses a foreign Host, even with a key (HX-08)', async () => {
    for (const host of ['evil.example', 'localhost:81', 'sally.example:80', '127.0.0.1.evil.example']) {
      const statuses = await askAll({ authorization: `Bearer ${key}`, host });
      for (const [route, status] of statuses) expect([route, status]).toEqual([route, 421]);
    }
  });
  it.each(['https://evil.example', 'null', 'http://localhost:3000', 'file://'])(
    'refuses the Origin %s, even with a key (HX-07)',
    async (origin) => {
      const statuses = await askAll({ authorization: `Bearer ${key}`, origin });
      for (const [route, status] of statuses) expect([route, status]).toEqual([route, 403]);
    },
  );
  it('refuses requests that a browser calls cross-site or same-site (HX-09)', async () => {
    for (const site of ['cross-site', 'same-site']) {
      const statuses = await askAll({ authorization: `Bearer ${key}`, 'sec-fetch-site': site });
      for (const [route, status] of statuses) expect([route, status]).toEqual([route, 403]);
    }
  });
  it('refuses ids that are not ids (HX-03)', async () => {
    const withId = routes.filter(({ url }) => url.includes(':id'));
    expect(withId.length).toBeGreaterThan(15);
    for (const { method, url } of withId) {
      for (const id of ['..%2f..%2fetc', 'SB-0', 'sb%00', '%C3%BC', 'x'.repeat(10_000), '-x']) {
        const answer = await app.inject({
          method: method as Method,
          url: url.replace(':execId', 'ex-0').replace(':id', id),
          headers: { authorization: `Bearer ${key}` },
        });
        expect([method, url, id, answer.statusCode]).toEqual([method, url, id, 400]);
      }
    }
  });
  it('says nosniff', async () => {
    expect((await call('GET', '/v1/sandboxes')).headers['x-content-type-options']).toBe('nosniff');
    expect((await call('GET', '/nowhere')).headers['x-content-type-options']).toBe('nosniff');
  });
});

describe('who may speak', () => {
  it('takes the key in X-API-Key too', async () => {
    expect((await app.inject({ url: '/v1/sandboxes', headers: { 'x-api-key': key } })).statusCode).toBe(200);
  });
  it('answers to configured hosts and their pages', async () => {
    const headers = { host: 'Sally.Example', origin: 'https://sally.example', 'sec-fetch-site': 'same-origin' };
    expect((await call('GET', '/v1/sandboxes', undefined, headers)).status).toBe(200);
  });
  it('refuses a key from the moment it is revoked', async () => {
    expect((await call('GET', '/v1/sandboxes')).status).toBe(200);
    for (const { id } of store.apiKeys.list()) store.apiKeys.revoke(id);
    expect((await call('GET', '/v1/sandboxes')).status).toBe(401);
  });
});

describe('bodies', () => {
  it('must be JSON on JSON routes (HX-09)', async () => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x']) {
      const answer = await call('POST', '/v1/sandboxes', '{"class":"a"}', { 'content-type': type });
      expect([answer.status, answer.json().code]).toEqual([415, 'invalid_request']);
    }
  });
  it('are refused past the limit, before the handler (HX-04)', async () => {
    const answer = await call('POST', '/v1/sandboxes', { class: 'x'.repeat(2_000_000) });
    expect([answer.status, answer.json().code]).toEqual([413, 'body_too_large']);
    expect(sandboxes.made).toHaveLength(0);
  });
  it('are refused with unknown keys, and the message names the field', async () => {
    const top = await call('POST', '/v1/sandboxes', { class: 'a', privileged: true });
    expect([top.status, top.json().message]).toEqual([400, expect.stringContaining('privileged')]);
    const deep = await call('POST', '/v1/sandboxes', { class: 'a', limits: { pids: 'many' } });
    expect([deep.status, deep.json().message]).toEqual([400, expect.stringContaining('body.limits.pids')]);
  });
  it('are refused when they are not JSON, or poison a prototype', async () => {
    for (const text of ['{', '{"__proto__":{"class":"x"},"class":"a"}']) {
      const answer = await call('POST', '/v1/sandboxes', text, { 'content-type': 'application/json' });
      expect([answer.status, answer.json().code]).toEqual([400, 'invalid_request']);
    }
  });
  it('are never decompressed (RX-22)', async () => {
    const answer = await call('POST', '/v1/sandboxes', { class: 'a' }, { 'content-encoding': 'gzip' });
    expect([answer.status, answer.json().code]).toEqual([400, 'invalid_request']);
  });
});

describe('errors', () => {
  it('name the code, the sentence, whether to retry and the next step', async () => {
    const answer = await call('GET', '/v1/sandboxes/sb-9');
    expect(answer.status).toBe(404);
    expect(answer.json()).toEqual({
      code: 'sandbox_not_found',
      message: 'Cannot find sandbox sb-9',
      retry: false,
      next: expect.stringContaining('sallyport ls'),
    });
  });
  it('of the platform hide paths of the host (HX-23)', async () => {
    const answer = await call('POST', '/v1/sandboxes', { class: 'broken' });
    expect([answer.status, answer.json().code]).toEqual([500, 'start_failed']);
    expect(answer.text).not.toContain('/var/lib');
  });
  it('that are bugs say nothing but the request they happened in', async () => {
    const answer = await call('POST', '/v1/sandboxes', { class: 'bug' });
    expect(answer.json()).toMatchObject({
      code: 'internal',
      message: expect.stringMatching(/^Internal error in request \S+$/),
    });
    expect(answer.text).not.toMatch(/secret|stack|TypeError/);
  });
  it('cover routes and methods that are not there, and URLs that are broken', async () => {
    expect((await call('GET', '/v1/nothing')).json().code).toBe('route_not_found');
    expect((await call('PUT', '/v1/sandboxes')).json().code).toBe('route_not_found');
    const broken = await call('GET', '/v1/sandboxes/%zz');
    expect([broken.status, broken.json().code]).toEqual([400, 'invalid_request']);
  });
});

describe('sandboxes', () => {
  it('are created, listed, shown, measured and ended', async () => {
    const created = await call('POST', '/v1/sandboxes', { class: 'analysis', metadata: { task: 'x' } });
    expect([created.status, created.headers.location]).toEqual([201, '/v1/sandboxes/sb-0']);
    expect(created.json()).toMatchObject({ id: 'sb-0', class: 'analysis', metadata: { task: 'x' } });
    expect((await call('GET', '/v1/sandboxes')).json().sandboxes).toHaveLength(1);
    expect((await call('GET', '/v1/sandboxes/sb-0/stats')).json().memoryBytes).toBe(1);
    expect((await call('GET', '/v1/sandboxes/sb-0/log')).json()).toEqual({
      chunks: [{ channel: 'stdout', base64: Buffer.from('hello\n').toString('base64') }],
      omittedBytes: 7,
    });
    expect((await call('DELETE', '/v1/sandboxes/sb-0')).json()).toMatchObject({ state: 'ended', endReason: 'killed' });
    expect((await call('GET', '/v1/sandboxes')).json().sandboxes).toHaveLength(0);
    expect((await call('GET', '/v1/sandboxes?ended=true')).json().sandboxes).toHaveLength(1);
  });
  it('that ended are shown but take no more work', async () => {
    await call('POST', '/v1/sandboxes', { class: 'a' });
    await call('DELETE', '/v1/sandboxes/sb-0');
    expect((await call('GET', '/v1/sandboxes/sb-0')).json().state).toBe('ended');
    const answer = await call('POST', '/v1/sandboxes/sb-0/exec', { argv: ['echo'] });
    expect([answer.status, answer.json().code]).toEqual([409, 'sandbox_ended']);
  });
  it('of earlier daemons are known from the store', async () => {
    const info = (await sandboxes.create({ request: { class: 'old' } })).info();
    store.sandboxes.insert({ ...info, id: 'sb-old' });
    store.sandboxes.markEnded({ id: 'sb-old', endedAt: info.createdAt, endReason: 'wall' });
    expect((await call('GET', '/v1/sandboxes/sb-old')).json()).toMatchObject({ id: 'sb-old', endReason: 'wall' });
  });
});

describe('exec', () => {
  beforeEach(async () => {
    await call('POST', '/v1/sandboxes', { class: 'a' });
  });
  const exec = (body: object, headers: Record<string, string> = {}, query = '') =>
    call('POST', `/v1/sandboxes/sb-0/exec${query}`, body, headers);

  it('answers JSON with the output and the result', async () => {
    const answer = await exec({ argv: ['echo', 'ü', 'x'] });
    expect(answer.status).toBe(200);
    expect(answer.json()).toMatchObject({
      execId: 'ex-0',
      stdout: { text: 'ü x\n', bytes: 5, truncated: false },
      stderr: { text: '', bytes: 0 },
      result: { exitCode: 0 },
    });
  });
  it('passes the exit code and stderr', async () => {
    expect((await exec({ argv: ['exit', '7'] })).json()).toMatchObject({
      result: { exitCode: 7 },
      stderr: { text: 'leaving\n' },
    });
  });
  it('gives what is not UTF-8 as base64, and takes it so', async () => {
    const base64 = Buffer.from([0xff, 0]).toString('base64');
    expect((await exec({ argv: ['cat'], stdin: { base64 } })).json().stdout).toEqual({
      base64,
      bytes: 2,
      truncated: false,
    });
  });
  it('passes every field on', async () => {
    await exec({
      cmd: 'true',
      cwd: 'x',
      env: { A: 'b' },
      user: 'root',
      timeoutMs: 5,
      graceMs: 1,
      killTreeOnExit: true,
      stdin: '',
    });
    expect(sandboxes.get('sb-0').execsMade[0]?.spec).toEqual({
      argv: ['/bin/bash', '-c', 'true'],
      cwd: 'x',
      env: { A: 'b' },
      user: 'root',
      timeoutMs: 5,
      graceMs: 1,
      killTreeOnExit: true,
      stdin: true,
    });
  });
  it.each([
    ['no command', {}],
    ['two commands', { argv: ['a'], cmd: 'b' }],
    ['an empty argv', { argv: [] }],
    ['a NUL', { argv: ['a\0b'] }],
    ['an unknown key', { argv: ['a'], tty: true }],
    ['a bad variable name', { argv: ['a'], env: { 'A=B': 'c' } }],
    ['text for a number', { argv: ['a'], timeoutMs: '5' }],
  ])('refuses %s', async (_name, body) => {
    expect((await exec(body)).status).toBe(400);
    expect(sandboxes.get('sb-0').execsMade).toHaveLength(0);
  });
  it.each([undefined, 'application/x-ndjson', 'application/vnd.sallyport.exec-stream'])(
    'is an HTTP error when the command cannot start (Accept %s)',
    async (accept) => {
      const answer = await exec({ argv: ['missing'] }, accept === undefined ? {} : { accept });
      expect([answer.status, answer.json().code]).toEqual([422, 'exec_failed']);
    },
  );
  it('streams JSON lines', async () => {
    const answer = await exec({ argv: ['exit', '3'] }, { accept: 'application/x-ndjson' });
    const lines = answer.text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines).toEqual([
      { type: 'start', execId: 'ex-0' },
      { type: 'output', channel: 'stderr', data: Buffer.from('leaving\n').toString('base64') },
      { type: 'result', result: expect.objectContaining({ exitCode: 3 }) },
    ]);
    expect(answer.headers['x-content-type-options']).toBe('nosniff');
  });
  it('streams binary frames', async () => {
    const answer = await exec({ argv: ['exit', '3'] }, { accept: 'application/vnd.sallyport.exec-stream' });
    const frames = [];
    for (let at = 0; at < answer.raw.length; ) {
      const length = answer.raw.readUInt32BE(at + 4);
      frames.push([answer.raw.readUInt32BE(at), answer.raw.subarray(at + 8, at + 8 + length).toString()]);
      at += 8 + length;
    }
    expect(frames).toEqual([
      [3 << 24, '{"type":"start","execId":"ex-0"}'],
      [2 << 24, 'leaving\n'],
      [3 << 24, expect.stringContaining('"exitCode":3')],
    ]);
  });
  it('in the background answers at once and lets nothing wait for a reader', async () => {
    const answer = await exec({ argv: ['flood', '3000000'], background: true });
    expect([answer.status, answer.json()]).toEqual([202, { execId: 'ex-0' }]);
    expect((await sandboxes.get('sb-0').execById('ex-0').result).stdoutBytes).toBe(3_000_000);
  });
  it('lists, signals and kills running commands', async () => {
    await exec({ argv: ['sleep'], background: true });
    expect((await call('GET', '/v1/sandboxes/sb-0/exec')).json().execs).toMatchObject([
      { id: 'ex-0', argv: ['sleep'] },
    ]);
    expect((await call('POST', '/v1/sandboxes/sb-0/exec/ex-0/signal', { signal: 'SIGINT' })).status).toBe(204);
    expect((await call('POST', '/v1/sandboxes/sb-0/exec/ex-0/signal', { signal: '9; rm' })).status).toBe(400);
    expect((await call('POST', '/v1/sandboxes/sb-0/exec/ex-0/kill')).status).toBe(204);
    const running = sandboxes.get('sb-0').execById('ex-0');
    expect(running.signals).toEqual(['SIGINT']);
    expect((await running.result).signal).toBe('SIGTERM');
    expect((await call('POST', '/v1/sandboxes/sb-0/exec/ex-5/kill')).json().code).toBe('exec_not_found');
  });
  it('takes standard input from a later request', async () => {
    const answer = exec({ argv: ['cat'], openStdin: true });
    const stdin = (payload: string, query = '') =>
      call('POST', `/v1/sandboxes/sb-0/exec/ex-0/stdin${query}`, payload, {
        'content-type': 'application/octet-stream',
      });
    await vi.waitFor(() => sandboxes.get('sb-0').execById('ex-0'));
    expect((await stdin('one ', '?keepOpen=true')).json()).toEqual({ bytes: 4, ended: false });
    expect((await stdin('two')).json()).toEqual({ bytes: 3, ended: false });
    expect((await answer).json().stdout.text).toBe('one two');
  });
});

describe('files', () => {
  const content = '/v1/sandboxes/sb-0/files/content';
  beforeEach(async () => {
    await call('POST', '/v1/sandboxes', { class: 'a' });
  });
  const put = (query: string, payload: string | Buffer) =>
    call('PUT', `${content}?${query}`, payload, { 'content-type': 'text/html' });

  it('come back as the bytes that were sent, whatever their type', async () => {
    const bytes = Buffer.from([0, 255, 10, 13]);
    expect((await put('path=/a', bytes)).status).toBe(204);
    const answer = await call('GET', `${content}?path=/a`);
    expect(answer.raw.equals(bytes)).toBe(true);
    expect(answer.headers).toMatchObject({
      'content-type': 'application/octet-stream',
      'content-disposition': `attachment; filename="a"; filename*=UTF-8''a`,
      'x-content-type-options': 'nosniff',
      'content-length': '4',
    });
  });
  it('may be empty, and may be large', async () => {
    await put('path=/empty', '');
    expect((await call('GET', `${content}?path=/empty`)).raw).toHaveLength(0);
    const large = Buffer.alloc(3_000_000, 'abc');
    await put('path=/large', large);
    expect((await call('GET', `${content}?path=/large`)).raw.equals(large)).toBe(true);
  });
  it('come in parts', async () => {
    await put('path=/a', '0123456789');
    const part = await call('GET', `${content}?path=/a`, undefined, { range: 'bytes=2-4' });
    expect([part.status, part.text, part.headers['content-range']]).toEqual([206, '234', 'bytes 2-4/10']);
    const past = await call('GET', `${content}?path=/a`, undefined, { range: 'bytes=10-' });
    expect([past.status, past.headers['content-range']]).toEqual([416, 'bytes */10']);
  });
  it('may have names that are not UTF-8 (FS-20)', async () => {
    const name = Buffer.concat([Buffer.from('/x/'), Buffer.from([0xff, 0x0a, 0x22])]);
    await put(`path_b64=${name.toString('base64url')}`, 'odd');
    expect((await call('GET', `${content}?path_b64=${name.toString('base64url')}`)).text).toBe('odd');
    const { entries } = (await call('GET', '/v1/sandboxes/sb-0/files?path=/x')).json();
    expect(entries).toMatchObject([{ path_b64: name.subarray(3).toString('base64'), path: '\ufffd\n"' }]);
  });
  it('changes are passed on as bytes', async () => {
    const change = (what: string, body: object) => call('POST', `/v1/sandboxes/sb-0/files/${what}`, body);
    await change('mkdir', { path: '/d', parents: true, mode: 0o700 });
    await change('rename', { path: '/d', to_b64: Buffer.from('/é').toString('base64') });
    await change('remove', { path: '/é' });
    await change('chmod', { path: '/x', mode: 0o4755 });
    await change('chown', { path: '/x', uid: 1, gid: 2 });
    expect(sandboxes.get('sb-0').files.changes).toEqual([
      { op: 'mkdir', path: Buffer.from('/d'), mode: 0o700, makeParents: true },
      { op: 'rename', path: Buffer.from('/d'), to: Buffer.from('/é') },
      { op: 'remove', path: Buffer.from('/é'), recursive: false },
      { op: 'chmod', path: Buffer.from('/x'), mode: 0o4755 },
      { op: 'chown', path: Buffer.from('/x'), uid: 1, gid: 2 },
    ]);
  });

  const reads = ['files', 'files/stat', 'files/content', 'files/watch'] as const;
  it.each([
    ['no path', ''],
    ['an empty path', 'path='],
    ['two paths', 'path=/a&path=/b'],
    ['both forms', 'path=/a&path_b64=L2E'],
    ['a NUL', 'path=/a%00b'],
    ['overlong UTF-8', 'path=%c0%ae%c0%ae/x'],
    ['a broken escape', 'path=%2'],
    ['a path of 4096 bytes', `path=/${'x'.repeat(4095)}`],
    ['an unknown key', 'path=/a&follow=1'],
  ])('gives the same 400 on every route to %s (FS-27)', async (_name, query) => {
    for (const route of reads) expect((await call('GET', `/v1/sandboxes/sb-0/${route}?${query}`)).status).toBe(400);
    expect((await put(query, 'x')).status).toBe(400);
  });
  it.each(['..%2f..%2fetc', '%252e%252e', 'a%5Cb', '/x/', '//x', 'x.'])(
    'decodes %s once, the same on every route, and leaves the resolving to the sandbox (FS-27)',
    async (path) => {
      const literal = decodeURIComponent(path);
      await put(`path=${path}`, 'mine');
      expect([...sandboxes.get('sb-0').files.contents.keys()]).toEqual([literal]);
      expect((await call('GET', `${content}?path=${path}`)).text).toBe('mine');
      expect((await call('GET', `/v1/sandboxes/sb-0/files/stat?path=${path}`)).json().path).toBe(literal);
    },
  );
  it('that are not there are file_not_found on every way to read', async () => {
    const codes = await Promise.all([
      call('GET', `${content}?path=/nope`),
      call('GET', `${content}?path=/nope`, undefined, { range: 'bytes=0-1' }),
      call('GET', '/v1/sandboxes/sb-0/files/stat?path=/nope'),
    ]);
    expect(codes.map((answer) => answer.json().code)).toEqual(Array(3).fill('file_not_found'));
  });
});

describe('the rest', () => {
  it('serves run records', async () => {
    const record = { version: 1, runId: 'run-1', sandboxId: 'sb-0', outcome: 'exited', timings: { createdAt: 'T' } };
    store.runs.insert(record as never);
    expect((await call('GET', '/v1/runs')).json().runs).toEqual([record]);
    expect((await call('GET', '/v1/runs/run-1')).json()).toEqual(record);
    expect((await call('GET', '/v1/runs/run-2')).json().code).toBe('run_not_found');
  });
  it('counts in Prometheus text', async () => {
    await call('POST', '/v1/sandboxes', { class: 'a' });
    await call('POST', '/v1/sandboxes', { class: 'a' });
    await call('POST', '/v1/sandboxes/sb-0/exec', { argv: ['echo', 'x'] });
    await call('DELETE', '/v1/sandboxes/sb-0');
    const { text } = await call('GET', '/v1/metrics');
    expect(text).toContain('sallyport_sandboxes{state="running"} 1\n');
    expect(text).toContain('sallyport_sandbox_ends_total{reason="killed"} 1\n');
    expect(text).toContain('sallyport_execs_total 1\n');
    expect(text).toContain('sallyport_output_bytes_total 2\n');
    expect(text).toMatch(/process_resident_memory_bytes \d{6,}/);
  });
  it('describes every route in OpenAPI', async () => {
    const { paths } = JSON.parse((await app.inject('/openapi.json')).body);
    const hidden = ['/openapi.json'];
    for (const { method, url } of routes.filter((route) => !hidden.includes(route.url))) {
      const path = url.replaceAll(/:(\w+)/g, '{$1}');
      expect([method, url, paths[path]?.[method.toLowerCase()]?.summary]).toEqual([method, url, expect.any(String)]);
    }
  });
  it('describes the exec body from the schema that checks it', async () => {
    const { paths } = JSON.parse((await app.inject('/openapi.json')).body);
    const body = paths['/v1/sandboxes/{id}/exec'].post.requestBody.content['application/json'].schema;
    expect(body.additionalProperties).toBe(false);
    expect(Object.keys(body.properties)).toContain('killTreeOnExit');
  });
});
