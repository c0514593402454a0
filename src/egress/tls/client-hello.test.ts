import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { Duplex } from 'node:stream';
import { type ConnectionOptions, connect, createSecureContext, TLSSocket } from 'node:tls';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ClientHello, readClientHello } from './client-hello.ts';

type Hello = Extract<ClientHello, { kind: 'hello' }>;

let server: Server;
beforeAll(async () => {
  server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
});
afterAll(() => void server.close());

/** The first bytes that Node's TLS client really sends. */
async function realHello(options: ConnectionOptions): Promise<Buffer> {
  const accepted = once(server, 'connection');
  const client = connect({ host: '127.0.0.1', port: (server.address() as AddressInfo).port, ...options });
  client.on('error', () => undefined);
  const [socket] = await accepted;
  const [bytes] = await once(socket, 'data');
  socket.destroy();
  client.destroy();
  return bytes as Buffer;
}

const u16 = (value: number): number[] => [value >> 8, value & 0xff];
const zeros = (count: number): number[] => Array.from({ length: count }, () => 0);
const u24 = (value: number): number[] => [value >> 16, ...u16(value & 0xffff)];
const vector8 = (bytes: readonly number[]): number[] => [bytes.length, ...bytes];
const vector16 = (bytes: readonly number[]): number[] => [...u16(bytes.length), ...bytes];
const ascii = (text: string): number[] => [...Buffer.from(text, 'latin1')];
const extension = (type: number, data: readonly number[]): number[] => [...u16(type), ...vector16(data)];
const entry = (name: string, type = 0): number[] => [type, ...vector16(ascii(name))];
const serverNames = (...entries: readonly number[][]): number[] => extension(0, vector16(entries.flat()));

interface Parts {
  readonly version?: number;
  readonly ciphers?: readonly number[];
  readonly compression?: readonly number[];
  /** The extensions as a whole; null: not even their length. */
  readonly extensions?: readonly number[] | null;
  readonly rest?: readonly number[];
}

function message({ version = 0x0303, ciphers = [0x13, 0x01], compression = [0], ...more }: Parts = {}): number[] {
  const { extensions = serverNames(entry('api.example')), rest = [] } = more;
  const random = Array.from({ length: 32 }, (_, index) => index);
  const tail = extensions === null ? [] : vector16(extensions);
  const body = [...u16(version), ...random, 0, ...vector16(ciphers), ...vector8(compression), ...tail, ...rest];
  return [1, ...u24(body.length), ...body];
}

/** In records of so many bytes. */
function records(bytes: readonly number[], size = 2 ** 14): Buffer {
  const parts: number[] = [];
  for (let at = 0; at < bytes.length; at += size) parts.push(22, 3, 1, ...vector16(bytes.slice(at, at + size)));
  return Buffer.from(parts);
}

const hello = (parts?: Parts): ClientHello => readClientHello(records(message(parts)));
const named = (...entries: readonly number[][]): ClientHello => hello({ extensions: serverNames(...entries) });

describe('a ClientHello of a real client', () => {
  it('says its server name, protocols and versions', async () => {
    const bytes = await realHello({ servername: 'api.example', ALPNProtocols: ['h2', 'http/1.1'] });
    expect(readClientHello(bytes)).toEqual({
      kind: 'hello',
      serverName: 'api.example',
      serverNameText: 'api.example',
      alpn: ['h2', 'http/1.1'],
      encryptedHello: false,
      versions: [0x0304, 0x0303],
    });
  });

  it('of TLS 1.2 alone has its version from the old field', async () => {
    const bytes = await realHello({ servername: 'api.example', maxVersion: 'TLSv1.2' });
    expect(readClientHello(bytes)).toMatchObject({ kind: 'hello', versions: [0x0303] });
  });

  it('has no server name when none was sent', async () => {
    const read = readClientHello(await realHello({ servername: '' }));
    expect(read).toMatchObject({ kind: 'hello', alpn: [] });
    expect(read).not.toHaveProperty('serverName');
    expect(read).not.toHaveProperty('serverNameText');
  });

  it('is read the same however it was cut into records', async () => {
    const bytes = await realHello({ servername: 'api.example', ALPNProtocols: ['h2'] });
    const size = fc.integer({ min: Math.ceil((bytes.length - 5) / 64), max: bytes.length });
    fc.assert(
      fc.property(size, (length) => {
        expect(readClientHello(records([...bytes.subarray(5)], length))).toEqual(readClientHello(bytes));
      }),
    );
  });

  it('is incomplete until its last byte, and says how much is needed', async () => {
    const bytes = await realHello({ servername: 'api.example' });
    for (let length = 0; length < bytes.length; length++) {
      const read = readClientHello(bytes.subarray(0, length));
      expect(read.kind).toBe('incomplete');
      expect((read as { needBytes: number }).needBytes).toBe(length < 5 ? 5 : bytes.length);
    }
    expect(readClientHello(bytes).kind).toBe('hello');
  });
});

