/**
 * The OCI runtime configuration of a sandbox: a pure function of typed data. It cannot express a host mount, a host
 * namespace, a hook, an annotation or a privileged mode: there is no input for them, and its table tests prove it.
 */
import type { GrantLimits, Tier } from '../admission/grant.ts';
import { SallyportError } from '../errors/error.ts';
import { capabilitiesOf } from './capabilities.ts';
import { maskedPaths, readonlyPaths } from './masked-paths.ts';
import type { SeccompProfile } from './seccomp.ts';

export interface OciInput {
  readonly id: string;
  readonly hostname: string;
  /** With `netns` the only host path in the configuration. */
  readonly rootfs: string;
  /** Where the launcher has bound the network namespace that it made ready: no file, no network, no start. */
  readonly netns: string;
  readonly root: boolean;
  readonly tier: Tier;
  readonly limits: GrantLimits;
  readonly uidMap: { readonly base: number; readonly count: number };
  readonly cgroupsPath: string;
  readonly hasSwapLimit: boolean;
  /** cgroup v1 counts socket buffers apart from memory, without a limit of its own. */
  readonly hasSocketLimit: boolean;
  /** Hard RLIMIT_NOFILE of the daemon: without CAP_SYS_RESOURCE nothing can be raised above it. */
  readonly hostOpenFiles: number;
  readonly seccomp: SeccompProfile;
}

/** init holds four fds for each of 256 streams; its commands get their own, lower limit. */
const initOpenFiles = 4_096;
const cpuPeriodMicros = 100_000;
/** The kernel takes no shorter quota (CFS bandwidth control). */
const cpuQuotaMinMicros = 1_000;
const sharedMemoryMaxBytes = 64 * 1024 * 1024;
/** TCP and UDP buffers of a v1 host (memory.kmem.tcp); on v2 they are memory like any other (RX-05). */
const socketMemoryMaxBytes = 64 * 1024 * 1024;
/** mlock is for secrets in memory, not for pinning the host's (RX-13). */
const lockedMemoryBytes = 64 * 1024;

/** Below lie root and the users of the host itself. */
const lowestUid = 65_536;

const newNamespaces = ['pid', 'ipc', 'uts', 'mount', 'cgroup', 'user'] as const;

/** @throws SallyportError `internal` when the uid range holds users of the host, or the root is no absolute path */
export function renderOciConfig(input: OciInput) {
  requireSafe(input);
  const capabilities = capabilitiesOf(input.root);
  const ids = [{ containerID: 0, hostID: input.uidMap.base, size: input.uidMap.count }];
  return {
    ociVersion: '1.0.2',
    hostname: input.hostname,
    root: { path: input.rootfs, readonly: false },
    process: {
      terminal: false,
      user: { uid: 0, gid: 0 },
      args: ['/.sallyport/init'],
      env: ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'],
      cwd: '/',
      noNewPrivileges: !input.root,
      capabilities: {
        bounding: capabilities,
        effective: capabilities,
        permitted: capabilities,
        inheritable: [],
        ambient: [],
      },
      rlimits: rlimitsOf(input),
    },
    mounts: mountsOf(input.limits),
    linux: {
      namespaces: [...newNamespaces.map((type) => ({ type })), { type: 'network', path: input.netns }],
      uidMappings: ids,
      gidMappings: ids,
      cgroupsPath: input.cgroupsPath,
      resources: resourcesOf(input),
      seccomp: input.seccomp,
      maskedPaths,
      readonlyPaths,
    },
  };
}

