import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import {
  type AddressInfo,
  connect as connectTcp,
  createServer as createTcpServer,
  type Server,
  type Socket,
} from 'node:net';
import { createServer, type TLSSocket, type TlsOptions } from 'node:tls';
import { afterEach, describe, expect, it } from 'vitest';
import { type HostName, parseHostName } from '../../network/host-name.ts';
import { type HostPattern, parseHostPattern } from '../../network/host-pattern.ts';
import { authorityExtensions, extension, leafExtensions, signCertificate } from './certificate.ts';
import { sequence, yes } from './der.ts';
import { type SecureOptions, secure } from './upstream.ts';

const host = parseHostName('api.example') as HostName;
const other = parseHostName('other.example') as HostName;
const below = parseHostPattern('*.tls.example') as HostPattern;
const patterns = [host, other].map((name): HostPattern => ({ kind: 'exact', name, text: name }));
const dayMs = 24 * 60 * 60_000;
const fromNow = (ms: number): Date => new Date(Date.now() + ms);

interface Identity {
  readonly name: string;
  readonly certificatePem: string;
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

interface IdentityOptions {
  readonly issuer?: Identity;
  readonly extensions: (publicKey: KeyObject, issuerKey: KeyObject) => Buffer[];
  readonly from?: Date;
  readonly to?: Date;
}

function identity(name: string, { issuer, extensions, from, to }: IdentityOptions): Identity {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const certificatePem = signCertificate({
    subject: name,
    issuer: issuer?.name ?? name,
    publicKey,
    signingKey: issuer?.privateKey ?? privateKey,
    notBefore: from ?? fromNow(-dayMs),
    notAfter: to ?? fromNow(dayMs),
    extensions: extensions(publicKey, issuer?.publicKey ?? publicKey),
  });
  return { name, certificatePem, publicKey, privateKey };
}

const authority = (name: string, hosts: readonly HostPattern[], more: Partial<IdentityOptions> = {}): Identity =>
  identity(name, { ...more, extensions: (key) => authorityExtensions(key, hosts) });
const leaf = (issuer: Identity | undefined, name: HostName, more: Partial<IdentityOptions> = {}): Identity =>
  identity(name, { ...more, ...(issuer && { issuer }), extensions: (_, issuerKey) => leafExtensions(name, issuerKey) });

const root = authority('test root', patterns);
const roots = [root.certificatePem];

const servers: Server[] = [];
const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const server of servers.splice(0)) server.close();
});

async function listening(server: Server): Promise<number> {
  servers.push(server);
  server.on('connection', (socket: Socket) => void sockets.push(socket.on('error', () => undefined)));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return (server.address() as AddressInfo).port;
}

function serve({ certificatePem, privateKey }: Identity, options: TlsOptions = {}): Promise<number> {
  const key = privateKey.export({ format: 'pem', type: 'pkcs8' });
  const server = createServer({ cert: certificatePem, key, ALPNProtocols: ['http/1.1'], ...options }, (socket) =>
    socket.on('error', () => undefined).pipe(socket),
  );
  return listening(server.on('tlsClientError', () => undefined));
}

async function dial(port: number): Promise<Socket> {
  const socket = connectTcp({ port, host: '127.0.0.1', allowHalfOpen: true });
  sockets.push(socket);
  await once(socket, 'connect');
  return socket;
}

async function secured(port: number, options: Partial<SecureOptions> = {}): Promise<TLSSocket> {
  return secure(await dial(port), { host, alpn: ['http/1.1'], timeoutMs: 2_000, roots, ...options });
}

async function fault(port: number, options?: Partial<SecureOptions>): Promise<unknown> {
  const plain = await dial(port);
  const base = { host, alpn: ['http/1.1'], timeoutMs: 2_000, roots } as const;
  const error = await secure(plain, { ...base, ...options }).then(
    () => 'secured',
    (thrown: unknown) => thrown,
  );
  expect(plain.destroyed).toBe(true);
  return error;
}

describe('a connection to a server', () => {
  it.each(['TLSv1.2', 'TLSv1.3'] as const)('whose certificate is right carries bytes: %s', async (version) => {
    const socket = await secured(await serve(leaf(root, host), { minVersion: version, maxVersion: version }));
    expect([socket.authorized, socket.getProtocol(), socket.alpnProtocol]).toEqual([true, version, 'http/1.1']);
    socket.write('hello');
    expect(String((await once(socket, 'data'))[0])).toBe('hello');
  });

  it('names it, and speaks no protocol that was not asked for', async () => {
    const port = await serve(leaf(root, host), { ALPNProtocols: ['h2', 'http/1.1'] });
    const names = once(servers[0] as Server, 'secureConnection');
    expect((await secured(port)).alpnProtocol).toBe('http/1.1');
    expect((await names)[0].servername).toBe(host);
  });

  it('never resumes the session of another', async () => {
    const port = await serve(leaf(root, host));
    for (let round = 0; round < 3; round++) {
      const socket = await secured(port);
      socket.write('hello');
      await once(socket, 'data');
      expect(socket.isSessionReused()).toBe(false);
    }
  });

  it('is over when the server ends it, even though the one below could be half open', async () => {
    const socket = await secured(await serve(leaf(root, host)));
    const closed = once(socket, 'close');
    sockets[1]?.end();
    await closed;
  });

  it('survives a server that resets it', async () => {
    const socket = await secured(await serve(leaf(root, host)));
    const closed = new Promise((resolve) => socket.once('close', resolve));
    for (const accepted of sockets.slice(1)) accepted.resetAndDestroy();
    await closed;
  });
});

