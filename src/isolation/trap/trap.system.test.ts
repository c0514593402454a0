/** The trap for real: what a program in the namespace tries ends at our sockets, or is refused and logged. Needs root. */
import { spawn } from 'node:child_process';
import { closeSync, readdirSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { addon } from '../../linux/addon.ts';
import { followPacketLog, type LoggedPacket } from '../../linux/netfilter-log.ts';
import { makeTrapNetns, type TrapNetns, type TrapSockets } from './netns.ts';
import { openNetnsPool } from './netns-pool.ts';
import { dropLogGroup } from './trap-rules.ts';

let trap: TrapNetns;
let sockets: TrapSockets;
let servers: Server[];
let arrived: { address: string; port: number }[];
let packets: LoggedPacket[];
let lost: number;
let stop: () => void;

beforeEach(async () => {
  trap = await makeTrapNetns();
  sockets = trap.takeSockets();
  [arrived, packets, lost] = [[], [], 0];
  servers = [sockets.tcp4, sockets.tcp6].map((fd) =>
    createServer((socket) => {
      const handle = (socket as unknown as { _handle: { fd: number } })._handle;
      arrived.push(addon().originalDestination(handle.fd));
      socket.end('ours\n');
    }).listen({ fd }),
  );
  stop = followPacketLog(trap.logFd, dropLogGroup, {
    pauseMs: 10,
    onPackets: (more, gone) => {
      packets.push(...more);
      lost += gone;
    },
  });
});

afterEach(() => {
  stop();
  for (const server of servers) server.close();
  closeSync(sockets.dns4);
  closeSync(sockets.dns6);
  trap.close();
});

/** Python in the namespace, as an ordinary user there would be: without a capability. */
async function inside(program: string): Promise<string> {
  const command = [
    '--net=/proc/self/fd/3',
    'setpriv',
    '--bounding-set=-all',
    '--reuid=65534',
    '--regid=65534',
    '--clear-groups',
  ];
  const child = spawn('nsenter', [...command, '/usr/bin/python3', '-c', `import socket\n${program}`], {
    stdio: ['ignore', 'pipe', 'pipe', trap.netnsFd],
    timeout: 20_000,
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (data: Buffer) => {
      text += data;
    });
  await new Promise((resolve) => child.once('close', resolve));
  return text;
}

describe('in the namespace', () => {
  it.each([
    ['socket.AF_INET', '192.0.2.7', 443],
    ['socket.AF_INET', '203.0.113.1', 8443],
    ['socket.AF_INET6', '2001:db8::7', 80],
    ['socket.AF_INET', '127.0.0.1', 53],
  ])(
    'NX-01, NX-02, NX-03: a connection (%s) to %s:%i ends at our socket, which knows where it went',
    async (family, address, port) => {
      const program = `s = socket.socket(${family}); s.settimeout(5); s.connect(("${address}", ${port})); print(s.recv(9))`;
      expect(await inside(program)).toBe("b'ours\\n'\n");
      expect(arrived).toEqual([{ address, port }]);
    },
  );

  it('NX-01: a datagram goes nowhere, fails at once, and is told', async () => {
    const program = `
for family, to in ((socket.AF_INET, ("192.0.2.7", 443)), (socket.AF_INET6, ("2001:db8::7", 9))):
  try: socket.socket(family, socket.SOCK_DGRAM).sendto(b"x", to); print("sent")
  except PermissionError: print("refused")`;
    expect(await inside(program)).toBe('refused\nrefused\n');
    await expect
      .poll(() => packets)
      .toEqual([
        { protocol: 'udp', address: '192.0.2.7', port: 443 },
        { protocol: 'udp', address: '2001:db8::7', port: 9 },
      ]);
  });

  it('NX-01: neither a ping socket nor a raw one is to be had', async () => {
    const program = `
for kind, protocol in ((socket.SOCK_DGRAM, socket.IPPROTO_ICMP), (socket.SOCK_RAW, socket.IPPROTO_RAW)):
  try: socket.socket(socket.AF_INET, kind, protocol); print("made")
  except PermissionError: print("refused")`;
    expect(await inside(program)).toBe('refused\nrefused\n');
  });

  it('programs talk to each other, on any port of their own', async () => {
    const program = `
for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
  s = socket.socket(family); s.bind((address, 80)); s.listen()
  c = socket.create_connection((address, 80)); a, _ = s.accept(); a.send(b"own"); print(c.recv(9))`;
    expect(await inside(program)).toBe("b'own'\nb'own'\n");
    expect(arrived).toEqual([]);
  });

  it('a connection to our own port is known as one', async () => {
    await inside('s = socket.create_connection(("127.0.0.1", 15001)); s.recv(9)');
    expect(arrived).toEqual([{ address: '127.0.0.1', port: 15_001 }]);
  });

  it('a flood of datagrams is told in part, and the rest counted', async () => {
    const program = `
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(20000):
  try: s.sendto(b"x", ("192.0.2.7", 1000))
  except PermissionError: pass`;
    await inside(program);
    // the number of the next one that is told says how many are missing
    for (let sent = 1; sent <= 50 && lost === 0; sent++) await inside(program.replace('20000', '1'));
    expect(lost).toBeGreaterThan(0);
    expect(packets.length + lost).toBeGreaterThanOrEqual(20_000);
  });

  it('there is one interface, and no capability changes the rules', async () => {
    const program = `
import subprocess
print([name for _, name in socket.if_nameindex()])
print(subprocess.run(["nft", "flush", "ruleset"], capture_output=True).returncode)`;
    expect(await inside(program)).toBe("['lo']\n1\n");
  });
});

describe('the pool', () => {
  it('gives each namespace once, and closes what nobody took', async () => {
    const before = readdirSync('/proc/self/fd').length;
    const pool = openNetnsPool(2);
    pool.fill();
    const [a, b] = [await pool.take(), await pool.take()];
    expect(a.netnsFd).not.toBe(b.netnsFd);
    a.close();
    b.close();
    await pool.close();
    expect(readdirSync('/proc/self/fd').length).toBe(before);
  });

  it('that cannot make one says why to who asks', async () => {
    const pool = openNetnsPool(1, () => Promise.reject(new Error('no nft')));
    pool.fill();
    await expect(pool.take()).rejects.toThrow('no nft');
    await pool.close();
  });
});
