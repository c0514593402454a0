/**
 * The cases of section 2.7 (NX) of the attack table, in real sandboxes of every tier, against a world of the test's own that
 * records every packet (oracle O2): a case passes only when the world saw exactly what the policy allows. The daemon runs in
 * that world's namespace, so no packet of it can go anywhere else.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { EgressRecord } from '../../src/egress/records.ts';
import { type Api, type Daemon, eventually, makeHome, remains, removeHome, startDaemon } from './daemon.ts';
import { openClients } from './egress-clients.ts';
import { makeWorld, type World } from './sinkhole/world.ts';

const policy = fileURLToPath(new URL('egress-policy.yaml', import.meta.url));
const tiers = ['process', 'container'] as const;
const [a, b] = ['192.0.2.10', '192.0.2.11'];
const dns = 'udp 203.0.113.53:53';

const zone = {
  'sealed.example': { a: [a] },
  'x.wild.example': { a: [a] },
  'wild.example': { a: [a] },
  'no.wild.example': { a: [a] },
  'evilwild.example': { a: [a] },
  'opened.example': { a: [b] },
  'expired.opened.example': { a: [b] },
  'wrongname.opened.example': { a: [b] },
  'selfsigned.opened.example': { a: [b] },
  'chat.example': { a: [b] },
  'code.example': { a: [b] },
  'plain.example': { a: [a] },
  'db.example': { a: [a] },
  'internal.example': { a: ['10.0.0.1'] },
  'meta.example': { a: ['169.254.169.254'] },
  'mapped.example': { aaaa: ['::ffff:10.0.0.1'] },
  'self.example': { a: ['127.0.0.1'] },
};

let world: World;
let home: string;
let daemon: Daemon;
let api: Api;

beforeAll(async () => {
  world = await makeWorld({ zone });
  home = makeHome();
  const ca = join(home, 'world.pem');
  writeFileSync(ca, world.caPem);
  daemon = await startDaemon(home, ['--policy', policy, '--resolver', world.resolver, '--upstream-ca', ca], {
    wrapper: world.wrapper,
    reach: async (port) => (await world.openDoor(port)).port,
  });
  api = daemon.api;
});

afterAll(async () => {
  await daemon?.stop();
  expect(await remains(home)).toEqual([]);
  removeHome(home);
  await world?.close();
});

type Told = Readonly<Record<string, unknown>>;

describe.each(tiers)('in tier %s', (tier) => {
  let id: string;
  let client: (...words: readonly string[]) => Promise<Told>;
  let shell: (script: string) => Promise<{ exitCode: number | null; stdout: string; stderr: string }>;
  let last = 0;

  beforeAll(async () => {
    id = await api.create({ class: 'web', tier, ...(tier === 'container' ? { image: 'base' } : {}) });
    ({ client, shell } = await openClients(api, id));
  });

  afterAll(async () => {
    await api.json('DELETE', `/v1/sandboxes/${id}`);
  });

  beforeEach(async () => {
    last = (await records(0)).at(-1)?.sequence ?? 0;
    await world.forget();
  });

  async function records(after = last): Promise<readonly EgressRecord[]> {
    return (await api.json<{ records: EgressRecord[] }>('GET', `/v1/sandboxes/${id}/egress?after=${after}`)).records;
  }

  /** Oracle O5: an entry with this verdict is there, and says where it would have gone. */
  async function expectRecord(expected: Partial<EgressRecord>): Promise<void> {
    await eventually(`an entry ${JSON.stringify(expected)} among ${JSON.stringify(await records())}`, async () =>
      (await records()).some((record) =>
        Object.entries(expected).every(([key, value]) => record[key as keyof EgressRecord] === value),
      ),
    );
  }

  describe('what is allowed works, so that a refusal says something', () => {
    it('sealed TLS to a host, and to one below a wildcard', async () => {
      for (const host of ['sealed.example', 'x.wild.example']) {
        expect(await client('tls', host, '443', '--insecure')).toMatchObject({ status: '200' });
      }
      await world.expectOnly(dns, `tcp ${a}:443`);
      await expectRecord({ kind: 'connection', verdict: 'allow', rule: 'sealed', host: 'x.wild.example', address: a });
    });

    it('plain HTTP, raw TCP, a server that speaks first, a raw address of a block', async () => {
      expect(
        await client(
          'http',
          'plain.example',
          '80',
          '--bytes',
          'GET /x HTTP/1.1\\r\\nHost: plain.example\\r\\nConnection: close\\r\\n\\r\\n',
        ),
      ).toMatchObject({ statuses: [200] });
      expect(await client('connect', 'db.example', '7000', '--send', 'hello', '--all')).toMatchObject({
        received: 'hello',
      });
      expect(await client('connect', 'db.example', '7001')).toMatchObject({ received: expect.stringMatching(/./) });
      expect(await client('connect', a, '7000', '--send', 'raw', '--all')).toMatchObject({ received: 'raw' });
      await world.expectOnly(dns, `tcp ${a}:80`, `tcp ${a}:7000`, `tcp ${a}:7001`);
    });

    it('opened TLS with tools that were told nothing: curl, python, node, git', async () => {
      const url = 'https://opened.example/open/x';
      expect((await shell(`curl -sS -o /dev/null -w '%{http_code}' ${url}`)).stdout).toBe('200');
      expect(
        (await shell(`python3 -c 'import urllib.request; print(urllib.request.urlopen("${url}").status)'`)).stdout,
      ).toBe('200\n');
      expect(
        (await shell(`node -e 'require("https").get("${url}", (r) => { console.log(r.statusCode); r.resume(); })'`))
          .stdout,
      ).toBe('200\n');
      expect((await shell('rm -rf r && git clone -q https://code.example/git/repository.git r && ls r')).exitCode).toBe(
        0,
      );
      await world.expectOnly(dns, `tcp ${b}:443`);
      await expectRecord({
        kind: 'request',
        verdict: 'allow',
        rule: 'opened',
        method: 'GET',
        path: '/open/x',
        status: 200,
      });
    });
  });

  const refused: readonly (readonly [string, readonly string[], Partial<EgressRecord>])[] = [
    [
      'NX-01: a public IPv4 address',
      ['connect', '198.51.100.1', '443', '--send', 'x'],
      { address: '198.51.100.1', verdict: 'deny' },
    ],
    [
      'NX-02: an IPv6 address',
      ['connect', '2001:db8:ffff::1', '443', '--send', 'x'],
      { address: '2001:db8:ffff::1', verdict: 'deny' },
    ],
    [
      'NX-03: another port of an allowed host',
      ['connect', 'sealed.example', '8443', '--send', 'x'],
      { host: 'sealed.example', port: 8443, code: 'wrong_port' },
    ],
    ['NX-03: SSH', ['connect', '198.51.100.1', '22'], { port: 22, verdict: 'deny' }],
    [
      'NX-06: NAT64 of a metadata address',
      ['connect', '64:ff9b::a9fe:a9fe', '80', '--send', 'x'],
      { code: 'forbidden_address' },
    ],
    [
      'NX-06: an IPv4-compatible address',
      ['connect', '::10.0.0.1', '80', '--send', 'x'],
      { code: 'forbidden_address' },
    ],
    ['NX-06: 6to4', ['connect', '2002:a9fe:a9fe::1', '80', '--send', 'x'], { code: 'forbidden_address' }],
    [
      'NX-07: the metadata address',
      ['connect', '169.254.169.254', '80', '--send', 'GET / HTTP/1.1\\r\\n\\r\\n'],
      { address: '169.254.169.254', code: 'forbidden_address' },
    ],
    [
      'NX-07: the metadata address of IPv6',
      ['connect', 'fd00:ec2::254', '80', '--send', 'x'],
      { code: 'forbidden_address' },
    ],
    [
      'NX-07: a name that leads to it',
      ['tls', 'meta.example', '443', '--insecure'],
      { host: 'meta.example', code: 'forbidden_address' },
    ],
    ['NX-08: a multicast address', ['udp', '224.0.0.1', '5353'], { kind: 'packet', address: '224.0.0.1' }],
    ['NX-08: CGNAT', ['connect', '100.64.0.1', '80', '--send', 'x'], { code: 'forbidden_address' }],
    ['NX-08: a private address', ['connect', '10.0.0.1', '80', '--send', 'x'], { code: 'forbidden_address' }],
    [
      'NX-08: a name that leads to a private address',
      ['tls', 'internal.example', '443', '--insecure'],
      { host: 'internal.example', code: 'forbidden_address' },
    ],
    [
      'NX-06: a name that leads to a mapped one',
      ['tls', 'mapped.example', '443', '--insecure'],
      { host: 'mapped.example', code: 'forbidden_address' },
    ],
    [
      'NX-37: a name that leads to the daemon',
      ['tls', 'self.example', '443', '--insecure'],
      { host: 'self.example', code: 'forbidden_address' },
    ],
    [
      'NX-13: DNS over HTTPS to a resolver that nobody allowed',
      ['tls', '203.0.113.53', '443', '--insecure'],
      { address: '203.0.113.53', verdict: 'deny' },
    ],
    [
      'NX-26: a name that only ends like an allowed one',
      ['lookup', 'evilwild.example'],
      { kind: 'dns', host: 'evilwild.example', verdict: 'deny' },
    ],
    [
      'NX-26: the name above a wildcard',
      ['lookup', 'wild.example'],
      { kind: 'dns', host: 'wild.example', verdict: 'deny' },
    ],
    [
      'NX-26: a denied name below an allowed wildcard',
      ['lookup', 'no.wild.example'],
      { kind: 'dns', rule: 'no', code: 'rule_denies' },
    ],
    [
      'NX-38: the usual addresses of a host from inside',
      ['connect', '10.0.2.2', '80', '--send', 'x'],
      { code: 'forbidden_address' },
    ],
    [
      'NX-38: the usual name of a host from inside',
      ['lookup', 'host.docker.internal'],
      { kind: 'dns', verdict: 'deny' },
    ],
    [
      'NX-28: SOCKS5 where TLS is expected',
      ['connect', 'sealed.example', '443', '--send', '\\x05\\x01\\x00'],
      { host: 'sealed.example', code: 'wrong_protocol' },
    ],
    ['NX-01: a datagram to port 443', ['udp', '198.51.100.1', '443'], { kind: 'packet', protocol: 'udp', port: 443 }],
    ['NX-02: a datagram over IPv6', ['udp', '2001:db8:1::1', '443'], { kind: 'packet', protocol: 'udp' }],
    [
      'NX-27: a question with a NUL in the name',
      ['dns', '203.0.113.53', 'evil.example\\x00.sealed.example', 'A'],
      { kind: 'dns', verdict: 'deny' },
    ],
    [
      'a question whose labels carry data',
      ['dns', '203.0.113.53', 'c2VjcmV0LWRhdGE.evil.example', 'TXT'],
      { kind: 'dns', verdict: 'deny', protocol: 'TXT' },
    ],
    [
      'the same over TCP and IPv6',
      ['dns', '2001:db8:ffff::53', 'c2VjcmV0.evil.example', 'NULL', '--tcp'],
      { kind: 'dns', verdict: 'deny' },
    ],
  ];

  it.each(refused)('%s: nothing leaves, and it is recorded', async (_name, words, expected) => {
    const told = await client(...words);
    expect(told).not.toHaveProperty('status', '200');
    await expectRecord(expected);
    // the resolver is asked for names that rules allow, and for no other
    const isAllowedName = typeof expected.host === 'string' && expected.code === 'forbidden_address';
    await world.expectOnly(...(isAllowedName ? [dns] : []));
  });

  it.each(['2130706433', '0x7f000001', '0177.0.0.1', '127.1', '0.0.0.0'])(
    'NX-05: %s is the sandbox itself, where nobody listens',
    async (host) => {
      expect(await client('connect', host, '80', '--send', 'x')).toMatchObject({ error: 'ECONNREFUSED' });
      await world.expectOnly();
    },
  );

  it('NX-01: an echo request and raw sockets are not to be had', async () => {
    expect(await client('ping', '198.51.100.1')).toMatchObject({ error: 'EPERM' });
    const raw = await client('raw', '198.51.100.1');
    for (const name of ['icmp', 'udp', 'raw', 'packet', 'vsock'])
      expect(JSON.stringify(raw[name])).toMatch(/EPERM|EPROTONOSUPPORT|EAFNOSUPPORT/);
    await world.expectOnly();
  });

  it('NX-02: a client that tries IPv6 first ends where the policy lets it', async () => {
    expect(await client('happy-eyeballs', 'db.example', '7000')).toHaveProperty('connected');
    await world.expectOnly(dns, `tcp ${a}:7000`);
  });

  it('NX-10: a name is looked up once for a connection, and the address that was judged is the one dialled', async () => {
    world.zone.set(`rebind-${tier}.wild.example`, [{ a: [a] }, { a: ['127.0.0.1'] }]);
    expect(await client('tls', `rebind-${tier}.wild.example`, '443', '--insecure')).toMatchObject({ status: '200' });
    expect(await client('tls', `rebind-${tier}.wild.example`, '443', '--insecure')).not.toHaveProperty('status');
    await expectRecord({ host: `rebind-${tier}.wild.example`, code: 'forbidden_address' });
    await world.expectOnly(dns, `tcp ${a}:443`);
  });

  it.each([
    ['another name', ['--sni', 'evil.example'], 'server_name_mismatch'],
    ['another allowed name', ['--sni', 'opened.example'], 'server_name_mismatch'],
    ['no name', ['--no-sni'], 'server_name_missing'],
  ])('NX-17, NX-18: TLS with %s goes nowhere', async (_name, options, code) => {
    expect(await client('tls', 'sealed.example', '443', '--insecure', ...options)).not.toHaveProperty('status');
    await expectRecord({ host: 'sealed.example', verdict: 'deny', code: code as EgressRecord['code'] });
    await world.expectOnly();
  });

  it('NX-17: in opened TLS, a Host that is not the server name is answered with 421', async () => {
    expect(
      await client('tls', 'opened.example', '443', '--path', '/open/x', '--host-header', 'evil.example'),
    ).toMatchObject({ status: '421' });
    await expectRecord({ kind: 'request', code: 'host_mismatch' });
    await world.expectOnly();
  });

  it('NX-18, NX-23: hellos that are broken, odd or encrypted go nowhere', async () => {
    const kinds = (await shell('python3 -B clients hello --help')).stdout.match(/\{([^}]*)\}/)?.[1]?.split(',') ?? [];
    expect(kinds.length).toBeGreaterThan(10);
    for (const kind of kinds.filter((name) => !/^(good|plain|two-records|many-records|grease)/.test(name)))
      await client('hello', 'sealed.example', '443', kind, '--sni', 'evil.example');
    await world.expectOnly();
  });

  it('NX-21, NX-23, NX-24: no request that two could read differently reaches the other side as two', async () => {
    const cases = (await client('variants')) as Readonly<Record<string, readonly string[]>>;
    const variants = Object.values(cases).flat();
    expect(variants.length).toBeGreaterThan(30);
    for (const variant of variants)
      await client('http', 'plain.example', '80', variant, '--host-header', 'plain.example');
    for (const { target, headers } of world.requests()) {
      expect(target).not.toContain('hidden');
      expect(JSON.stringify(headers)).not.toContain('hidden.example');
    }
    await world.expectOnly(dns, `tcp ${a}:80`);
  });

  it('NX-20: a redirect to a denied host ends there', async () => {
    const { stdout } = await shell(
      `curl -sSL -o /dev/null -w '%{http_code}' 'https://opened.example/redirect?to=http://198.51.100.9/'`,
    );
    expect(stdout).toBe('403');
    await world.expectOnly(dns, `tcp ${b}:443`);
  });

  it('NX-24: a path that normalises to another is refused before the rule sees it', async () => {
    for (const path of ['/open/../admin', '/open/%2e%2e/admin', '/open//x', '/open/x;y', '/open/%5cx'])
      expect((await shell(`curl -sS --path-as-is 'https://opened.example${path}'`)).stdout).toMatch(
        /ambiguous_request|path_not_allowed/,
      );
    await world.expectOnly();
  });

  it('NX-30: a helper inside that relays has the same verdict as who uses it', async () => {
    const relay = `
import http.server, threading, urllib.request
class Relay(http.server.BaseHTTPRequestHandler):
  def do_GET(self):
    try: status = urllib.request.urlopen(self.path, timeout=5).status
    except Exception as error: status = 502
    self.send_response(status); self.end_headers()
  def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", 3128), Relay); threading.Thread(target=server.serve_forever, daemon=True).start()
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:3128"}))
for url in ("http://plain.example/", "http://198.51.100.1/"):
  try: print(opener.open(url, timeout=10).status)
  except urllib.error.HTTPError as error: print(error.code)`;
    expect((await shell(`python3 -c '${relay}'`)).stdout).toBe('200\n502\n');
    await world.expectOnly(dns, `tcp ${a}:80`);
  });

  it('NX-35: a WebSocket where a rule allows it; where none does, 403', async () => {
    const handshake = (host: string) =>
      `curl -sS -o /dev/null -m 3 -w '%{http_code}' --http1.1 -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==' https://${host}/ws`;
    expect((await shell(handshake('chat.example'))).stdout).toBe('101');
    expect((await shell(handshake('opened.example'))).stdout).toBe('403');
    await expectRecord({ kind: 'request', host: 'chat.example', status: 101, verdict: 'allow' });
  });

  it("NX-43: the authority's key is not inside", async () => {
    const { stdout } = await shell(
      'grep -rl "PRIVATE KEY" /etc /run /tmp /home /proc/1/environ 2>/dev/null | grep -v "^/etc/ssl/private" | head; env | grep -c PRIVATE',
    );
    expect(stdout.trim()).toBe('0');
    const { stdout: certificate } = await shell('cat "$NODE_EXTRA_CA_CERTS"');
    expect(certificate).toContain('BEGIN CERTIFICATE');
    expect(certificate).not.toContain('PRIVATE');
  });

  it.each(['expired', 'wrongname', 'selfsigned'])(
    'NX-44: a certificate upstream that is %s is refused inside too',
    async (kind) => {
      const { stdout } = await shell(`curl -sS -w '%{http_code}' https://${kind}.opened.example/open/x`);
      expect(stdout).toMatch(/upstream_failed.*502$/s);
      expect(world.requests()).toEqual([]);
    },
  );

  it('streams events that arrive one by one', async () => {
    const { stdout } = await shell(
      `curl -sSN https://opened.example/sse/5 | while read -r line; do [ -n "$line" ] && date +%s%N; done`,
    );
    const times = stdout.trim().split('\n').map(Number);
    expect(times.length).toBeGreaterThanOrEqual(5);
    expect((times.at(-1) ?? 0) - (times[0] ?? 0)).toBeGreaterThan(100e6);
  });

  it('a flood, a large header and a slow loris are bounded; another sandbox does not notice', async () => {
    const witness = await api.create({ class: 'web', tier, ...(tier === 'container' ? { image: 'base' } : {}) });
    const other = await openClients(api, witness);
    const abuse = Promise.all([
      client('big-header', 'plain.example', '80', '--host-header', 'plain.example'),
      client('pipeline', 'plain.example', '80', '--host-header', 'plain.example'),
      client('slow-loris', 'plain.example', '80', '--connections', '50', '--duration', '4'),
    ]);
    for (let round = 0; round < 5; round++) {
      const began = performance.now();
      expect(await other.client('tls', 'sealed.example', '443', '--insecure')).toMatchObject({ status: '200' });
      expect(performance.now() - began).toBeLessThan(3_000);
    }
    const [header] = await abuse;
    expect(JSON.stringify(header)).toMatch(/431|reset|EPIPE|ECONNRESET/);
    await api.json('DELETE', `/v1/sandboxes/${witness}`);
    expect(readFileSync(`/proc/${daemon.pid}/status`, 'utf8')).toContain('State');
  });
});

