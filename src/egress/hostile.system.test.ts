/**
 * Both sides at their worst: clients and upstreams that an attack on this boundary used. Whatever they do ends their own
 * connection and nothing else, is bounded, and leaves nothing. Needs root.
 */
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { makeCertificates } from '../../test/support/certificates.ts';
import { allowing, openTrapped, rule, type Trapped } from '../../test/support/trapped.ts';
import type { NetworkGrant, NetworkRule } from '../admission/network.ts';
import { parseHostPattern } from '../network/host-pattern.ts';
import { createAuthority } from './tls/authority.ts';

let folder: string;
let open: { close(): unknown }[] = [];
const uncaught: unknown[] = [];
const onUncaught = (error: unknown): void => void uncaught.push(error);

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-hostile-'));
  makeCertificates(folder);
  process.on('uncaughtException', onUncaught).on('unhandledRejection', onUncaught);
});

afterAll(() => {
  process.off('uncaughtException', onUncaught).off('unhandledRejection', onUncaught);
  rmSync(folder, { recursive: true });
});

afterEach(async () => {
  for (const thing of open.reverse()) await thing.close();
  open = [];
  expect(uncaught.splice(0)).toEqual([]);
});

interface Raw {
  readonly port: number;
  readonly received: () => string;
  readonly sockets: ReadonlySet<Socket>;
}

/** An upstream made of bytes. @param answer what to send when a head has come; undefined: nothing */
async function raw(isTls: boolean, answer: (head: string, socket: Socket) => string | undefined): Promise<Raw> {
  let text = '';
  const sockets = new Set<Socket>();
  const onSocket = (socket: Socket): void => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
    let head = '';
    socket.on('data', (data) => {
      text += data;
      head += data;
      if (!head.includes('\r\n\r\n')) return;
      const bytes = answer(head, socket);
      head = '';
      if (bytes !== undefined) socket.write(bytes, 'latin1');
    });
  };
  const options = { cert: readFileSync(join(folder, 'a.pem')), key: readFileSync(join(folder, 'a.key')) };
  const server: Server = isTls ? createTlsServer(options, onSocket) : createServer(onSocket);
  server.on('tlsClientError', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  open.push({
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  });
  return { port: (server.address() as AddressInfo).port, received: () => text, sockets };
}

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

async function trapped(grant: NetworkGrant, isOpened: boolean): Promise<Trapped> {
  const now = new Date();
  const hosts = [parseHostPattern('a.example')].filter((pattern) => pattern !== undefined);
  const authority = createAuthority({ sandboxId: 'sb', hosts, now, notAfter: new Date(now.getTime() + 3_600_000) });
  writeFileSync(join(folder, 'sandbox.pem'), authority.certificatePem);
  const upstreamRoots = [readFileSync(join(folder, 'ca.pem'), 'utf8')];
  const made = await openTrapped(
    grant,
    { 'a.example': ['127.0.0.1'] },
    { upstreamRoots, ...(isOpened ? { authority } : {}) },
  );
  open.push({
    close: async () => {
      await made.close();
      expect(made.faults).toEqual([]);
    },
  });
  return made;
}

const at = (port: number, changes: Partial<NetworkRule> = {}): NetworkGrant =>
  allowing(rule('web', { hosts: ['a.example'], ports: [{ from: port, to: port }], inspect: 'always', ...changes }));

/** A program with an HTTP/2 session `c` to the port, and the rest of it. */
const http2 = (port: number, rest: string): string[] => [
  '/usr/bin/node',
  '-e',
  `const c = require('http2').connect('https://a.example:${port}', { ca: require('fs').readFileSync('${join(folder, 'sandbox.pem')}') });
c.on('error', (error) => console.log('session', error.code));
const ask = (headers, body) => new Promise((done) => {
  const r = c.request(headers, { endStream: body === undefined }); let status, text = '';
  r.on('response', (h) => { status = h[':status']; }); r.on('data', (d) => { text += d; });
  r.on('error', () => done('error')); r.on('close', () => done(status + ' ' + text.slice(0, 200)));
  if (body !== undefined) r.end(body);
});
(async () => { ${rest} })().then(() => c.close());`,
];

