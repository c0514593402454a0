/** The addon on a real kernel: processes by pidfd, readiness, sockets in another network namespace. Needs root. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fstatSync, openSync, readdirSync, readSync, writeSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { addon, nativeFile, socketPair } from './addon.ts';
import { openProcess } from './process.ts';
import { whenReadable } from './readiness.ts';

const fds = (): number => readdirSync('/proc/self/fd').length;
let fdsBefore: number;
let children: ChildProcess[];

beforeEach(() => {
  // the first watch opens an epoll and an eventfd that stay
  const event = addon().eventfd();
  whenReadable(event, () => undefined)();
  closeSync(event);
  fdsBefore = fds();
  children = [];
});

afterEach(async () => {
  for (const child of children) child.kill('SIGKILL');
  await expect.poll(fds).toBe(fdsBefore);
});

function shell(script: string): { readonly stdout: string } {
  return spawnSync('sh', ['-c', script], { encoding: 'utf8' });
}

function start(...command: [string, ...string[]]): ChildProcess & { readonly pid: number } {
  const child = spawn(command[0], command.slice(1), { stdio: 'ignore' });
  children.push(child);
  if (child.pid === undefined) throw new Error(`${command[0]} did not start`);
  return Object.assign(child, { pid: child.pid });
}

describe('a process handle', () => {
  it('signals its process, tells its end, and is false afterwards', async () => {
    const child = start('sleep', '60');
    const exit = once(child, 'exit');
    const handle = openProcess(child.pid);
    expect(handle.signal(0)).toBe(true);
    expect(handle.signal(15)).toBe(true);
    await handle.ended;
    await exit;
    expect(child.signalCode).toBe('SIGTERM');
    expect(handle.signal(9)).toBe(false);
    handle.close();
    handle.close();
    expect(handle.signal(9)).toBe(false);
  });

  it('tells the end of a zombie, which nobody has waited for', async () => {
    const child = start('sh', '-c', 'sleep 0 & exec sleep 60');
    await expect.poll(() => zombieOf(child.pid)).not.toBe('');
    const handle = openProcess(Number(zombieOf(child.pid)));
    await handle.ended;
    handle.close();
  });

  it('of many processes ends with each of them', async () => {
    const handles = Array.from({ length: 150 }, () => openProcess(start('sleep', '60').pid));
    for (const handle of handles) handle.signal(9);
    await Promise.all(handles.map((handle) => handle.ended));
    for (const handle of handles) handle.close();
  });

  it('is refused for a process that is not there', () => {
    expect(() => openProcess(0x3fff_ffff)).toThrow(expect.objectContaining({ code: 'ESRCH', syscall: 'pidfd_open' }));
  });
});

function zombieOf(parent: number): string {
  return spawnSync('ps', ['--ppid', String(parent), '-o', 'pid=,stat='], { encoding: 'utf8' })
    .stdout.split('\n')
    .filter((line) => line.trim().split(/\s+/)[1]?.startsWith('Z'))
    .map((line) => line.trim().split(/\s+/)[0])
    .join('');
}

describe('readiness', () => {
  it('tells once, of the fd that is readable', async () => {
    const [a, b] = [addon().eventfd(), addon().eventfd()];
    const told: string[] = [];
    const stops = [whenReadable(a, () => told.push('a')), whenReadable(b, () => told.push('b'))];
    writeSync(b, new BigUint64Array([1n]));
    await expect.poll(() => told).toEqual(['b']);
    writeSync(b, new BigUint64Array([1n]));
    writeSync(a, new BigUint64Array([1n]));
    await expect.poll(() => told).toEqual(['b', 'a']);
    for (const stop of stops) stop();
    for (const fd of [a, b]) closeSync(fd);
  });

  it('tells nothing after it was stopped, and the fd can be watched again', async () => {
    const event = addon().eventfd();
    const told: string[] = [];
    whenReadable(event, () => told.push('first'))();
    writeSync(event, new BigUint64Array([1n]));
    const stop = whenReadable(event, () => told.push('second'));
    await expect.poll(() => told).toEqual(['second']);
    stop();
    closeSync(event);
  });

  it('refuses a second watch of one fd, a file of a disk and a closed fd', () => {
    const event = addon().eventfd();
    const file = openSync('/etc/passwd', 'r');
    const stop = whenReadable(event, () => undefined);
    expect(() => whenReadable(event, () => undefined)).toThrow(expect.objectContaining({ code: 'EEXIST' }));
    expect(() => whenReadable(file, () => undefined)).toThrow(expect.objectContaining({ code: 'EPERM' }));
    stop();
    closeSync(file);
    closeSync(event);
    expect(() => whenReadable(event, () => undefined)).toThrow(expect.objectContaining({ code: 'EBADF' }));
  });

  it('does not keep Node alive, and its thread does not outlive it', () => {
    const script = `const a = require(${JSON.stringify(nativeFile('sallyport.node'))});
      a.startWatching(() => {}); for (let i = 0; i < 50; i++) a.watch(a.eventfd(), i + 1);`;
    const { status, signal } = spawnSync(process.execPath, ['-e', script], { timeout: 10_000 });
    expect([status, signal]).toEqual([0, null]);
  });
});

describe('a socket pair', () => {
  it('is connected and closed on exec', () => {
    const [a, b] = socketPair();
    writeSync(a, 'through');
    const buffer = Buffer.alloc(16);
    expect(buffer.toString('utf8', 0, readSync(b, buffer))).toBe('through');
    expect(fstatSync(a).isSocket()).toBe(true);
    const inherited = spawnSync('sh', ['-c', `test -e /proc/self/fd/${a} || test -e /proc/self/fd/${b}`]);
    expect(inherited.status).toBe(1);
    for (const fd of [a, b]) closeSync(fd);
  });
});

describe('arguments', () => {
  it.each([1.5, 2 ** 32 + process.pid, Number.NaN, -1, 0, Number.POSITIVE_INFINITY])('%d is no pid', (pid) => {
    expect(() => addon().pidfdOpen(pid)).toThrow(new TypeError('pid must be an integer of 1 to 2147483647'));
  });

  it.each([
    ['127.0.0.1', -1, 'tcp', 'port must be an integer of 0 to 65535'],
    ['127.0.0.1', 65_536, 'tcp', 'port must be an integer of 0 to 65535'],
    ['127.0.0.1.example', 1, 'tcp', 'address must be an IPv4 or IPv6 address'],
    ['127.0.0.1\0', 1, 'tcp', 'address must be an IPv4 or IPv6 address'],
    [`${'::1'.padEnd(60, '1')}`, 1, 'tcp', 'address must be an IPv4 or IPv6 address'],
    ['127.0.0.1', 1, 'sctp', 'protocol must be tcp or udp'],
  ])('listenInNetns(%j, %d, %s) is refused', (address, port, protocol, message) => {
    expect(() => addon().listenInNetns(0, address, port, protocol as 'tcp')).toThrow(new TypeError(message));
  });

  it('a signal of no such number and an fd of no such kind are refused by name', () => {
    expect(() => addon().pidfdSendSignal(0, 65)).toThrow('signal must be an integer of 0 to 64');
    const event = addon().eventfd();
    expect(() => addon().pidfdSendSignal(event, 0)).toThrow(expect.objectContaining({ code: 'EBADF' }));
    expect(() => addon().listenInNetns(event, '127.0.0.1', 1, 'tcp')).toThrow(
      expect.objectContaining({ code: 'EINVAL', syscall: 'setns' }),
    );
    expect(() => addon().originalDestination(event)).toThrow(
      expect.objectContaining({ code: 'ENOTSOCK', syscall: 'getsockopt' }),
    );
    closeSync(event);
  });
});

describe('a network namespace with only lo', () => {
  const redirect = `
    ip link set lo up; ip route add default dev lo; ip -6 route add default dev lo
    nft 'table inet trap { chain out { type nat hook output priority -100; meta l4proto tcp redirect to :15001; }; }'`;
  let holder: ChildProcess & { readonly pid: number };
  let netns: number;
  let servers: Server[];

  beforeEach(async () => {
    servers = [];
    netns = -1;
    holder = start('unshare', '--net', 'sh', '-c', `${redirect}; exec sleep 60`);
    await expect.poll(() => inNetns('nft list tables').stdout, { timeout: 5_000 }).toContain('trap');
    netns = openSync(`/proc/${holder.pid}/ns/net`, 'r');
  });

  afterEach(async () => {
    if (netns >= 0) closeSync(netns);
    for (const server of servers) await new Promise((resolve) => server.close(resolve));
  });

  function inNetns(script: string): { readonly stdout: string } {
    return shell(`nsenter --net -t ${holder.pid} sh -c '${script}'`);
  }

  /** @returns what the first connection wanted to reach */
  async function firstDestination(listenAddress: string, target: string): Promise<{ address: string; port: number }> {
    const server = createServer({ pauseOnConnect: true });
    servers.push(server);
    server.listen({ fd: addon().listenInNetns(netns, listenAddress, 15_001, 'tcp') });
    await once(server, 'listening');
    const connected = once(server, 'connection');
    start('nsenter', '--net', '-t', String(holder.pid), 'bash', '-c', `exec 3<>/dev/tcp/${target}; read -r <&3`);
    const [socket] = (await connected) as [Socket & { readonly _handle: { readonly fd: number } }];
    try {
      return addon().originalDestination(socket._handle.fd);
    } finally {
      socket.destroy();
    }
  }

  it('a redirected connection arrives here and says where it wanted to go', async () => {
    expect(await firstDestination('0.0.0.0', '203.0.113.7/443')).toEqual({ address: '203.0.113.7', port: 443 });
  });

  it('IPv6 too, on the same port and beside IPv4', async () => {
    const beside = addon().listenInNetns(netns, '0.0.0.0', 15_001, 'tcp');
    expect(await firstDestination('::', '2001:db8::7/8080')).toEqual({ address: '2001:db8::7', port: 8080 });
    closeSync(beside);
  });

  it('holds datagram sockets, refuses a port that is taken, and leaves our own namespace as it is', () => {
    const udp = addon().listenInNetns(netns, '127.0.0.1', 15_053, 'udp');
    const tcp = addon().listenInNetns(netns, '127.0.0.1', 15_053, 'tcp');
    expect(() => addon().listenInNetns(netns, '127.0.0.1', 15_053, 'tcp')).toThrow(
      expect.objectContaining({ code: 'EADDRINUSE' }),
    );
    expect(inNetns('ss -Hlun; ss -Hltn').stdout.match(/127\.0\.0\.1:15053/g)).toHaveLength(2);
    expect(shell('ss -Hltun').stdout).not.toContain(':15053');
    for (const fd of [udp, tcp]) closeSync(fd);
  });

  it('a connection that nothing redirected has no original destination', () => {
    const [a, b] = socketPair();
    expect(() => addon().originalDestination(a)).toThrow(expect.objectContaining({ syscall: 'getsockopt' }));
    for (const fd of [a, b]) closeSync(fd);
  });
});