/** A mistake in these would hand the host to the sandbox, so none is left to the caller's care alone. */
function requireSafe({ id, uidMap, rootfs, netns }: OciInput): void {
  const refuse = (why: string): never => {
    throw new SallyportError('internal', `Cannot render the OCI configuration of sandbox ${id}: ${why}`);
  };
  if (!Number.isSafeInteger(uidMap.base) || uidMap.base < lowestUid)
    refuse(`the uid range begins at ${uidMap.base}, below ${lowestUid}`);
  if (!Number.isSafeInteger(uidMap.count) || uidMap.count < 1) refuse(`the uid range holds ${uidMap.count} ids`);
  // a process's own network would be the host's
  if (!netns.startsWith('/') || netns.startsWith('/proc/')) refuse(`the network namespace is ${JSON.stringify(netns)}`);
  if (!rootfs.startsWith('/') || rootfs === '/') refuse(`the root is ${JSON.stringify(rootfs)}`);
}

function rlimitsOf({ limits, hostOpenFiles }: OciInput) {
  const openFiles = Math.min(Math.max(limits.openFiles, initOpenFiles), hostOpenFiles);
  return [
    { type: 'RLIMIT_NOFILE', hard: openFiles, soft: openFiles },
    { type: 'RLIMIT_CORE', hard: 0, soft: 0 },
    { type: 'RLIMIT_MEMLOCK', hard: lockedMemoryBytes, soft: lockedMemoryBytes },
    // else a daemon with LimitNICE or LimitRTPRIO would hand its priorities down (RX-13)
    { type: 'RLIMIT_NICE', hard: 0, soft: 0 },
    { type: 'RLIMIT_RTPRIO', hard: 0, soft: 0 },
  ];
}

/** Kernel filesystems only: the root with its /sys, the image and the inputs are put together before the runtime starts. */
function mountsOf({ memoryBytes }: GrantLimits) {
  const sharedMemory = Math.min(sharedMemoryMaxBytes, Math.floor(memoryBytes / 2));
  return [
    { destination: '/proc', type: 'proc', source: 'proc', options: ['nosuid', 'noexec', 'nodev'] },
    {
      destination: '/dev',
      type: 'tmpfs',
      source: 'tmpfs',
      options: ['nosuid', 'noexec', 'mode=755', 'size=65536', 'nr_inodes=64'],
    },
    {
      destination: '/dev/pts',
      type: 'devpts',
      source: 'devpts',
      options: ['nosuid', 'noexec', 'newinstance', 'ptmxmode=0666', 'mode=0620', 'gid=5'],
    },
    {
      destination: '/dev/shm',
      type: 'tmpfs',
      source: 'shm',
      options: ['nosuid', 'noexec', 'nodev', 'mode=1777', `size=${sharedMemory}`, 'nr_inodes=4096'],
    },
    { destination: '/dev/mqueue', type: 'mqueue', source: 'mqueue', options: ['nosuid', 'noexec', 'nodev'] },
  ];
}

function resourcesOf({ limits, hasSwapLimit, hasSocketLimit }: OciInput) {
  const sockets = Math.min(socketMemoryMaxBytes, Math.floor(limits.memoryBytes / 4));
  const quota = Math.max(cpuQuotaMinMicros, Math.floor((limits.cpuMillis * cpuPeriodMicros) / 1000));
  return {
    memory: {
      limit: limits.memoryBytes,
      ...(hasSwapLimit ? { swap: limits.memoryBytes } : {}),
      ...(hasSocketLimit ? { kernelTCP: sockets } : {}),
    },
    pids: { limit: limits.pids },
    cpu: { shares: limits.cpuShares, quota, period: cpuPeriodMicros },
    devices: devicesOf(),
  };
}

/** Deny all, then what /dev holds (FS-33): null, zero, full, random, urandom, tty, ptmx, pts. */
function devicesOf() {
  const minors: readonly (readonly [number, number | undefined])[] = [
    [1, 3],
    [1, 5],
    [1, 7],
    [1, 8],
    [1, 9],
    [5, 0],
    [5, 2],
    [136, undefined],
  ];
  return [
    { allow: false, access: 'rwm' },
    ...minors.map(([major, minor]) => ({
      allow: true,
      type: 'c',
      major,
      ...(minor === undefined ? {} : { minor }),
      access: 'rw',
    })),
  ];
}
