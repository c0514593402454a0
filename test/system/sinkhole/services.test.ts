/** What the world offers: names, TLS with every fault, and a web that is as careless as some are. Needs root. */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { openVantage } from './vantage.ts';

const dnsContact = 'udp 203.0.113.53:53';

const vantage = await openVantage({
  zone: {
    'both.example': { a: ['192.0.2.7', '192.0.2.8'], aaaa: ['2001:db8::7'], ttlSeconds: 5 },
    'alias.example': { cname: 'both.example' },
    'rebinding.example': [{ a: ['192.0.2.7'] }, { a: ['127.0.0.1'] }],
  },
});
const { world, folder, ca, run, client, curl } = vantage;

afterAll(() => vantage.close());
afterEach(() => world.forget());

describe('names', () => {
  const dns = (...words: readonly string[]) => client('dns', '203.0.113.53', ...words);
  const a = (name: string, data: string) => ({ name, type: 'A', ttl: 5, data });

  it('of the zone have their addresses, by UDP and TCP, in any spelling', async () => {
    const answers = [a('BOTH.example', '192.0.2.7'), a('BOTH.example', '192.0.2.8')];
    expect(await dns('BOTH.example', 'A')).toEqual({ rcode: 'NOERROR', isTruncated: false, isOurs: true, answers });
    expect(await dns('both.example', 'AAAA', '--tcp')).toMatchObject({ answers: [{ data: '2001:db8::7' }] });
    expect(await dns('alias.example', 'A')).toMatchObject({
      answers: [{ type: 'CNAME', data: 'both.example' }, { data: '192.0.2.7' }, { data: '192.0.2.8' }],
    });
    expect(world.questions()).toEqual([
      { name: 'BOTH.example', type: 'A', transport: 'udp' },
      { name: 'both.example', type: 'AAAA', transport: 'tcp' },
      { name: 'alias.example', type: 'A', transport: 'udp' },
    ]);
    await world.expectOnly(dnsContact, 'tcp 203.0.113.53:53');
    expect(world.seen().map(({ question }) => question)).toEqual(['BOTH.example', undefined, 'alias.example']);
  });

  it('of other types are empty, unknown names do not exist, and the zone may change', async () => {
    expect(await dns('both.example', 'TXT')).toMatchObject({ rcode: 'NOERROR', answers: [] });
    expect(await dns('new.example', 'A')).toMatchObject({ rcode: 'NXDOMAIN', answers: [] });
    world.zone.set('new.example', { a: ['192.0.2.77'] });
    expect(await dns('new.example', 'A')).toMatchObject({ answers: [{ data: '192.0.2.77' }] });
  });

  it('NX-10: may have another address each time', async () => {
    const answers = [await dns('rebinding.example', 'A'), await dns('rebinding.example', 'A')];
    expect(answers).toMatchObject([{ answers: [{ data: '192.0.2.7' }] }, { answers: [{ data: '127.0.0.1' }] }]);
  });

  it('asked of any other resolver are seen as they were spelt, and unanswered', async () => {
    const answer = await client('dns', '8.8.8.8', 'secret\\x00data.evil.example', 'NULL');
    expect(answer).toMatchObject({ error: 'ECONNREFUSED' });
    await world.settle();
    expect(world.seen()).toMatchObject([{ address: '8.8.8.8', port: 53, question: 'secret\0data.evil.example' }]);
  });
});

describe('TLS', () => {
  const at = (name: string): string[] => ['--resolve', `${name}:443:192.0.2.20`];

  it('has a certificate for any name, HTTP/2 and HTTP/1.1', async () => {
    const first = await curl(...at('any.example'), 'https://any.example/');
    expect(JSON.parse(first)).toMatchObject({ scheme: 'https', serverName: 'any.example', httpVersion: '2.0' });
    const second = await curl('--http1.1', ...at('any.example'), 'https://any.example/');
    expect(JSON.parse(second)).toMatchObject({ serverName: 'any.example', httpVersion: '1.1' });
    expect(world.connections().map((connection) => connection.received().toString())).toEqual([
      expect.stringMatching(/^GET \/ HTTP\/1.1\r\nHost: any.example\r\n/),
    ]);
    await world.expectOnly('tcp 192.0.2.20:443');
  });

  it.each([
    ['expired.example', 'certificate has expired'],
    ['wrongname.example', "certificate is not valid for 'wrongname.example'"],
    ['selfsigned.example', 'self-signed certificate'],
  ])('NX-44: %s is refused by a client that checks', async (name, reason) => {
    const tls = ['tls', '192.0.2.20', '443', '--sni', name, '--ca', ca];
    expect((await client(...tls))['message']).toContain(reason);
    expect(await client(...tls, '--insecure')).toMatchObject({ status: '200' });
  });

  it('NX-17, NX-18: takes a name, a Host and no name at all as they come', async () => {
    const words = ['tls', '192.0.2.20', '8443', '--ca', ca];
    const fronted = await client(...words, '--sni', 'allowed.example', '--host-header', 'evil.example');
    expect(fronted).toMatchObject({ status: '200', issuer: 'Sinkhole test root' });
    expect(await client(...words, '--no-sni')).toMatchObject({ status: '200' });
    const [one, two] = world.requests();
    expect(one).toMatchObject({
      serverName: 'allowed.example',
      headers: [['Host', 'evil.example'], expect.anything()],
    });
    expect(two?.serverName).toBeUndefined();
  });

  it('survives every odd hello', async () => {
    expect(await client('hello', '192.0.2.20', '443', 'valid')).toMatchObject({
      received: expect.stringMatching(/^160303/),
    });
    const kinds = ['ech', 'noise', 'huge-record', 'sslv2', 'endless-hello', 'two-names', 'lying-length'];
    for (const kind of kinds) expect(await client('hello', '192.0.2.20', '443', kind)).toHaveProperty('ending');
    expect(await curl(...at('any.example'), 'https://any.example/status/200')).toBe('');
  });
});

