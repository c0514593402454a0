/** Rules that change while connections are open, budgets and bandwidth: for real, in a trapped namespace. Needs root. */
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { allowing, openTrapped, rule, type Trapped } from '../../test/support/trapped.ts';
import type { NetworkGrant } from '../admission/network.ts';

let open: { close(): unknown }[] = [];

afterEach(async () => {
  for (const thing of open.reverse()) await thing.close();
  open = [];
});

async function trapped(grant: NetworkGrant): Promise<Trapped> {
  const made = await openTrapped(grant, { 'a.example': ['127.0.0.1'], 'b.example': ['127.0.0.1'] });
  open.push(made);
  return made;
}

/** Sends back what it is sent, or for "n\n" that many bytes. */
async function server(): Promise<number> {
  const sockets = new Set<Socket>();
  const made: Server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('data', (data) => {
      const count = /^send (\d+)\n$/.exec(data.toString())?.[1];
      socket.write(count === undefined ? data : Buffer.alloc(Number(count)));
      if (count !== undefined) socket.end();
    });
    socket.on('end', () => socket.end());
  });
  made.listen(0, '127.0.0.1');
  await once(made, 'listening');
  open.push({
    close: () => {
      for (const socket of sockets) socket.destroy();
      made.close();
    },
  });
  return (made.address() as AddressInfo).port;
}

const tcp = (id: string, host: string, port: number, more: Parameters<typeof rule>[1] = {}) =>
  rule(id, { hosts: [host], protocol: 'tcp', ports: [{ from: port, to: port }], ...more });

/** Holds a connection open and says how long it lived after `now` was printed. */
const holding = (port: number): string => `
import socket, sys
s = socket.create_connection(("a.example", ${port}), 5); s.send(b"x"); s.recv(1)
s.settimeout(20)
try: print(s.recv(9))
except ConnectionResetError: print("reset")`;

function withPhases(port: number): NetworkGrant {
  const { rules } = allowing(
    tcp('install', 'a.example', port, { phases: ['install'] }),
    tcp('work', 'b.example', port),
  ) as Extract<NetworkGrant, { mode: 'allow' }>;
  return { mode: 'allow', phases: ['install', 'locked'], rules };
}

describe('a change', () => {
  it('NX-34: of phase closes what it forbids within a second, and binds what comes after', async () => {
    const port = await server();
    const { egress, python, records } = await trapped(withPhases(port));
    const held = python(holding(port));
    await expect.poll(() => egress.flows).toBe(1);
    const began = performance.now();
    egress.enter('locked');
    expect(await held).toBe('reset\n');
    expect(performance.now() - began).toBeLessThan(1_000);
    await expect
      .poll(() => records('connection'))
      .toMatchObject([{ verdict: 'deny', code: 'wrong_phase', rule: 'install' }]);
    await expect(python(holding(port))).rejects.toThrow(/gaierror|Name or service/);
    expect(
      await python(
        `import socket; s = socket.create_connection(("b.example", ${port}), 5); s.send(b"y"); print(s.recv(1))`,
      ),
    ).toBe("b'y'\n");
  });

  it('of phase goes one way', async () => {
    const { egress } = await trapped(withPhases(1));
    egress.enter('locked');
    expect(() => egress.enter('install')).toThrow(/one way/);
    expect(() => egress.enter('other')).toThrow(/it has install, locked/);
    expect(egress.phase).toBe('locked');
  });

  it('NX-34: that tightens to nothing closes everything', async () => {
    const port = await server();
    const { egress, python } = await trapped(allowing(tcp('a', 'a.example', port)));
    const held = python(holding(port));
    await expect.poll(() => egress.flows).toBe(1);
    egress.tighten({ mode: 'deny' });
    expect(await held).toBe('reset\n');
    expect(egress.flows).toBe(0);
  });

  it('that tightens cannot widen: both layers have to allow', async () => {
    const port = await server();
    const { egress, python } = await trapped(allowing(tcp('a', 'a.example', port)));
    egress.tighten(allowing(tcp('a', 'a.example', port), tcp('b', 'b.example', port)));
    await expect(python(holding(port).replace('a.example', 'b.example'))).rejects.toThrow();
  });

  it('NX-34: that forbids the request of an answer which still streams, or its WebSocket, closes it', async () => {
    let asked = 0;
    const web = createHttpServer((_request, response) => {
      asked += 1;
      response.writeHead(200).write('first\n');
    });
    web.listen(0, '127.0.0.1');
    await once(web, 'listening');
    open.push({ close: () => web.closeAllConnections() }, { close: () => web.close() });
    const { port } = web.address() as AddressInfo;
    const http = (paths: readonly string[]) =>
      allowing(rule('web', { hosts: ['a.example'], protocol: 'http', ports: [{ from: port, to: port }], paths }));
    const { egress, python, records } = await trapped(http(['/**']));
    const held = python(`
import http.client
c = http.client.HTTPConnection("a.example", ${port}, timeout=20)
try: c.request("GET", "/stream"); print(c.getresponse().read())
except (ConnectionResetError, http.client.IncompleteRead): print("cut")`);
    await expect.poll(() => asked).toBe(1);
    const began = performance.now();
    egress.tighten(http(['/other']));
    expect(await held).toBe('cut\n');
    expect(performance.now() - began).toBeLessThan(1_000);
    await expect.poll(() => records('connection')).toMatchObject([{ verdict: 'deny', code: 'path_not_allowed' }]);
  });

  it('that has requests seen ends what passes sealed', async () => {
    const port = await server();
    const { egress, python } = await trapped(allowing(tcp('a', 'a.example', port)));
    const held = python(holding(port));
    await expect.poll(() => egress.flows).toBe(1);
    egress.tighten(allowing(rule('a', { hosts: ['a.example'], protocol: 'http', ports: [{ from: port, to: port }] })));
    expect(await held).toBe('reset\n');
  });

  it('NX-34: that denies the address which was dialled closes what goes there', async () => {
    const port = await server();
    const { egress, python, records } = await trapped(allowing(tcp('a', 'a.example', port)));
    const held = python(holding(port));
    await expect.poll(() => egress.flows).toBe(1);
    const denied = rule('no', {
      verdict: 'deny',
      cidrs: ['127.0.0.0/8'],
      protocol: 'tcp',
      ports: [{ from: 1, to: 65_535 }],
    });
    egress.tighten(allowing(tcp('a', 'a.example', port), denied));
    expect(await held).toBe('reset\n');
    await expect.poll(() => records('connection')).toMatchObject([{ code: 'rule_denies', rule: 'no' }]);
  });

  it('binds with its amounts too: the least of all budgets', async () => {
    const port = await server();
    const { egress, python } = await trapped(allowing(tcp('a', 'a.example', port, { budget: { connections: 9 } })));
    egress.tighten(allowing(tcp('a', 'a.example', port, { budget: { connections: 1, downBytes: 50_000 } })));
    const program = `
import socket
s = socket.create_connection(("a.example", ${port}), 5); s.send(b"send 500000\\n"); got = 0
try:
  while piece := s.recv(65536): got += len(piece)
except ConnectionResetError: pass
print(got <= 50000)
try: socket.create_connection(("a.example", ${port}), 5).recv(1); print("in")
except ConnectionResetError: print("reset")`;
    expect(await python(program)).toBe('True\nreset\n');
  });

  it('NX-45: that ends the egress leaves no way out', async () => {
    const port = await server();
    const { egress, python } = await trapped(allowing(tcp('a', 'a.example', port)));
    const held = python(holding(port));
    await expect.poll(() => egress.flows).toBe(1);
    egress.close();
    expect(await held).toBe('reset\n');
    const program = `
import socket
for to in (("192.0.2.1", 443), ("198.18.0.1", ${port})):
  s = socket.socket(); s.settimeout(2)
  try: s.connect(to); print(s.recv(1))
  except OSError as error: print(type(error).__name__)`;
    expect(await python(program)).toBe('ConnectionRefusedError\nConnectionRefusedError\n');
  });
});

