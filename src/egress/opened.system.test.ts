/** TLS for real: passed through sealed, and opened where a rule needs to see. Upstreams on this host. Needs root. */
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttpsServer, type ServerOptions } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { WebSocketServer } from 'ws';
import { makeCertificates } from '../../test/support/certificates.ts';
import { allowing, openTrapped, rule, type Trapped } from '../../test/support/trapped.ts';
import type { NetworkGrant, NetworkRule } from '../admission/network.ts';
import { parseHostPattern } from '../network/host-pattern.ts';
import { type Authority, createAuthority } from './tls/authority.ts';

let folder: string;
let open: { close(): unknown }[] = [];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-tls-'));
  makeCertificates(folder);
});

afterAll(() => {
  rmSync(folder, { recursive: true });
});

afterEach(async () => {
  for (const thing of open.reverse()) await thing.close();
  open = [];
});

const certificate = (name: string, key = name): ServerOptions => ({
  cert: readFileSync(join(folder, `${name}.pem`)),
  key: readFileSync(join(folder, `${key}.key`)),
});

interface Upstream {
  readonly port: number;
  readonly seen: string[];
}

async function upstream(options: ServerOptions): Promise<Upstream> {
  const seen: string[] = [];
  const sockets = new Set<Socket>();
  const server = createHttpsServer(options, async (request, response) => {
    seen.push(`${request.method} ${request.url} ${request.headers.host}`);
    if (request.url === '/sse') return events(response);
    let bytes = 0;
    for await (const piece of request) bytes += (piece as Buffer).length;
    response.writeHead(200, { 'content-type': 'text/plain' }).end(`${request.method} ${bytes}\n`);
  });
  new WebSocketServer({ server }).on('connection', (socket) => socket.on('message', (data) => socket.send(data)));
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.on('tlsClientError', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  open.push({
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  });
  return { port: (server.address() as AddressInfo).port, seen };
}

async function events(response: {
  writeHead(status: number): unknown;
  write(text: string): unknown;
  end(): unknown;
}): Promise<void> {
  response.writeHead(200);
  for (let count = 1; count <= 3; count++) {
    response.write(`data: ${count}\n\n`);
    await sleep(150);
  }
  response.end();
}

async function authorityFor(...hosts: readonly string[]): Promise<Authority> {
  const patterns = hosts.map((host) => parseHostPattern(host)).filter((pattern) => pattern !== undefined);
  const now = new Date();
  const authority = await createAuthority({
    sandboxId: 'sb-test',
    hosts: patterns,
    now,
    notAfter: new Date(now.getTime() + 3_600_000),
  });
  writeFileSync(join(folder, 'sandbox.pem'), authority.certificatePem);
  return authority;
}

async function trapped(grant: NetworkGrant, authority?: Authority): Promise<Trapped> {
  const zone = { 'a.example': ['127.0.0.1'], 'b.example': ['127.0.0.1'] };
  const made = await openTrapped(grant, zone, {
    upstreamRoots: [readFileSync(join(folder, 'ca.pem'), 'utf8')],
    ...(authority === undefined ? {} : { authority }),
  });
  open.push({
    close: async () => {
      await made.close();
      expect(made.faults).toEqual([]);
    },
  });
  return made;
}

const at = (port: number, changes: Partial<NetworkRule> = {}): NetworkRule =>
  rule('web', { hosts: ['a.example'], ports: [{ from: port, to: port }], ...changes });

const curl = (...more: readonly string[]): string[] => ['curl', '-s', '--cacert', join(folder, 'both.pem'), ...more];

/** Both roots: what is opened is signed by the sandbox's own, what is sealed by the world's. */
function bothRoots(): void {
  const sandbox = join(folder, 'sandbox.pem');
  const texts = [readFileSync(join(folder, 'ca.pem'), 'utf8')];
  try {
    texts.push(readFileSync(sandbox, 'utf8'));
  } catch {
    // no authority in this test
  }
  writeFileSync(join(folder, 'both.pem'), texts.join('\n'));
}

describe('sealed TLS', () => {
  it('passes when its server name is the host, and nothing of it is seen', async () => {
    const { port, seen } = await upstream(certificate('a'));
    const { run, records } = await trapped(allowing(at(port)));
    bothRoots();
    const { stdout, stderr } = await run(curl(`https://a.example:${port}/secret?q=1`));
    expect([stdout, stderr]).toEqual(['GET 0\n', '']);
    expect(seen).toEqual([`GET /secret?q=1 a.example:${port}`]);
    await expect.poll(() => records('connection')).toMatchObject([{ verdict: 'allow', rule: 'web', protocol: 'tls' }]);
    expect(records('request')).toEqual([]);
  });

  it.each([
    ['another', 'b.example', 'server_name_mismatch'],
    ['none', null, 'server_name_missing'],
  ])('NX-17, NX-18: is reset when its server name is %s', async (_name, name, code) => {
    const { port, seen } = await upstream(certificate('a'));
    const { python, records } = await trapped(allowing(at(port)));
    const program = `
import socket, ssl
context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
s = socket.create_connection(("a.example", ${port}), 5)
try: context.wrap_socket(s, server_hostname=${name === null ? 'None' : JSON.stringify(name)}); print("in")
except (ConnectionResetError, ssl.SSLError, BrokenPipeError): print("reset")`;
    expect(await python(program)).toBe('reset\n');
    expect(seen).toEqual([]);
    await expect.poll(() => records('connection')).toMatchObject([{ verdict: 'deny', code }]);
  });

  it('is reset where only HTTP in the clear is allowed, and the other way round', async () => {
    const { port } = await upstream(certificate('a'));
    const { run, records } = await trapped(allowing(at(port, { protocol: 'http' })));
    bothRoots();
    expect((await run(curl(`https://a.example:${port}/`))).status).not.toBe(0);
    await expect.poll(() => records('connection')).toMatchObject([{ code: 'wrong_protocol' }]);
    const other = await trapped(allowing(at(port)));
    const { stdout } = await other.run(curl('-w', '%{http_code}', `http://a.example:${port}/`));
    expect(stdout).toMatch(/"code":"wrong_protocol".*403$/s);
  });
});

describe('opened TLS', () => {
  it('lets pass what method and path allow, answers the rest in words, and records both', async () => {
    const { port, seen } = await upstream(certificate('a'));
    const { run, records } = await trapped(
      allowing(at(port, { methods: ['GET'], paths: ['/open/**'] })),
      await authorityFor('a.example'),
    );
    bothRoots();
    const url = `https://a.example:${port}`;
    expect((await run(curl(`${url}/open/x?q=1`))).stdout).toBe('GET 0\n');
    expect((await run(curl('--data', 'x', `${url}/open/x`))).stdout).toContain('"code":"method_not_allowed"');
    expect((await run(curl(`${url}/closed`))).stdout).toContain('"code":"path_not_allowed"');
    expect((await run(curl('--path-as-is', `${url}/open/../closed`))).stdout).toContain('"code":"ambiguous_request"');
    expect(seen).toEqual([`GET /open/x?q=1 a.example:${port}`]);
    expect(records('request').map(({ method, path, code, status }) => [method, path, code, status])).toEqual([
      ['GET', '/open/x', null, 200],
      ['POST', '/open/x', 'method_not_allowed', null],
      ['GET', '/closed', 'path_not_allowed', null],
      ['GET', '/open/../closed', 'ambiguous_request', null],
    ]);
  });

  it('speaks HTTP/2 to those who do', async () => {
    const { port, seen } = await upstream(certificate('a'));
    const { run } = await trapped(allowing(at(port, { methods: ['GET', 'POST'] })), await authorityFor('a.example'));
    bothRoots();
    const { stdout } = await run(
      curl('--http2', '-w', '%{http_version}', '--data', 'x'.repeat(100_000), `https://a.example:${port}/`),
    );
    expect(stdout).toBe('POST 100000\n2');
    expect(seen).toEqual([`POST / a.example:${port}`]);
  });

  it('hides its key and is of this sandbox alone: another sandbox does not trust it', async () => {
    const { port } = await upstream(certificate('a'));
    const { run } = await trapped(allowing(at(port, { methods: ['GET'] })), await authorityFor('a.example'));
    await authorityFor('a.example');
    bothRoots();
    expect((await run(curl(`https://a.example:${port}/`))).status).toBe(60);
  });

  it.each([
    ['expired', 'expired', 'a'],
    ['for another name', 'b', 'b'],
    ['self-signed', 'self', 'self'],
  ])('NX-44: answers 502 and asks nothing when the certificate upstream is %s', async (_name, cert, key) => {
    const { port, seen } = await upstream(certificate(cert, key));
    const { run, records } = await trapped(allowing(at(port, { methods: ['GET'] })), await authorityFor('a.example'));
    bothRoots();
    const { stdout } = await run(curl('-w', '%{http_code}', `https://a.example:${port}/`));
    expect(stdout).toMatch(/"code":"upstream_failed".*502$/s);
    expect(seen).toEqual([]);
    expect(records('request')).toMatchObject([
      { status: null, fault: expect.stringMatching(/expired|wrong_name|untrusted/) },
    ]);
  });

  it('streams events as they come', async () => {
    const { port } = await upstream(certificate('a'));
    const { python } = await trapped(allowing(at(port, { methods: ['GET'] })), await authorityFor('a.example'));
    bothRoots();
    const program = `
import ssl, time, urllib.request
context = ssl.create_default_context(cafile="${join(folder, 'both.pem')}")
times = [time.time() for line in urllib.request.urlopen("https://a.example:${port}/sse", context=context, timeout=10) if line.startswith(b"data")]
print([b - a > 0.1 for a, b in zip(times, times[1:])])`;
    expect(await python(program)).toBe('[True, True]\n');
  });

  it('NX-35: becomes a WebSocket where a rule allows it, and nowhere else', async () => {
    const { port } = await upstream(certificate('a'));
    for (const websocket of [true, false]) {
      const { run, records } = await trapped(
        allowing(at(port, { websocket, inspect: 'always' })),
        await authorityFor('a.example'),
      );
      bothRoots();
      const program = `
const { WebSocket } = require(${JSON.stringify(join(process.cwd(), 'node_modules/ws'))});
const socket = new WebSocket('wss://a.example:${port}/chat', { ca: require('fs').readFileSync(${JSON.stringify(join(folder, 'both.pem'))}) });
socket.on('open', () => socket.send('hello'));
socket.on('message', (data) => { console.log(String(data)); socket.close(); });
socket.on('unexpected-response', (_, answer) => { console.log(answer.statusCode); process.exit(); });
socket.on('error', (error) => console.log(error.message));`;
      const { stdout } = await run(['/usr/bin/node', '-e', program]);
      expect(stdout).toBe(websocket ? 'hello\n' : '403\n');
      if (!websocket) expect(records('request')).toMatchObject([{ code: 'websocket_not_allowed', verdict: 'deny' }]);
      else await expect.poll(() => records('request')).toMatchObject([{ status: 101, verdict: 'allow' }]);
    }
  });

  it('carries many connections and megabytes at once, unchanged', async () => {
    const { port } = await upstream(certificate('a'));
    const { python } = await trapped(allowing(at(port, { methods: ['POST'] })), await authorityFor('a.example'));
    bothRoots();
    const program = `
import ssl, threading, urllib.request
context = ssl.create_default_context(cafile="${join(folder, 'both.pem')}")
answers = []
def post():
  request = urllib.request.Request("https://a.example:${port}/", data=b"x" * 3000000, method="POST")
  answers.append(urllib.request.urlopen(request, context=context, timeout=20).read())
threads = [threading.Thread(target=post) for _ in range(12)]
[t.start() for t in threads]; [t.join() for t in threads]
print(set(answers), len(answers))`;
    expect(await python(program)).toBe("{b'POST 3000000\\n'} 12\n");
  });
});
