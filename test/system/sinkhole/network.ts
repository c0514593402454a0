/**
 * Two network namespaces and a wire: `daemon`, where what is tested runs, and `world`, where every IPv4 and IPv6
 * address is local and so answered here. Neither has a way to anywhere else. Both are held by fds of this process
 * alone: however it dies, the kernel takes them, and the wire with them.
 */
import { execFile } from 'node:child_process';
import { closeSync } from 'node:fs';
import { promisify } from 'node:util';
import { addon } from '../../../src/linux/addon.ts';

export interface Netns {
  readonly fd: number;
  /** For `nsenter --net=`, as long as this process lives. */
  readonly path: string;
}

export interface Network {
  readonly world: Netns;
  readonly daemon: Netns;
  close(): void;
}

/** The world's end of the wire, where everything that leaves the daemon's namespace arrives. */
export const worldDevice = 'world';
export const resolverAddress = '203.0.113.53';
/** What the world listens on; any other TCP port is `ports.echo` in disguise. */
export const ports = {
  http: [80, 8080],
  https: [443, 8443],
  echo: 7000,
  banner: 7001,
  datagram: 7002,
  dns: 53,
} as const;

const setUpDeadlineMs = 10_000;

/** @throws Error as `ip` or `nft` says it */
export async function makeNetwork(): Promise<Network> {
  const world = makeNetns();
  const daemon = makeNetns();
  const close = (): void => {
    for (const { fd } of [world, daemon]) closeSync(fd);
  };
  try {
    await inside(world, worldScript(daemon));
    await inside(daemon, daemonScript);
  } catch (error) {
    close();
    throw error;
  }
  return { world, daemon, close };
}

function makeNetns(): Netns {
  const fd = addon().newNetns();
  return { fd, path: `/proc/${process.pid}/fd/${fd}` };
}

async function inside({ path }: Netns, script: string): Promise<void> {
  await promisify(execFile)('nsenter', [`--net=${path}`, 'sh', '-euc', script], { timeout: setUpDeadlineMs });
}

/**
 * "local" routes make any address ours. They stand in table main, not local, which is asked first: there they would
 * swallow the way back over the wire too. Datagrams are redirected so that the answer comes from where it was asked:
 * the kernel's connection tracking gives it the address that was dialled. Refusals come at once, however many.
 */
function worldScript(daemon: Netns): string {
  const own = [...ports.http, ...ports.https, ports.echo, ports.banner].join(', ');
  return `
sysctl -q net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0
ip -batch - <<'END'
link set lo up
link add ${worldDevice} type veth peer name daemon netns ${daemon.path}
link set ${worldDevice} addrgenmode none
addr add ${resolverAddress}/32 dev lo
addr add 198.18.0.1/30 dev ${worldDevice}
addr add 2001:db8:ffff::1/64 dev ${worldDevice} nodad
link set ${worldDevice} up
route add local 0.0.0.0/0 dev lo table main
route add local ::/0 dev lo table main
END
nft -f - <<'END'
table inet world {
  chain arrive {
    type nat hook prerouting priority dstnat
    ip daddr ${resolverAddress} th dport ${ports.dns} accept
    tcp dport != { ${own} } redirect to :${ports.echo}
    udp dport { 443, ${ports.datagram} } redirect to :${ports.datagram}
  }
}
END`;
}

const daemonScript = `
ip -batch - <<'END'
link set lo up
link set daemon addrgenmode none
addr add 198.18.0.2/30 dev daemon
addr add 2001:db8:ffff::2/64 dev daemon nodad
link set daemon up
route add default via 198.18.0.1
route add default via 2001:db8:ffff::1
END`;