describe('a request that hides another', () => {
  const hidden = 'DELETE /admin HTTP/1.1\r\nHost: other.example\r\n\r\n';

  it('NX-21: behind a length that Connection names is refused', async () => {
    const { port, received } = await raw(false, () => ok);
    const { python } = await trapped(at(port, { protocol: 'http', inspect: 'auto', methods: ['GET'] }), false);
    const text = `GET /x HTTP/1.1\r\nHost: a.example:${port}\r\nConnection: content-length\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`;
    const answer = await python(`
import socket
s = socket.create_connection(("a.example", ${port}), 5); s.sendall(${JSON.stringify(text)}.encode())
print(s.recv(12))`);
    expect(answer).toBe("b'HTTP/1.1 400'\n");
    expect(received()).toBe('');
  });

  it.each(['GET', 'DELETE', 'OPTIONS', 'HEAD', 'POST'])('NX-21: in the body of a %s stays its body', async (method) => {
    const { port, received } = await raw(true, () => ok);
    const { run } = await trapped(at(port), true);
    await run(http2(port, `await ask({ ':method': '${method}', ':path': '/x' }, ${JSON.stringify(hidden)});`));
    expect(received()).toMatch(new RegExp(`^${method} /x HTTP/1.1\\r\\n`));
    // announced as so many bytes of body, not as a head
    expect(received()).toMatch(new RegExp(`\r\n\r\n${hidden.length.toString(16)}\r\n${hidden.slice(0, 6)}`));
    expect(received()).toContain('Transfer-Encoding: chunked');
  });

  it('NX-17: is for the Host that was judged, in its own spelling', async () => {
    const { port, received } = await raw(false, () => ok);
    const { python } = await trapped(at(port, { protocol: 'http', inspect: 'auto' }), false);
    const ask = (host: string): Promise<string> =>
      python(`
import socket
s = socket.create_connection(("a.example", ${port}), 5); s.sendall("GET / HTTP/1.1\\r\\nHost: ${host}\\r\\nConnection: close\\r\\n\\r\\n".encode("latin1"))
print(s.recv(12))`);
    expect(await ask(`A.Example.:${port}`)).toBe("b'HTTP/1.1 200'\n");
    expect(received()).toContain(`Host: a.example:${port}\r\n`);
    expect(await ask(`a\\xad.example:${port}`)).toBe("b'HTTP/1.1 400'\n");
  });

  it('NX-17: to a raw address with another address as its Host is refused', async () => {
    const { port, received } = await raw(false, () => ok);
    const address = rule('address', {
      cidrs: ['192.0.2.0/24'],
      private: true,
      protocol: 'http',
      ports: [{ from: port, to: port }],
    });
    const { run } = await trapped(allowing(address), false);
    const { stdout } = await run([
      'curl',
      '-s',
      '-m',
      '5',
      '-w',
      '%{http_code}',
      '-H',
      'Host: 169.254.169.254',
      `http://192.0.2.7:${port}/`,
    ]);
    expect(stdout).toMatch(/host_mismatch.*421$/s);
    expect(received()).toBe('');
  });
});

