/** One network namespace with the trap in it: made, armed, and held by its fds until it is given back. */
import { closeSync } from 'node:fs';
import { addon } from '../../linux/addon.ts';
import { runProgram } from '../../workspace/run-program.ts';
import { linkCommands, namespaceSysctls, nftRules, trapPorts } from './trap-rules.ts';

/** Listening sockets inside the namespace, as fds. Whoever serves them closes them. */
export interface TrapSockets {
  readonly tcp4: number;
  readonly tcp6: number;
  readonly dns4: number;
  readonly dns6: number;
}

export interface TrapNetns {
  readonly netnsFd: number;
  /** Netlink, to read what was refused. */
  readonly logFd: number;
  /** @returns the sockets, once: from then on they are the caller's */
  takeSockets(): TrapSockets;
  /** Closes what was not taken. The namespace is gone when its last process is. */
  close(): void;
}

const setUpDeadlineMs = 10_000;

/** @throws SallyportError `start_failed` or `deadline`; Error as the kernel refuses it */
export async function makeTrapNetns(): Promise<TrapNetns> {
  const held: number[] = [];
  const hold = (fd: number): number => {
    held.push(fd);
    return fd;
  };
  try {
    const netnsFd = hold(addon().newNetns());
    await setUp(netnsFd);
    const logFd = hold(addon().netfilterInNetns(netnsFd));
    const listen = (address: string, protocol: 'tcp' | 'udp'): number =>
      hold(addon().listenInNetns(netnsFd, address, protocol === 'tcp' ? trapPorts.tcp : trapPorts.dns, protocol));
    const sockets: TrapSockets = {
      tcp4: listen('127.0.0.1', 'tcp'),
      tcp6: listen('::1', 'tcp'),
      dns4: listen('127.0.0.1', 'udp'),
      dns6: listen('::1', 'udp'),
    };
    return trapOf(netnsFd, logFd, sockets);
  } catch (error) {
    for (const fd of held) closeSync(fd);
    throw error;
  }
}

/** One shell for all steps: each start of a program costs as much as what it does. */
async function setUp(netnsFd: number): Promise<void> {
  const sysctls = namespaceSysctls.map(([name, value]) => `echo "${value}" >/proc/sys/${name}`);
  // /proc/sys/net shows the namespace of the one who opens it (proc_net is looked up by the task)
  const script = ['set -e', `ip -batch - <<'END'\n${linkCommands}END`, ...sysctls, 'exec nft -f -'].join('\n');
  await runProgram('Cannot arm the network namespace', ['nsenter', '--net=/proc/self/fd/3', 'sh', '-c', script], {
    code: 'start_failed',
    deadlineMs: setUpDeadlineMs,
    stdin: nftRules,
    fd3: netnsFd,
  });
}

function trapOf(netnsFd: number, logFd: number, sockets: TrapSockets): TrapNetns {
  let untaken: readonly number[] = Object.values(sockets);
  let isOpen = true;
  return {
    netnsFd,
    logFd,
    takeSockets: () => {
      untaken = [];
      return sockets;
    },
    close: () => {
      if (!isOpen) return;
      isOpen = false;
      for (const fd of [...untaken, logFd, netnsFd]) closeSync(fd);
    },
  };
}