describe('other classes', () => {
  it.each(['closed', 'empty'])('NX-32: %s reaches nothing and finds no name', async (name) => {
    await world.forget();
    const id = await api.create({ class: name });
    const { client } = await openClients(api, id);
    expect(await client('lookup', 'sealed.example')).toHaveProperty('error');
    expect(await client('connect', a, '7000', '--send', 'x')).not.toHaveProperty('received', 'x');
    expect(await client('dns', '203.0.113.53', 'sealed.example', 'A')).toMatchObject({ rcode: 'NXDOMAIN' });
    await world.expectOnly();
    await api.json('DELETE', `/v1/sandboxes/${id}`);
  });

  it('NX-07: observe lets pass and records what would be denied, but never a metadata address', async () => {
    await world.forget();
    const id = await api.create({ class: 'observed' });
    const { client } = await openClients(api, id);
    expect(await client('connect', 'db.example', '7000', '--send', 'seen', '--all')).toMatchObject({
      received: 'seen',
    });
    expect(await client('connect', '169.254.169.254', '80', '--send', 'x')).not.toHaveProperty('received', 'x');
    const { records } = await api.json<{ records: EgressRecord[] }>('GET', `/v1/sandboxes/${id}/egress`);
    expect(records).toContainEqual(
      expect.objectContaining({ kind: 'connection', host: 'db.example', verdict: 'would-deny' }),
    );
    expect(records).toContainEqual(expect.objectContaining({ address: '169.254.169.254', verdict: 'deny' }));
    await world.expectOnly(dns, `tcp ${a}:7000`);
    await api.json('DELETE', `/v1/sandboxes/${id}`);
  });
});