describe('the server name', () => {
  it('is one host name, in lower case, without a dot at its end', () => {
    expect(named(entry('API.Example.'))).toMatchObject({ serverName: 'api.example', serverNameText: 'API.Example.' });
  });

  it.each([
    ['a NUL', 'evil.example\0.api.example', 'evil.example\\x00.api.example'],
    ['bytes that are not ASCII', 'b\xfccher.example', 'b\\xfccher.example'],
    ['full-width letters in UTF-8', '\xef\xbd\x81pi.example', '\\xef\\xbd\\x81pi.example'],
    ['an IPv4 address', '192.0.2.1', '192.0.2.1'],
    ['an IPv4 address as one number', '3221225985', '3221225985'],
    ['an IPv6 address', '2001:db8::1', '2001:db8::1'],
    ['an empty label', 'api..example', 'api..example'],
    ['a line break', 'api.example\r\n', 'api.example\\x0d\\x0a'],
    ['a backslash', 'api\\x00.example', 'api\\x5cx00.example'],
    ['a space', 'api .example', 'api\\x20.example'],
    ['more than 253 bytes', `${'a.'.repeat(127)}a`, `${'a.'.repeat(127)}a`],
  ])('with %s is no host name, but is on record', (_, sent, text) => {
    const read = named(entry(sent));
    expect(read).not.toHaveProperty('serverName');
    expect(read).toMatchObject({ kind: 'hello', serverNameText: text });
  });

  it('of any length is on record with its first 255 bytes', () => {
    const read = named(entry('\0'.repeat(60_000))) as Hello;
    expect(read.serverName).toBeUndefined();
    expect(read.serverNameText).toBe('\\x00'.repeat(255));
  });

  it.each([
    ['two names', [entry('api.example'), entry('evil.example')]],
    ['the same name twice', [entry('api.example'), entry('api.example')]],
    ['a name of another kind', [entry('api.example', 1)]],
    ['a name of another kind after it', [entry('api.example'), entry('evil.example', 1)]],
    ['an empty name', [entry('')]],
    ['no name', []],
    ['a byte after it', [entry('api.example'), [0]]],
  ])('in a list with %s is malformed', (_, entries) => {
    expect(named(...entries)).toMatchObject({ kind: 'malformed' });
  });

  it('in two extensions is malformed', () => {
    const extensions = [...serverNames(entry('api.example')), ...serverNames(entry('evil.example'))];
    expect(hello({ extensions })).toEqual({ kind: 'malformed', reason: 'the list of extensions has type 0 twice' });
  });

  it('in an extension that goes on is malformed', () => {
    const data = [...vector16(entry('api.example')), 0];
    expect(hello({ extensions: extension(0, data) })).toMatchObject({ kind: 'malformed' });
    expect(hello({ extensions: extension(0, []) })).toMatchObject({ kind: 'malformed' });
  });
});

describe('the extensions', () => {
  it.each([
    ['RFC 9849', 0xfe0d],
    ['draft 08', 0xfe08],
    ['ECHO', 0xff02],
    ['ESNI', 0xffce],
  ])('tell of an encrypted hello: %s', (_, type) => {
    const extensions = [...serverNames(entry('api.example')), ...extension(type, [0, 1, 2])];
    expect(hello({ extensions })).toMatchObject({ serverName: 'api.example', encryptedHello: true });
  });

  it('may be absent, and then only TLS 1.2 and older is spoken', () => {
    const expected = { kind: 'hello', alpn: [], encryptedHello: false };
    expect(hello({ extensions: null, version: 0x0302 })).toEqual({ ...expected, versions: [0x0302] });
    expect(hello({ extensions: [], version: 0x0303 })).toEqual({ ...expected, versions: [0x0303] });
  });

  it.each([
    ['of ALPN with an empty protocol', extension(16, vector16([0]))],
    ['of ALPN without one', extension(16, vector16([]))],
    ['of ALPN with too many', extension(16, vector16(Array.from({ length: 65 }, () => [1, 0x61]).flat()))],
    ['of ALPN that goes on', extension(16, [...vector16([1, 0x61]), 0])],
    ['of versions with half of one', extension(43, vector8([3, 4, 3]))],
    ['of versions without one', extension(43, vector8([]))],
    ['of any kind twice', [...extension(0x1234, []), ...extension(0x1234, [])]],
    ['longer than their list', [...u16(0x1234), ...u16(1)]],
    ['cut within their type', [0x12]],
  ])('%s are malformed', (_, extensions) => {
    expect(hello({ extensions })).toMatchObject({ kind: 'malformed' });
  });
});

