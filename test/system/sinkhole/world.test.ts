/** The test rig itself: what is sent to any address is answered and seen, and nothing else is. Needs root. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { get } from 'node:http';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { openVantage } from './vantage.ts';

const vantage = await openVantage();
const { world, run, client, curl } = vantage;

afterAll(() => vantage.close());
afterEach(() => world.forget());

describe('every address is answered, and seen', () => {
  it.each(['192.0.2.7', '8.8.8.8', '10.1.2.3', '169.254.169.254', '[2001:db8::7]', '[fd00:ec2::254]'])(
    'HTTP at %s',
    async (host) => {
      const seen = JSON.parse(await curl('-H', 'X-MiXeD: a', `http://${host}/some/path?q=1`)) as object;
      const address = host.replace(/[[\]]/g, '');
      expect(seen).toMatchObject({ scheme: 'http', address, port: 80, method: 'GET', target: '/some/path?q=1' });
      expect(world.requests()).toEqual([seen]);
      expect(world.requests()[0]?.headers).toContainEqual(['X-MiXeD', 'a']);
      expect(world.connections()[0]?.received().toString()).toMatch(/^GET \/some\/path\?q=1 HTTP\/1.1\r\nHost: /);
      await world.expectOnly(`tcp ${host}:80`);
    },
  );

  it.each([
    ['203.0.113.9', '203.0.113.9'],
    ['2001:db8::9', '[2001:db8::9]'],
  ])('TCP at %s: an echo on any port, and a server that speaks first', async (address, written) => {
    const echoed = { peer: address, received: 'hello\r\n', ending: 'open' };
    expect(await client('connect', address, '5432', '--send', 'hello\\r\\n')).toEqual(echoed);
    expect(await client('connect', address, '7001')).toMatchObject({ received: '220 sinkhole.example ready\r\n' });
    await world.expectOnly(`tcp ${written}:5432`, `tcp ${written}:7001`);
  });

  it.each([
    ['198.51.100.4', '198.51.100.4'],
    ['2001:db8:1::4', '[2001:db8:1::4]'],
  ])('UDP at %s, from where it was asked', async (address, written) => {
    expect(await client('udp', address, '443')).toEqual({ received: 'hello' });
    expect(await client('udp', address, '7002')).toEqual({ received: 'hello' });
    await world.expectOnly(`udp ${written}:443`, `udp ${written}:7002`);
  });

  it.each([
    ['192.0.2.3', 'icmp'],
    ['2001:db8::3', 'icmp6'],
  ])('an echo request to %s, by any socket that can send one', async (address, protocol) => {
    expect(await client('raw', address)).toMatchObject({ icmp: 'done', udp: 'done', packet: 'done' });
    await world.settle();
    const contacts = world.contacts().map(({ protocol: name, address: to }) => ({ protocol: name, to }));
    expect(contacts).toEqual([
      { protocol, to: address },
      { protocol: 'udp', to: address },
    ]);
  });

  it('a client that tries IPv6 first', async () => {
    expect(await client('happy-eyeballs', '2001:db8::6', '80')).toMatchObject({ connected: '2001:db8::6' });
    await world.expectOnly('tcp [2001:db8::6]:80');
  });

  it('a datagram that nothing answers', async () => {
    expect(await client('udp', '192.0.2.99', '9999')).toMatchObject({ error: 'ECONNREFUSED' });
    await world.expectOnly('udp 192.0.2.99:9999');
  });
});

describe('the oracle', () => {
  it('names what was contacted and not allowed, and what was allowed and not contacted', async () => {
    await curl('http://192.0.2.50/');
    const message = 'contacted but not allowed: tcp 192.0.2.50:80; allowed but not contacted: udp 192.0.2.51:53';
    await expect(world.expectOnly('udp 192.0.2.51:53')).rejects.toThrow(message);
  });

  it('sees nothing when nothing was sent, its own marker least of all', async () => {
    for (let turn = 0; turn < 20; turn += 1) await world.settle();
    await world.expectOnly();
    expect(world.seen()).toEqual([]);
  });

  it('forgets what was, but for nothing that is sent afterwards', async () => {
    await curl('http://192.0.2.50/');
    await world.forget();
    await world.expectOnly();
    await curl('http://192.0.2.50/');
    await world.expectOnly('tcp 192.0.2.50:80');
  });

  it('reaches no address of the host, and the host none of its own', async () => {
    const links = await run('ip', '-o', 'link');
    expect(
      links
        .trim()
        .split('\n')
        .map((line) => line.split(' ')[1]),
    ).toEqual(['lo:', expect.stringMatching(/^daemon@/)]);
    const routes = await run('ip', 'route', 'show', 'default');
    expect(routes.trim()).toBe('default via 198.18.0.1 dev daemon');
  });
});

it('a door leads from the host to a loopback port of the daemon', async () => {
  const server = `require('http').createServer((_, answer) => answer.end('inside')).listen(0, '127.0.0.1', function () {
    console.log(this.address().port) })`;
  const [command = '', ...rest] = [...world.wrapper, process.execPath, '-e', server];
  const child = spawn(command, rest, { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const [port] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
    const door = await world.openDoor(Number(port));
    const [answer] = await once(get(`http://127.0.0.1:${door.port}/`, { agent: false }), 'response');
    expect(await text(answer)).toBe('inside');
    await door.close();
    await world.expectOnly();
  } finally {
    child.kill('SIGKILL');
  }
});