describe('a budget', () => {
  it('of connections refuses the one too many', async () => {
    const port = await server();
    const { python, records } = await trapped(allowing(tcp('a', 'a.example', port, { budget: { connections: 2 } })));
    const program = `
import socket
for _ in range(3):
  try: s = socket.create_connection(("a.example", ${port}), 5); s.send(b"x"); print(s.recv(1)); s.close()
  except (ConnectionResetError, BrokenPipeError): print("reset")`;
    expect(await python(program)).toBe("b'x'\nb'x'\nreset\n");
    const codes = (): string[] => records('connection').map(({ verdict, code }) => `${verdict} ${code}`);
    await expect.poll(() => codes().sort()).toEqual(['allow null', 'allow null', 'deny budget_used_up']);
  });

  it('NX-40: of bytes ends the connection that uses it up, and no byte more has passed', async () => {
    const port = await server();
    const { python, records } = await trapped(
      allowing(tcp('a', 'a.example', port, { budget: { downBytes: 100_000 } })),
    );
    const program = `
import socket
s = socket.create_connection(("a.example", ${port}), 5); s.send(b"send 5000000\\n"); got = 0
try:
  while piece := s.recv(65536): got += len(piece)
except ConnectionResetError: pass
print(got <= 100000)`;
    expect(await python(program)).toBe('True\n');
    await expect.poll(() => records('connection')).toMatchObject([{ code: 'budget_used_up' }]);
    expect(records('connection')[0]?.downBytes).toBeLessThanOrEqual(100_000);
  });
});

describe('bandwidth', () => {
  it('of a rule is shared by its connections, each way its own', async () => {
    const port = await server();
    const bandwidth = { downBytesPerSecond: 400_000 };
    const { python } = await trapped(allowing(tcp('a', 'a.example', port, { bandwidth })));
    const program = `
import socket, threading, time
began = time.time()
def fetch():
  s = socket.create_connection(("a.example", ${port}), 5); s.send(b"send 600000\\n"); got = 0
  while piece := s.recv(65536): got += len(piece)
  assert got == 600000
threads = [threading.Thread(target=fetch) for _ in range(2)]
[t.start() for t in threads]; [t.join() for t in threads]
print(time.time() - began)`;
    // 1.2 MB at 0.4 MB/s, of which the first second's worth is free
    const seconds = Number(await python(program));
    expect(seconds).toBeGreaterThan(1.7);
    expect(seconds).toBeLessThan(6);
  });
});
