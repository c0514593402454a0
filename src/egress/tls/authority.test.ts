import { generateKeyPairSync, type KeyObject, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect, createSecureContext, createServer, type SecureContext } from 'node:tls';
import { inspect } from 'node:util';
import { serialize } from 'node:v8';
import { afterEach, describe, expect, it } from 'vitest';
import { type HostName, parseHostName } from '../../network/host-name.ts';
import { type HostPattern, parseHostPattern } from '../../network/host-pattern.ts';
import { createAuthority } from './authority.ts';
import { authorityExtensions, extension, leafExtensions, signCertificate } from './certificate.ts';
import { sequence, tagged } from './der.ts';

const name = (text: string): HostName => parseHostName(text) as HostName;
const patterns = (...texts: readonly string[]): HostPattern[] =>
  texts.map((text) => parseHostPattern(text) as HostPattern);
const now = new Date();
const later = new Date(now.getTime() + 60_000);
const hourMs = 60 * 60_000;
const make = (...hosts: readonly string[]) =>
  createAuthority({ sandboxId: 'sb-1', hosts: patterns(...hosts), now, notAfter: later });

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** @returns "trusted", or why a client that trusts the authority does not trust this */
async function verdict(context: SecureContext, certificatePem: string, host: string): Promise<string> {
  const server = createServer({ SNICallback: (_, done) => done(null, context) });
  server.on('tlsClientError', () => undefined).on('secureConnection', (socket) => socket.on('error', () => undefined));
  closers.push(() => server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const client = connect({ port, host: '127.0.0.1', servername: host, ca: certificatePem });
  closers.push(() => client.destroy());
  return once(client, 'secureConnect').then(
    () => 'trusted',
    (error: Error) => error.message,
  );
}

/** An authority as ours are, whose key somebody got hold of. */
class StolenAuthority {
  readonly #keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  readonly certificatePem: string;

  constructor(...hosts: readonly string[]) {
    this.certificatePem = this.#sign('stolen', this.#keys.publicKey, (key) =>
      authorityExtensions(key, patterns(...hosts)),
    );
  }

  context(extensions: (issuerKey: KeyObject) => Buffer[]): SecureContext {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const cert = this.#sign('leaf', publicKey, () => extensions(this.#keys.publicKey));
    return createSecureContext({ cert, key: privateKey.export({ format: 'pem', type: 'pkcs8' }) });
  }

  leaf(host: string): SecureContext {
    return this.context((key) => leafExtensions(name(host), key));
  }

  /** A leaf under an authority that this one signed. */
  delegated(host: string): SecureContext {
    const middle = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const chain = [
      this.#sign('leaf', publicKey, () => leafExtensions(name(host), middle.publicKey), 'middle', middle.privateKey),
      this.#sign('middle', middle.publicKey, (key) => authorityExtensions(key, patterns(host))),
    ];
    return createSecureContext({ cert: chain.join(''), key: privateKey.export({ format: 'pem', type: 'pkcs8' }) });
  }

  #sign(
    subject: string,
    publicKey: KeyObject,
    extensions: (key: KeyObject) => Buffer[],
    issuer = 'stolen',
    signingKey = this.#keys.privateKey,
  ): string {
    const times = { notBefore: new Date(now.getTime() - hourMs), notAfter: later };
    return signCertificate({ subject, issuer, publicKey, signingKey, ...times, extensions: extensions(publicKey) });
  }
}