describe('a ClientHello', () => {
  it.each<[string, Parts]>([
    ['with bytes after its extensions', { rest: [0] }],
    ['of SSL 3', { version: 0x0300 }],
    ['of a version that is none', { version: 0x7f1c }],
    ['without a cipher suite', { ciphers: [] }],
    ['with half a cipher suite', { ciphers: [0x13, 0x01, 0x13] }],
    ['without a compression method', { compression: [] }],
    ['that insists on compression', { compression: [1] }],
  ])('%s is malformed', (_, parts) => {
    expect(hello(parts)).toMatchObject({ kind: 'malformed' });
  });

  it('that ends within each of its parts is malformed', () => {
    const [, , , , ...body] = message();
    for (let length = 0; length < body.length; length++) {
      const cut = records([1, ...u24(length), ...body.slice(0, length)]);
      // all before the extensions may stand alone
      const isWhole = length === 2 + 32 + 1 + 4 + 2;
      expect(readClientHello(cut).kind).toBe(isWhole ? 'hello' : 'malformed');
    }
  });

  it('may be followed by other records: early data, a change of ciphers', () => {
    const early = Buffer.from([23, 3, 3, 0, 1, 0xff]);
    expect(readClientHello(Buffer.concat([records(message()), early])).kind).toBe('hello');
  });

  it('with more in its own record is malformed', () => {
    expect(readClientHello(records([...message(), 1, 0, 0, 0]))).toMatchObject({ kind: 'malformed' });
  });
});

describe('the records', () => {
  const whole = message();
  it.each<[string, Buffer]>([
    ['with an empty one among them', Buffer.concat([records(whole.slice(0, 50)), Buffer.from([22, 3, 1, 0, 0])])],
    ['with one of another type', Buffer.concat([records(whole.slice(0, 50)), Buffer.from([21, 3, 1, 0, 2, 1, 0])])],
    ['of SSL 3', Buffer.from([22, 3, 0, 0, 4, 1, 0, 0, 0])],
    ['of a version to come', Buffer.from([22, 3, 5, 0, 4, 1, 0, 0, 0])],
    ['longer than 16 KiB', Buffer.from([22, 3, 1, 0x40, 0x01])],
    ['with another message first', Buffer.from([22, 3, 1, 0, 1, 2])],
    ['more than 64', records(whole, 1)],
    ['for more than 64 KiB', Buffer.from([22, 3, 1, 0, 4, 1, 1, 0, 0])],
  ])('%s are malformed', (_, bytes) => {
    expect(readClientHello(bytes)).toMatchObject({ kind: 'malformed' });
  });

  it('may hold 64 KiB between them', () => {
    const padding = extension(21, zeros(0xff00));
    const bytes = records(message({ extensions: [...serverNames(entry('api.example')), ...padding] }), 1_100);
    expect(bytes.length).toBeGreaterThan(65_000);
    expect(readClientHello(bytes)).toMatchObject({ kind: 'hello', serverName: 'api.example' });
  });

  it('are refused at the first byte that is wrong, not when all has come', () => {
    expect(readClientHello(Buffer.from([22, 3, 9])).kind).toBe('malformed');
    expect(readClientHello(Buffer.from([22, 3, 1, 0, 200, 2])).kind).toBe('malformed');
    expect(readClientHello(Buffer.from([22, 3, 1, 0, 200, 1, 0xff, 0, 0])).kind).toBe('malformed');
  });
});

describe('other first bytes', () => {
  it.each([
    ['HTTP', ascii('GET / HTTP/1.1\r\n')],
    ['SSH', ascii('SSH-2.0-x\r\n')],
    ['a length that begins as a handshake record does', [22, 0, 0, 0, 1]],
    ['an alert', [21, 3, 3, 0, 2, 1, 0]],
    ['bytes with the high bit', [0x80, 0x2e, 0x02, 0, 2]],
  ])('are not TLS: %s', (_, bytes) => {
    expect(readClientHello(Buffer.from(bytes))).toEqual({ kind: 'not-tls' });
  });

  it('of SSLv2, and of SSLv2 that offers more, are malformed', () => {
    expect(readClientHello(Buffer.from([0x80, 0x2e, 1, 0, 2, 0, 3])).kind).toBe('malformed');
    expect(readClientHello(Buffer.from([0x80, 0x2e, 1, 3, 1, 0, 3])).kind).toBe('malformed');
    expect(readClientHello(Buffer.from([0x80, 0x2e, 1])).kind).toBe('incomplete');
  });

  it('that have not come are incomplete', () => {
    expect(readClientHello(Buffer.alloc(0))).toEqual({ kind: 'incomplete', needBytes: 5 });
  });
});

