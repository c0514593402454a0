import { once } from 'node:events';
import { type AddressInfo, connect as connectTcp, createServer, type Server, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type HostName, parseHostName } from '../../network/host-name.ts';
import { parseHostPattern } from '../../network/host-pattern.ts';
import { type Authority, createAuthority } from './authority.ts';
import { type OpenContext, terminateTls } from './open-connection.ts';

const host = parseHostName('api.example') as HostName;
const pattern = parseHostPattern('api.example');
const now = new Date();

let authority: Authority;
let server: Server;
let opened: Promise<TLSSocket>[];
let accepted: Socket[];
let context: OpenContext;
/** What is done with each accepted connection before it is opened. */
let before: (socket: Socket) => Promise<void>;

beforeEach(async () => {
  authority = createAuthority({
    sandboxId: 'sb-1',
    hosts: pattern === undefined ? [] : [pattern],
    now,
    notAfter: new Date(now.getTime() + 60_000),
  });
  context = { authority, host, alpn: ['h2', 'http/1.1'], handshakeTimeoutMs: 2_000 };
  opened = [];
  accepted = [];
  before = (socket) => readBack(socket, 1);
  server = createServer({ pauseOnConnect: true, allowHalfOpen: true }, (socket) => {
    accepted.push(socket);
    socket.on('error', () => undefined);
    const opening = before(socket).then(() => terminateTls(socket, context));
    opening.catch(() => undefined);
    opened.push(opening);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
});

afterEach(() => {
  for (const socket of accepted) socket.destroy();
  server.close();
  authority.dispose();
});

const port = (): number => (server.address() as AddressInfo).port;

/** Reads as a peek does, until there are so many bytes, and puts them back. */
async function readBack(socket: Socket, leastBytes: number): Promise<void> {
  const pieces: Buffer[] = [];
  while (Buffer.concat(pieces).length < leastBytes) {
    const piece = socket.read() as Buffer | null;
    if (piece === null) await once(socket, 'readable');
    else pieces.push(piece);
  }
  socket.unshift(Buffer.concat(pieces));
}

function client(options: ConnectionOptions = {}): TLSSocket {
  const socket = connect({
    host: '127.0.0.1',
    port: port(),
    servername: host,
    ca: authority.certificatePem,
    ...options,
  });
  return socket.on('error', () => undefined);
}

/** A client with its TCP connection apart from its TLS, so that a test can speak below the encryption. */
class RawClient {
  readonly tcp = connectTcp(port(), '127.0.0.1');
  readonly tls: TLSSocket;

  constructor() {
    const { tcp } = this;
    tcp.on('error', () => undefined);
    const wire = new Duplex({
      read: () => undefined,
      write: (bytes, _encoding, done) => void tcp.write(bytes, () => done()),
    });
    tcp.on('data', (bytes) => wire.push(bytes));
    this.tls = client({ socket: wire });
  }
}

async function firstOpened(): Promise<TLSSocket> {
  await expect.poll(() => opened.length).toBeGreaterThan(0);
  return opened[0] as Promise<TLSSocket>;
}

/** Both ways, and the end. */
async function exchange(inside: TLSSocket, end: TLSSocket): Promise<string> {
  end.on('data', (bytes) => end.end(`echo ${bytes}`));
  inside.write('hello');
  const [answer] = await once(inside, 'data');
  return String(answer);
}

describe('a connection that is opened', () => {
  it.each(['TLSv1.2', 'TLSv1.3'] as const)(
    'is trusted by a client with the certificate of the sandbox: %s',
    async (version) => {
      const inside = client({ minVersion: version, maxVersion: version, ALPNProtocols: ['http/1.1'] });
      await once(inside, 'secureConnect');
      const end = await firstOpened();
      expect(inside.authorized).toBe(true);
      expect([inside.getProtocol(), end.alpnProtocol, end.servername]).toEqual([version, 'http/1.1', host]);
      expect(await exchange(inside, end)).toBe('echo hello');
    },
  );

  it.each<[string, string[] | undefined, string | false]>([
    ['h2 where both are offered', ['http/1.1', 'h2'], 'h2'],
    ['http/1.1 where it alone is', ['http/1.1'], 'http/1.1'],
    ['none where none is', undefined, false],
  ])('speaks %s', async (_, ALPNProtocols, expected) => {
    client(ALPNProtocols === undefined ? {} : { ALPNProtocols });
    expect((await firstOpened()).alpnProtocol).toBe(expected);
  });

  it('has the name of where it goes, without or with another server name', async () => {
    for (const servername of ['', 'other.example']) {
      const inside = client({ servername, checkServerIdentity: () => undefined });
      await once(inside, 'secureConnect');
      expect(inside.getPeerCertificate().subjectaltname).toBe('DNS:api.example');
    }
  });

  it('takes a hello that comes in three pieces, the first two read before', async () => {
    const relay = createServer((near) => {
      const far = connectTcp(port(), '127.0.0.1');
      far.pipe(near);
      near.once('data', async (hello: Buffer) => {
        near.pause();
        for (const [from, to] of [
          [0, 3],
          [3, 90],
          [90, hello.length],
        ] as const) {
          far.write(hello.subarray(from, to));
          await expect.poll(() => accepted[0]?.bytesRead ?? 0).toBeGreaterThanOrEqual(to);
        }
        near.pipe(far);
      });
    });
    before = (socket) => readBack(socket, 90);
    await once(relay.listen(0, '127.0.0.1'), 'listening');
    try {
      const inside = client({ port: (relay.address() as AddressInfo).port });
      await once(inside, 'secureConnect');
      expect(await exchange(inside, await firstOpened())).toBe('echo hello');
      inside.destroy();
    } finally {
      relay.close();
    }
  });

  it('is not renegotiated', async () => {
    const inside = client({ maxVersion: 'TLSv1.2' });
    await once(inside, 'secureConnect');
    const end = await firstOpened();
    inside.renegotiate({}, () => undefined);
    await once(end, 'close');
  });

  it('is over when its bytes are no longer those of the session', async () => {
    const below = new RawClient();
    await once(below.tls, 'secureConnect');
    const closed = once(await firstOpened(), 'close');
    below.tcp.write(Buffer.from([23, 3, 3, 0, 32, ...Buffer.alloc(32)]));
    await closed;
  });

  it('ends at once when the connection below is reset', async () => {
    const inside = client();
    await once(inside, 'secureConnect');
    const end = await firstOpened();
    const closed = [end, inside].map((socket) => new Promise((resolve) => socket.once('close', resolve)));
    accepted[0]?.resetAndDestroy();
    await Promise.all(closed);
  });

  it('is over when the client resets it', async () => {
    const below = new RawClient();
    await once(below.tls, 'secureConnect');
    const end = await firstOpened();
    const closed = new Promise((resolve) => end.once('close', resolve));
    below.tcp.resetAndDestroy();
    await closed;
  });
});

describe('a connection that cannot be opened', () => {
  async function failure(): Promise<unknown> {
    await expect.poll(() => opened.length).toBe(1);
    return opened[0]?.then(
      () => 'opened',
      (error: unknown) => error,
    );
  }

  it.each<[string, ConnectionOptions, string]>([
    ['of a client with other protocols', { ALPNProtocols: ['spdy/3'] }, 'no application protocol'],
    ['of a client that is too old', { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }, ''],
  ])('%s fails as a handshake, and is closed', async (_, options, reason) => {
    client(options);
    expect(await failure()).toMatchObject({
      name: 'TlsFault',
      code: 'handshake',
      message: expect.stringContaining(reason),
    });
    expect(accepted[0]?.destroyed).toBe(true);
  });

  it('because the client does not trust the sandbox is closed', async () => {
    client({ ca: [] });
    expect(await failure()).toMatchObject({ code: expect.stringMatching(/closed|handshake/) });
    expect(accepted[0]?.destroyed).toBe(true);
  });

  it('because it is no TLS fails as a handshake', async () => {
    connectTcp(port(), '127.0.0.1')
      .on('error', () => undefined)
      .write('GET / HTTP/1.1\r\n\r\n');
    expect(await failure()).toMatchObject({ code: 'handshake' });
  });

  it('in time is given up', async () => {
    context = { ...context, handshakeTimeoutMs: 50 };
    const silent = connectTcp(port(), '127.0.0.1').on('error', () => undefined);
    silent.write(Buffer.from([22, 3, 1, 0]));
    expect(await failure()).toMatchObject({ code: 'timeout', message: expect.stringContaining('50 ms') });
    expect(accepted[0]?.destroyed).toBe(true);
  });

  it.each<[string, (socket: Socket) => void]>([
    ['ends', (socket) => socket.end()],
    ['is reset', (socket) => socket.resetAndDestroy()],
  ])('because it %s on the way fails at once', async (_, end) => {
    const inside = connectTcp(port(), '127.0.0.1').on('error', () => undefined);
    inside.write(Buffer.from([22, 3, 1, 0]));
    await expect.poll(() => opened.length).toBe(1);
    await new Promise(setImmediate);
    end(inside);
    expect(await failure()).toMatchObject({ code: expect.stringMatching(/closed|handshake/) });
    expect(accepted[0]?.destroyed).toBe(true);
  });

  it('because our side reset it fails at once', async () => {
    connectTcp(port(), '127.0.0.1')
      .on('error', () => undefined)
      .write(Buffer.from([22, 3, 1, 0]));
    await expect.poll(() => opened.length).toBe(1);
    await new Promise(setImmediate);
    accepted[0]?.resetAndDestroy();
    expect(await failure()).toMatchObject({ code: 'closed' });
  });

  it('because it has ended before fails at once', async () => {
    before = async (socket) => void socket.destroy();
    connectTcp(port(), '127.0.0.1').on('error', () => undefined);
    expect(await failure()).toMatchObject({ code: 'closed' });
  });

  it('because the sandbox has ended fails as that', async () => {
    authority.dispose();
    client();
    expect(await failure()).toMatchObject({ code: 'sandbox_ended' });
    expect(accepted[0]?.destroyed).toBe(true);
  });
});
