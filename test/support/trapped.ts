/**
 * A namespace with the trap and a real egress behind it, without a sandbox around them; names come from a resolver of the
 * test's, upstreams listen on this host's loopback. Programs run inside as nobody, with no capability. Needs root.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { NetworkGrant, NetworkRule } from '../../src/admission/network.ts';
import { type Egress, type EgressParts, openEgress } from '../../src/egress/egress.ts';
import type { EgressRecord } from '../../src/egress/records.ts';
import { openResolver } from '../../src/egress/upstream.ts';
import { makeTrapNetns } from '../../src/isolation/trap/netns.ts';
import { dropLogGroup } from '../../src/isolation/trap/trap-rules.ts';
import { addon } from '../../src/linux/addon.ts';
import { followPacketLog } from '../../src/linux/netfilter-log.ts';
import { serveZone, type Zone } from './zone.ts';

export type { Zone } from './zone.ts';

export interface Trapped {
  readonly egress: Egress;
  /** Names that the resolver was asked for. */
  readonly questions: string[];
  /** Errors that nothing should have made. */
  readonly faults: unknown[];
  records(kind?: EgressRecord['kind']): readonly EgressRecord[];
  /** Runs python in the namespace. @returns what it printed; fails when it ends with an error */
  python(program: string): Promise<string>;
  run(
    command: readonly string[],
    env?: Readonly<Record<string, string>>,
  ): Promise<{ status: number | null; stdout: string; stderr: string }>;
  close(): Promise<void>;
}

const programMs = 30_000;

export function rule(id: string, changes: Partial<NetworkRule>): NetworkRule {
  return {
    id,
    verdict: 'allow',
    hosts: [],
    cidrs: [],
    private: false,
    protocol: 'https',
    ports: [{ from: 443, to: 443 }],
    inspect: 'auto',
    noSni: false,
    ech: false,
    websocket: false,
    ...changes,
  };
}

/** The upstreams of a test are on loopback, which no name may lead to without this. */
export const loopbackRule = rule('loopback', {
  cidrs: ['127.0.0.0/8'],
  private: true,
  protocol: 'tcp',
  ports: [{ from: 1, to: 65_535 }],
});

export function allowing(...rules: readonly NetworkRule[]): NetworkGrant {
  return { mode: 'allow', rules: [...rules, loopbackRule], phases: [] };
}

export async function openTrapped(
  grant: NetworkGrant,
  zone: Zone,
  more: Partial<Pick<EgressParts, 'authority' | 'upstreamRoots'>> = {},
): Promise<Trapped> {
  const questions: string[] = [];
  const faults: unknown[] = [];
  const { port, close: closeResolver } = await serveZone(zone, questions);
  const trap = await makeTrapNetns();
  const egress = openEgress({
    grant,
    sockets: trap.takeSockets(),
    destinationOf: (fd) => addon().originalDestination(fd),
    resolver: openResolver([`127.0.0.1:${port}`]),
    daemonPorts: new Set(),
    onFault: (error) => faults.push(error),
    ...more,
  });
  const stopLog = followPacketLog(trap.logFd, dropLogGroup, {
    pauseMs: 10,
    onPackets: (packets, lost) => egress.addPackets(packets, lost),
  });
  const run = (command: readonly string[], env: Readonly<Record<string, string>> = {}) =>
    runInside(trap.netnsFd, command, env);
  return {
    egress,
    questions,
    faults,
    records: (kind) => egress.log.read().filter((record) => kind === undefined || record.kind === kind),
    run,
    python: async (program) => {
      const { status, stdout, stderr } = await run(['/usr/bin/python3', '-c', program]);
      if (status !== 0) throw new Error(`python ended with ${status}: ${stderr}`);
      return stdout;
    },
    close: async () => {
      stopLog();
      egress.close();
      trap.close();
      await closeResolver();
    },
  };
}

const withoutPrivilege = ['setpriv', '--bounding-set=-all', '--reuid=65534', '--regid=65534', '--clear-groups'];
/** Names are asked of the namespace's own address, whatever the host's resolv.conf says. */
const resolvConf = 'nameserver 127.0.0.1\noptions timeout:3 attempts:1\n';

async function runInside(netnsFd: number, command: readonly string[], env: Readonly<Record<string, string>>) {
  const enter = ['--net=/proc/self/fd/3', 'unshare', '--mount', '--propagation', 'private', 'sh', '-c'];
  const script = `mount -t tmpfs none /mnt && printf '%s' "$RESOLV" >/mnt/resolv.conf && mount --bind /mnt/resolv.conf /etc/resolv.conf && exec "$@"`;
  const child = spawn('nsenter', [...enter, script, 'sh', ...withoutPrivilege, ...command], {
    stdio: ['ignore', 'pipe', 'pipe', netnsFd],
    env: { PATH: process.env['PATH'], RESOLV: resolvConf, HOME: '/tmp', ...env },
    timeout: programMs,
    killSignal: 'SIGKILL',
  });
  const texts = { stdout: '', stderr: '' };
  child.stdout?.on('data', (data: Buffer) => {
    texts.stdout += data;
  });
  child.stderr?.on('data', (data: Buffer) => {
    texts.stderr += data;
  });
  const [status] = (await once(child, 'close')) as [number | null];
  return { status, ...texts };
}