describe('the web', () => {
  const base = 'http://192.0.2.30';

  it('gives bytes, takes bytes, redirects', async () => {
    expect((await curl(`${base}/bytes/1000000`)).length).toBe(1_000_000);
    const sha256 = createHash('sha256').update('x'.repeat(300_000)).digest('hex');
    writeFileSync(join(folder, 'upload'), 'x'.repeat(300_000));
    const stored = await curl('--data-binary', `@${join(folder, 'upload')}`, `${base}/upload`);
    expect(JSON.parse(stored)).toEqual({ bytes: 300_000, sha256 });
    await curl('-L', `${base}/redirect?to=http://198.51.100.1/end`);
    await world.expectOnly('tcp 192.0.2.30:80', 'tcp 198.51.100.1:80');
  });

  it('sends events one by one', async () => {
    const begun = performance.now();
    expect(await curl('-N', `${base}/sse/4`)).toBe('data: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4\n\n');
    expect(performance.now() - begun).toBeGreaterThan(140);
  });

  it('echoes over WebSocket', async () => {
    const program = `
      const socket = new (require('ws'))('ws://192.0.2.30/ws');
      socket.on('open', () => socket.send('hello')).on('message', (data) => { console.log(String(data)); socket.close(); });`;
    expect(await run(process.execPath, '-e', program)).toBe('hello\n');
    expect(world.requests()).toMatchObject([{ target: '/ws' }]);
  });

  it('NX-22: puts an answer that nobody asked for on the connection', async () => {
    const sent = 'GET /inject HTTP/1.1\\r\\nHost: a.example\\r\\n\\r\\n';
    const { statuses, received } = await client('http', '192.0.2.30', '80', '--bytes', sent);
    expect(statuses).toEqual([200]);
    expect(received).toMatch(/wantedHTTP\/1.1 200 OK\r\n.*injected$/s);
  });

  it('NX-21: believes a smuggler, and keeps what came byte by byte', async () => {
    expect(await client('http', '192.0.2.30', '80', 'cl-te')).toMatchObject({ statuses: [200, 200] });
    expect(world.requests()).toMatchObject([{ target: '/visible' }, { target: '/hidden' }]);
    expect(world.connections()[0]?.received().toString()).toContain('0\r\n\r\nGET /hidden HTTP/1.1\r\n');
  });

  it('bears floods', async () => {
    expect(await client('pipeline', '192.0.2.30', '80')).toEqual({
      answers: 10_000,
      unsentBytes: 0,
      ending: 'complete',
    });
    expect(await client('big-header', '192.0.2.30', '80')).toHaveProperty('received', expect.stringContaining(' 400 '));
    const loris = ['slow-loris', '192.0.2.30', '80', '--connections', '20', '--duration', '1'];
    expect(await client(...loris)).toEqual({ opened: 20, open: 20, endedAfter: [] });
  });

  it('has one git repository, the same every time', async () => {
    const url = 'https://git.example/git/repository.git';
    const options = ['-c', `http.sslCAInfo=${ca}`, '-c', 'http.curloptResolve=git.example:443:192.0.2.40'];
    const target = join(folder, 'clone');
    await run('git', ...options, 'clone', '-q', url, target);
    expect(readFileSync(join(target, 'README'), 'utf8')).toBe('from the sinkhole\n');
    await run('git', ...options, '-C', target, 'fetch', '-q', 'origin');
    expect(world.requests().map(({ target: path }) => path)).toContain('/git/repository.git/git-upload-pack');
    await world.expectOnly('tcp 192.0.2.40:443');
  });
});