describe('the authority of a sandbox', () => {
  it.each(['api.example', 'a.dev.example', 'a.b.dev.example', 'x_1.dev.example', 'xn--bcher-kva.dev.example'])(
    'signs for a host of its rules: %s',
    async (host) => {
      const authority = make('api.example', '*.dev.example');
      expect(authority.covers(name(host))).toBe(true);
      expect(await verdict(authority.secureContextFor(name(host)), authority.certificatePem, host)).toBe('trusted');
    },
  );

  it.each(['dev.example', 'x.api.example', 'example', 'evilapi.example', 'api.example.evil.example'])(
    'signs for no other: %s',
    (host) => {
      const authority = make('api.example', '*.dev.example');
      expect(authority.covers(name(host))).toBe(false);
      expect(() => authority.secureContextFor(name(host))).toThrow(expect.objectContaining({ code: 'internal' }));
    },
  );

  it('is not trusted by another sandbox', async () => {
    const [one, two] = [make('api.example'), make('api.example')];
    expect(await verdict(one.secureContextFor(name('api.example')), two.certificatePem, 'api.example')).not.toBe(
      'trusted',
    );
  });

  it('signs for a host of 253 bytes', async () => {
    const host = `${'a'.repeat(63)}.${'b'.repeat(63)}.${'c'.repeat(63)}.${'d'.repeat(53)}.example`;
    const authority = make(host);
    expect(host).toHaveLength(253);
    expect(await verdict(authority.secureContextFor(name(host)), authority.certificatePem, host)).toBe('trusted');
  });

  it('signs for thousands of hosts', async () => {
    const authority = make(...Array.from({ length: 3_000 }, (_, index) => `host-${index}.example`));
    const host = 'host-2999.example';
    expect(await verdict(authority.secureContextFor(name(host)), authority.certificatePem, host)).toBe('trusted');
  });

  it('is valid for the life of the sandbox, and an hour more on both ends', () => {
    const certificate = new X509Certificate(make('api.example').certificatePem);
    const seconds = (date: Date): number => Math.floor(date.getTime() / 1_000);
    expect(seconds(new Date(certificate.validFrom))).toBe(seconds(new Date(now.getTime() - hourMs)));
    expect(seconds(new Date(certificate.validTo))).toBe(seconds(new Date(later.getTime() + hourMs)));
    expect(certificate.subject).toBe('CN=Sallyport sandbox sb-1');
    expect(certificate.ca).toBe(true);
  });

  it('without a host to sign for is an error', () => {
    expect(() => make()).toThrow(expect.objectContaining({ code: 'internal' }));
  });

  it('keeps the contexts of the 256 hosts used last', () => {
    const authority = make('*.dev.example');
    const host = (index: number): HostName => name(`h${index}.dev.example`);
    const [first, second] = [authority.secureContextFor(host(0)), authority.secureContextFor(host(1))];
    for (let index = 2; index < 256; index++) authority.secureContextFor(host(index));
    expect(authority.secureContextFor(host(0))).toBe(first);
    authority.secureContextFor(host(256));
    expect(authority.secureContextFor(host(0))).toBe(first);
    expect(authority.secureContextFor(host(1))).not.toBe(second);
  });

  it('signs nothing once it is disposed of', () => {
    const authority = make('api.example');
    authority.secureContextFor(name('api.example'));
    authority.dispose();
    authority.dispose();
    expect(() => authority.secureContextFor(name('api.example'))).toThrow(
      expect.objectContaining({ code: 'sandbox_ended' }),
    );
  });

  it('shows its key to nobody who copies, prints or stores it', () => {
    const authority = make('api.example');
    authority.secureContextFor(name('api.example'));
    const shown = [
      JSON.stringify(authority),
      inspect(authority, { depth: 9, showHidden: true }),
      serialize({ ...authority }),
    ];
    for (const text of shown) {
      expect(String(text)).toContain('BEGIN CERTIFICATE');
      expect(String(text)).not.toMatch(/PRIVATE|KeyObject|SecureContext/);
    }
  });
});

describe('an authority whose key was stolen', () => {
  const stolen = new StolenAuthority('api.example', '*.dev.example');

  it.each(['api.example', 'a.dev.example'])('can still sign for the hosts of the rules: %s', async (host) => {
    expect(await verdict(stolen.leaf(host), stolen.certificatePem, host)).toBe('trusted');
  });

  it.each(['other.example', 'evilapi.example', 'example', 'api.example.evil'])(
    'can sign for no other: %s',
    async (host) => {
      expect(await verdict(stolen.leaf(host), stolen.certificatePem, host)).toBe('permitted subtree violation');
    },
  );

  it.each([
    ['IPv4', [192, 0, 2, 1]],
    ['IPv6', [...Buffer.alloc(15), 1]],
  ])('can sign for no address, beside a host or alone: %s', async (_, bytes) => {
    const address = tagged(7, 'primitive', Buffer.from(bytes));
    const host = tagged(2, 'primitive', Buffer.from('api.example'));
    for (const names of [sequence(address), sequence(host, address)]) {
      const context = stolen.context(() => [extension('2.5.29.17', 'usual', names)]);
      expect(await verdict(context, stolen.certificatePem, 'api.example')).toBe('excluded subtree violation');
    }
  });

  it('can sign for no authority below it', async () => {
    const said = await verdict(stolen.delegated('api.example'), stolen.certificatePem, 'api.example');
    expect(said).toBe('path length constraint exceeded');
  });
});

describe('serial numbers', () => {
  it('are positive, 127 bits long and drawn anew', () => {
    const serials = Array.from(
      { length: 50 },
      () => new X509Certificate(make('api.example').certificatePem).serialNumber,
    );
    expect(new Set(serials).size).toBe(50);
    for (const serial of serials) expect(serial).toMatch(/^[4-7][0-9A-F]{31}$/);
  });
});