describe('changes while it runs', () => {
  it('NX-34: a later phase closes what it forbids', async () => {
    const id = await api.create({ class: 'web' });
    const { client, shell } = await openClients(api, id);
    const held = shell(
      `python3 -c 'import socket; s = socket.create_connection(("db.example", 7000)); s.send(b"x"); s.recv(1); print(s.recv(1))'`,
    );
    await eventually(
      'it is open',
      async () => (await api.json<{ connections: number }>('GET', `/v1/sandboxes/${id}/egress`)).connections === 1,
    );
    const began = performance.now();
    await api.json('POST', `/v1/sandboxes/${id}/egress/phase`, { phase: 'locked' });
    expect((await held).stderr).toContain('ConnectionResetError');
    expect(performance.now() - began).toBeLessThan(1_000);
    expect(await client('lookup', 'db.example')).toHaveProperty('error');
    expect(await client('tls', 'sealed.example', '443', '--insecure')).toMatchObject({ status: '200' });
    await api.json('DELETE', `/v1/sandboxes/${id}`);
  });

  it('NX-33: a policy file that is invalid changes nothing and says so; a tightened one binds running sandboxes', async () => {
    const own = join(home, 'own.yaml');
    const text = readFileSync(policy, 'utf8');
    writeFileSync(own, text);
    const second = makeHome();
    const ca = join(home, 'world.pem');
    const reloading = await startDaemon(second, ['--policy', own, '--resolver', world.resolver, '--upstream-ca', ca], {
      wrapper: world.wrapper,
      reach: async (port) => (await world.openDoor(port)).port,
    });
    try {
      const id = await reloading.api.create({ class: 'web' });
      const { client } = await openClients(reloading.api, id);
      writeFileSync(own, text.replace('hosts: [db.example]', 'hosts: ["*"]'));
      const answer = await reloading.api.call('POST', '/v1/matrix/reload');
      expect([answer.status, answer.body.toString()]).toEqual([500, expect.stringContaining('policy_invalid')]);
      expect(await client('connect', 'db.example', '7000', '--send', 'on', '--all')).toMatchObject({ received: 'on' });
      writeFileSync(own, text.replace('hosts: [db.example]', 'hosts: [other.example]'));
      expect(await reloading.api.json('POST', '/v1/matrix/reload')).toMatchObject({ sandboxes: 1 });
      expect(await client('lookup', 'db.example')).toHaveProperty('error');
      // what the new file allows more is not for a Grant that was given before
      expect(await client('lookup', 'other.example')).toHaveProperty('error');
    } finally {
      await reloading.stop();
      expect(await remains(second)).toEqual([]);
      removeHome(second);
    }
  });

  it('NX-45: with the daemon killed, nothing gets out any more', async () => {
    const second = makeHome();
    const killed = await startDaemon(second, ['--policy', policy, '--resolver', world.resolver], {
      wrapper: world.wrapper,
      reach: async (port) => (await world.openDoor(port)).port,
    });
    const id = await killed.api.create({ class: 'web' });
    const { shell } = await openClients(killed.api, id);
    const program = `import socket, time
while True:
  try: socket.create_connection(("${a}", 7000), 1).send(b"x")
  except OSError: pass
  time.sleep(0.02)`;
    void shell(`python3 -c '${program}'`).catch(() => undefined);
    await eventually('it is under way', () => world.contacts().some(({ port }) => port === 7000));
    await killed.stop('SIGKILL');
    await world.forget();
    const next = await startDaemon(second, ['--policy', policy, '--resolver', world.resolver], {
      wrapper: world.wrapper,
      reach: async (port) => (await world.openDoor(port)).port,
    });
    await world.expectOnly();
    await next.stop();
    expect(await remains(second)).toEqual([]);
    removeHome(second);
  });
});