describe('a server', () => {
  it.each<[string, Identity, string]>([
    ['whose certificate has expired', leaf(root, host, { to: fromNow(-60_000) }), 'expired'],
    ['whose certificate is not valid yet', leaf(root, host, { from: fromNow(60_000) }), 'expired'],
    ['with the certificate of another host', leaf(root, other), 'wrong_name'],
    ['that signed for itself', leaf(undefined, host), 'untrusted'],
    ['of an authority that nobody knows', leaf(authority('unknown', patterns), host), 'untrusted'],
    ['of an authority with the name of a known one', leaf(authority('test root', patterns), host), 'untrusted'],
    ['of an authority that may not sign for it', leaf(authority('narrow', [below]), host), 'untrusted'],
  ])('%s is refused', async (_, served, code) => {
    expect(await fault(await serve(served))).toMatchObject({ name: 'TlsFault', code });
  });

  it('has to send the authorities on the way to the root', async () => {
    const mayDelegate = [extension('2.5.29.19', 'critical', sequence(yes))];
    const far = identity('far root', { extensions: () => mayDelegate });
    const between = authority('between', patterns, { issuer: far });
    const served = leaf(between, host);
    const known = { roots: [far.certificatePem] };
    expect(await fault(await serve(served), known)).toMatchObject({ code: 'untrusted' });
    const chain = { ...served, certificatePem: served.certificatePem + between.certificatePem };
    expect((await secured(await serve(chain), known)).authorized).toBe(true);
  });

  it('of a trusted authority that may not sign for it is refused', async () => {
    const narrow = authority('narrow', [below]);
    const error = await fault(await serve(leaf(narrow, host)), { roots: [narrow.certificatePem] });
    expect(error).toMatchObject({ code: 'untrusted' });
  });

  it('is refused whatever the environment says of certificates', async () => {
    const before = process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
    try {
      expect(await fault(await serve(leaf(undefined, host)))).toMatchObject({ code: 'untrusted' });
    } finally {
      if (before === undefined) delete process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
      else process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = before;
    }
  });

  it('of one list of roots is not trusted with another', async () => {
    const port = await serve(leaf(root, host));
    expect(await fault(port, { roots: [] })).toMatchObject({ code: 'untrusted' });
    expect((await secured(port)).authorized).toBe(true);
    expect(await fault(port, { roots: [authority('another', patterns).certificatePem] })).toMatchObject({
      code: 'untrusted',
    });
  });

  it('says nothing of its certificate in the reason', async () => {
    const error = (await fault(await serve(leaf(root, other)))) as Error;
    expect(error.message).toBe('Cannot make a TLS connection to api.example: its certificate is for other hosts');
  });

  it.each<[string, TlsOptions]>([
    ['of TLS 1.1', { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }],
    ['with no protocol in common', { ALPNProtocols: ['spdy/3'] }],
  ])('%s is a failed handshake', async (_, options) => {
    expect(await fault(await serve(leaf(root, host), options))).toMatchObject({ code: 'handshake' });
  });

  it('that speaks no TLS is a failed handshake', async () => {
    const port = await listening(createTcpServer((socket) => socket.write('SSH-2.0-x\r\n')));
    expect(await fault(port)).toMatchObject({ code: 'handshake' });
  });

  it('that says nothing is given up', async () => {
    const port = await listening(createTcpServer());
    expect(await fault(port, { timeoutMs: 50 })).toMatchObject({ code: 'timeout' });
  });

  it.each<[string, (socket: Socket) => void]>([
    ['that ends the connection', (socket) => socket.once('data', () => socket.end())],
    ['that resets it', (socket) => socket.once('data', () => socket.resetAndDestroy())],
  ])('%s is gone', async (_, act) => {
    expect(await fault(await listening(createTcpServer(act)))).toMatchObject({ code: 'closed' });
  });

  it('whose connection has ended before is gone', async () => {
    const plain = await dial(await listening(createTcpServer()));
    plain.destroy();
    await expect(secure(plain, { host, alpn: ['http/1.1'], timeoutMs: 50 })).rejects.toMatchObject({ code: 'closed' });
  });
});