describe('whatever the bytes', () => {
  const kinds = new Set(['incomplete', 'not-tls', 'malformed', 'hello']);
  const whole = records(
    message({ extensions: [...serverNames(entry('api.example')), ...extension(16, vector16([2, 0x68, 0x32]))] }),
    40,
  );

  it('any bytes have an answer', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 600 }), fc.constantFrom([], [22, 3, 1]), (bytes, start) => {
        expect(kinds).toContain(readClientHello(Buffer.from([...start, ...bytes])).kind);
      }),
      { numRuns: 5_000 },
    );
  });

  it('a hello that was changed has an answer, and a name in it is a host name', () => {
    const change = fc.record({ at: fc.nat(whole.length - 1), byte: fc.nat(255), drop: fc.nat(3), add: fc.nat(2) });
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 4 }), (changes) => {
        const bytes = [...whole];
        for (const { at, byte, drop, add } of changes) bytes.splice(at, drop, ...zeros(add).map(() => byte));
        const read = readClientHello(Buffer.from(bytes));
        expect(kinds).toContain(read.kind);
        if (read.kind === 'hello') expect(read.serverName ?? 'a').toMatch(/^[a-z0-9_.-]+$/);
      }),
      { numRuns: 20_000 },
    );
  });

  it('a hello that was cut off is never taken for a whole one, nor for something else', () => {
    fc.assert(
      fc.property(fc.nat(whole.length - 1), (length) => {
        expect(readClientHello(whole.subarray(0, length)).kind).toBe('incomplete');
      }),
    );
  });

  it('asking after every byte of 64 KiB costs little', () => {
    const padding = extension(21, zeros(0xff00));
    const bytes = records(message({ extensions: padding }), 1_100);
    const startMs = performance.now();
    for (let length = 0; length <= bytes.length; length++) readClientHello(bytes.subarray(0, length));
    expect(performance.now() - startMs).toBeLessThan(3_000);
  });
});

describe('a server that reads the same bytes', () => {
  /** The name that OpenSSL would serve; undefined: it refuses, or there is none. */
  function nameServed(bytes: Buffer): Promise<string | undefined> {
    return new Promise((resolve) => {
      const ignore = (_chunk: unknown, _encoding: unknown, done: () => void): void => done();
      const wire = new Duplex({ allowHalfOpen: false, read: () => undefined, write: ignore });
      const served = new TLSSocket(wire, {
        isServer: true,
        secureContext: createSecureContext({ ca: [] }),
        SNICallback: (name) => {
          resolve(name);
          wire.destroy();
        },
      });
      served
        .on('error', () => undefined)
        .once('close', () => resolve(undefined))
        .resume();
      wire.push(bytes);
      wire.push(null);
    });
  }

  it('never sees a name that we did not see', async () => {
    const whole = await realHello({ servername: 'api.example', ALPNProtocols: ['h2'], maxVersion: 'TLSv1.2' });
    const name = whole.indexOf('api.example');
    expect(await nameServed(whole)).toBe('api.example');
    let served = 0;
    // near the name, and in the headers
    const place = fc.oneof(fc.integer({ min: name - 12, max: name + 14 }), fc.nat(50), fc.nat(whole.length - 1));
    const change = fc.record({ at: place, byte: fc.nat(255) });
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 2 }), async (changes) => {
        const bytes = Buffer.from(whole);
        for (const { at, byte } of changes) bytes[at] = byte;
        const theirs = await nameServed(bytes);
        if (theirs === undefined) return;
        served += 1;
        const ours = readClientHello(bytes);
        if (ours.kind === 'malformed') return;
        expect(ours.kind).toBe('hello');
        if (/^[!-[\]-~]+$/.test(theirs)) expect(ours).toMatchObject({ serverNameText: theirs });
        else expect(ours).not.toHaveProperty('serverName');
      }),
      { numRuns: 800 },
    );
    expect(served).toBeGreaterThan(100);
  }, 20_000);
});