describe('an upstream that answers', () => {
  const answers: readonly (readonly [string, string])[] = [
    ['two content types', 'HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Type: c/d\r\nContent-Length: 2\r\n\r\nok'],
    ['a header called __proto__', 'HTTP/1.1 200 OK\r\n__proto__: x\r\nconstructor: y\r\nContent-Length: 2\r\n\r\nok'],
    ['the status 999', 'HTTP/1.1 999 No\r\nContent-Length: 2\r\n\r\nok'],
    ['the status 001', 'HTTP/1.1 001 No\r\nContent-Length: 2\r\n\r\nok'],
    ['a control character in the reason', 'HTTP/1.1 200 O\u0001K\r\nContent-Length: 2\r\n\r\nok'],
    [
      'hints that are none',
      'HTTP/1.1 103 Early Hints\r\nlink: garbage\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
    ],
    ['a switch of protocols', 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'],
    ['garbage', '\u0000\u0001\u0002 nothing of HTTP\r\n\r\n'],
    ['half a body', 'HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\nhalf'],
  ];

  it.each(answers)('%s ends that exchange at most, over HTTP/2 and HTTP/1.1', async (_name, bytes) => {
    let isOdd = true;
    const { port } = await raw(true, (_head, socket) => {
      if (!isOdd) return ok;
      if (bytes.includes('half')) setTimeout(() => socket.destroy(), 50);
      return bytes;
    });
    const { run } = await trapped(at(port), true);
    const url = `https://a.example:${port}/`;
    const ca = ['--cacert', join(folder, 'sandbox.pem'), '-s', '-m', '10', '-o', '/dev/null', '-w', '%{http_code}'];
    const first = await run(http2(port, `console.log(await ask({ ':path': '/' }));`));
    expect(first.stdout).toMatch(/^(200|502|error)/);
    await run(['curl', '--http1.1', ...ca, url]);
    isOdd = false;
    expect((await run(['curl', '--http1.1', ...ca, url])).stdout).toBe('200');
    expect((await run(['curl', '--http2', ...ca, url])).stdout).toBe('200');
  });

  it('with one interim answer after the other is cut off, and what it sent is charged', async () => {
    const { port } = await raw(true, (_head, socket) => {
      const interim = `HTTP/1.1 103 Early Hints\r\nLink: <${'x'.repeat(8_000)}>\r\n\r\n`;
      const timer = setInterval(() => socket.destroyed || socket.write(interim), 1);
      socket.once('close', () => clearInterval(timer));
      return interim;
    });
    const { run, records } = await trapped(at(port), true);
    const before = process.memoryUsage().rss;
    const { stdout } = await run(http2(port, `console.log(await ask({ ':path': '/' }));`));
    expect(stdout).toMatch(/^502/);
    expect(process.memoryUsage().rss - before).toBeLessThan(64 * 1024 * 1024);
    expect(records('request')[0]?.downBytes).toBeGreaterThan(8_000);
  });
});

describe('a client', () => {
  it('that leaves with streams open and waiting leaves no connection upstream, and the daemon alone', async () => {
    const silent = await raw(true, () => undefined);
    const { run, egress } = await trapped(at(silent.port), true);
    const leave = `for (let i = 0; i < 20; i++) ask({ ':path': '/' + i }); await new Promise((r) => setTimeout(r, 400)); ask({ ':path': '/late' }); await new Promise((r) => setTimeout(r, 20)); c.destroy(); process.exit();`;
    await run(http2(silent.port, leave));
    await expect.poll(() => egress.flows).toBe(0);
    await expect.poll(() => silent.sockets.size).toBe(0);
  });

  it('that comes and goes at once, often, leaves nothing', async () => {
    const silent = await raw(true, () => undefined);
    const { run, egress } = await trapped(at(silent.port), true);
    const fds = readdirSync('/proc/self/fd').length;
    const often = `c.destroy(); const h = require('http2'); const ca = require('fs').readFileSync('${join(folder, 'sandbox.pem')}');
for (let i = 0; i < 60; i++) { const s = h.connect('https://a.example:${silent.port}', { ca }); s.on('error', () => {}); for (let k = 0; k < 8; k++) s.request({ ':path': '/' }).on('error', () => {}); setTimeout(() => s.destroy(), 15); await new Promise((r) => setTimeout(r, 10)); }
await new Promise((r) => setTimeout(r, 200)); process.exit();`;
    await run(http2(silent.port, often));
    await expect.poll(() => egress.flows, { timeout: 15_000 }).toBe(0);
    await expect.poll(() => silent.sockets.size, { timeout: 15_000 }).toBe(0);
    await expect.poll(() => readdirSync('/proc/self/fd').length, { timeout: 15_000 }).toBeLessThanOrEqual(fds + 3);
  });

  it('with many streams has as many connections upstream as the budget, and no more than eight', async () => {
    for (const [budget, most] of [
      [undefined, 8],
      [{ connections: 1 }, 1],
    ] as const) {
      let seen = 0;
      const silent = await raw(true, () => undefined);
      const { run } = await trapped(at(silent.port, budget === undefined ? {} : { budget }), true);
      const watch = setInterval(() => {
        seen = Math.max(seen, silent.sockets.size);
      }, 5);
      await run(
        http2(
          silent.port,
          `for (let i = 0; i < 30; i++) ask({ ':path': '/' + i }); await new Promise((r) => setTimeout(r, 600)); process.exit();`,
        ),
      );
      clearInterval(watch);
      expect(seen).toBe(most);
    }
  });

  it('NX-40: cannot send in heads what its budget of bytes forbids', async () => {
    const { port, received } = await raw(false, () => ok);
    const { python } = await trapped(
      at(port, { protocol: 'http', inspect: 'auto', budget: { upBytes: 1_000 } }),
      false,
    );
    const statuses = await python(`
import http.client
for _ in range(3):
  c = http.client.HTTPConnection("a.example", ${port}, timeout=5)
  try: c.request("GET", "/" + "q" * 8000, headers={"X": "y" * 20000}); print(c.getresponse().status)
  except ConnectionError: print("reset")`);
    expect(statuses).toMatch(/^(403|reset)\n(403|reset)\n(403|reset)\n$/);
    expect(received().length).toBeLessThan(1_000);
  });

  it('cannot hold more than some connections to the resolver', async () => {
    const { python, egress } = await trapped({ mode: 'deny' }, false);
    const fds = readdirSync('/proc/self/fd').length;
    const program = `
import socket, time
held = [socket.create_connection(("192.0.2.53", 53), 5) for _ in range(400)]
time.sleep(0.5)
open_ones = 0
for s in held:
  s.settimeout(0.01)
  try: open_ones += s.recv(1) != b""
  except TimeoutError: open_ones += 1
  except ConnectionResetError: pass
print(open_ones <= 64)`;
    expect(await python(program)).toBe('True\n');
    expect(egress.log.summary().lost).toBeGreaterThan(300);
    await expect.poll(() => readdirSync('/proc/self/fd').length).toBeLessThanOrEqual(fds + 3);
  });

  it('that sends many large heads ahead is not read on', async () => {
    const silent = await raw(false, () => undefined);
    const { python } = await trapped(at(silent.port, { protocol: 'http', inspect: 'auto' }), false);
    const before = process.memoryUsage().heapUsed;
    const program = `
import socket, time
head = ("GET / HTTP/1.1\\r\\nHost: a.example:${silent.port}\\r\\n" + "".join(f"x{i}: y\\r\\n" for i in range(200)) + "\\r\\n").encode()
held = []
for _ in range(40):
  s = socket.create_connection(("a.example", ${silent.port}), 5); s.setblocking(False)
  try:
    for _ in range(60): s.send(head)
  except (BlockingIOError, ConnectionError): pass
  held.append(s)
time.sleep(1)`;
    await python(program);
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(200 * 1024 * 1024);
  });
});
