/**
 * The seccomp profile of every sandbox, as OCI `linux.seccomp`: default deny. clone3 is in no table: seccomp cannot see the
 * flags behind its pointer, so it is ENOSYS and libc falls back to clone (PX-09).
 */
import { allowedCalls, deniedCalls, namespaceFlags, timeNamespaceFlag } from './seccomp-calls.ts';

export type SeccompArchitecture = 'x64' | 'arm64';

interface SeccompArgument {
  readonly index: number;
  readonly value: number;
  readonly valueTwo?: number;
  readonly op: 'SCMP_CMP_GT' | 'SCMP_CMP_MASKED_EQ';
}

interface SeccompRule {
  readonly names: readonly string[];
  readonly action: 'SCMP_ACT_ALLOW' | 'SCMP_ACT_ERRNO';
  readonly errnoRet?: number;
  readonly args?: readonly SeccompArgument[];
}

export interface SeccompProfile {
  readonly defaultAction: 'SCMP_ACT_ERRNO';
  readonly defaultErrnoRet: number;
  readonly architectures: readonly string[];
  readonly syscalls: readonly SeccompRule[];
}

const EPERM = 1;
const ENOSYS = 38;
const EPROTONOSUPPORT = 93;
const EAFNOSUPPORT = 97;
/** Kernel reads these arguments as 32-bit ints: what lies above must not decide (x86-64 passes 64). */
const low32 = 0xffff_ffff;

const AF_UNIX = 1;
const AF_INET = 2;
const AF_INET6 = 10;
const AF_NETLINK = 16;
const NETLINK_ROUTE = 0;
const SOCK_RAW = 3;
/** The kernel takes the kind of a socket from these bits; above them are SOCK_CLOEXEC and SOCK_NONBLOCK. */
const socketKind = 0xf;
const IPPROTO_ICMP = 1;
const IPPROTO_UDP = 17;
/** What each kind of inet socket may speak: the default (0), TCP; the default, UDP. */
const inetProtocols = [
  { kind: 1, protocols: [0, 6] },
  { kind: 2, protocols: [0, IPPROTO_UDP] },
] as const;

/** ioctls that push input into a terminal (PX-22; CVE-2017-5226). */
const terminalInput = { TIOCSTI: 0x5412, TIOCLINUX: 0x541c } as const;

/** SCHED_OTHER, SCHED_BATCH, SCHED_IDLE: the classes that cannot starve the host (RX-13). */
const fairSchedulers = [0, 3, 5] as const;
/** PER_LINUX, PER_LINUX32, UNAME26, both, and the question 0xffffffff. */
const personalities = [0x0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff] as const;

/** Only the native one: another architecture's numbers mean other calls, and the filter kills them. */
const architectures = { x64: ['SCMP_ARCH_X86_64'], arm64: ['SCMP_ARCH_AARCH64'] } as const;

/** @param root the Grant's: chroot is allowed to root inside, and setuid programs exist */
export function seccompProfile(root: boolean, architecture: SeccompArchitecture): SeccompProfile {
  return {
    defaultAction: 'SCMP_ACT_ERRNO',
    defaultErrnoRet: ENOSYS,
    architectures: architectures[architecture],
    syscalls: [
      allow(root ? [...allowedCalls, 'chroot'] : allowedCalls),
      refuse(root ? deniedCalls : [...deniedCalls, 'chroot'], EPERM),
      ...namespaceRules(),
      ...socketRules(),
      ...ioctlRules(),
      ...schedulerRules(),
      ...personalities.map((value) => allow(['personality'], [exactly(0, value)])),
    ],
  };
}

/** clone and unshare without a namespace flag; each flag alone is refused, so any mix is (PX-08). */
function namespaceRules(): SeccompRule[] {
  const flags = bitsOf(namespaceFlags);
  return [
    allow(['clone'], [masked(0, namespaceFlags, 0)]),
    ...flags.map((flag) => refuse(['clone'], EPERM, [masked(0, flag, flag)])),
    allow(['unshare'], [masked(0, namespaceFlags | timeNamespaceFlag, 0)]),
    ...[...flags, timeNamespaceFlag].map((flag) => refuse(['unshare'], EPERM, [masked(0, flag, flag)])),
  ];
}

/** unix, TCP, UDP, and netlink only to read routes; the rest says that it has no such family (PX-17, PX-18, PX-19). */
function socketRules(): SeccompRule[] {
  const families = [AF_UNIX, AF_INET, AF_INET6];
  const lower = Array.from({ length: AF_NETLINK }, (_, family) => family).filter(
    (family) => !families.includes(family),
  );
  return [
    allow(['socket'], [exactly(0, AF_UNIX)]),
    ...[AF_INET, AF_INET6].flatMap(inetRules),
    allow(['socket'], [exactly(0, AF_NETLINK), exactly(2, NETLINK_ROUTE)]),
    // as on a kernel built without them: sudo and systemd tools then go on without audit
    refuse(['socket'], EPROTONOSUPPORT, [
      exactly(0, AF_NETLINK),
      { index: 2, value: NETLINK_ROUTE, op: 'SCMP_CMP_GT' },
    ]),
    ...lower.map((family) => refuse(['socket'], EAFNOSUPPORT, [exactly(0, family)])),
    refuse(['socket'], EAFNOSUPPORT, [{ index: 0, value: AF_NETLINK, op: 'SCMP_CMP_GT' }]),
    allow(['socketpair'], [exactly(0, AF_UNIX)]),
  ];
}

/**
 * TCP and UDP. Another protocol would load its module into the host's kernel (SCTP, DCCP, L2TP, SMC: `net-pf-2-proto-132`),
 * and none of them could leave the sandbox anyway.
 */
function inetRules(family: number): SeccompRule[] {
  const inet = exactly(0, family);
  const kinds = inetProtocols.map(({ kind, protocols }) => ({ kind: masked(1, socketKind, kind), protocols }));
  return [
    refuse(['socket'], EPERM, [inet, masked(1, socketKind, SOCK_RAW)]),
    ...kinds.flatMap(({ kind, protocols }) => [
      ...protocols.map((protocol) => allow(['socket'], [inet, kind, exactly(2, protocol)])),
      refuse(['socket'], EPERM, [inet, kind, exactly(2, IPPROTO_ICMP)]),
      refuse(['socket'], EPROTONOSUPPORT, [inet, kind, { index: 2, value: IPPROTO_UDP, op: 'SCMP_CMP_GT' }]),
    ]),
  ];
}

/**
 * All but the two that push input. Rules are alternatives and cannot say "neither", so: a number passes when one of its bits
 * above the lowest four differs from theirs (they share those), or its lowest four are neither's.
 */
function ioctlRules(): SeccompRule[] {
  const numbers = Object.values(terminalInput);
  const shared = terminalInput.TIOCSTI & ~0xf;
  const nibbles = Array.from({ length: 16 }, (_, nibble) => nibble).filter(
    (nibble) => !numbers.some((number) => (number & 0xf) === nibble),
  );
  const upperBits = Array.from({ length: 28 }, (_, index) => 2 ** (index + 4));
  return [
    ...numbers.map((number) => refuse(['ioctl'], EPERM, [exactly(1, number)])),
    ...upperBits.map((bit) => allow(['ioctl'], [masked(1, bit, (shared & bit) === 0 ? bit : 0)])),
    ...nibbles.map((nibble) => allow(['ioctl'], [masked(1, 0xf, nibble)])),
  ];
}

function schedulerRules(): SeccompRule[] {
  const realtime = [1, 2, 6];
  return [
    ...fairSchedulers.map((policy) => allow(['sched_setscheduler'], [exactly(1, policy)])),
    ...realtime.map((policy) => refuse(['sched_setscheduler'], EPERM, [exactly(1, policy)])),
    // their policy lies behind a pointer
    refuse(['sched_setattr'], EPERM),
    allow(['sched_setparam']),
  ];
}

function bitsOf(value: number): number[] {
  return Array.from({ length: 32 }, (_, bit) => 2 ** bit).filter((flag) => (value & flag) !== 0);
}

function allow(names: readonly string[], args?: readonly SeccompArgument[]): SeccompRule {
  return { names, action: 'SCMP_ACT_ALLOW', ...(args === undefined ? {} : { args }) };
}

function refuse(names: readonly string[], errnoRet: number, args?: readonly SeccompArgument[]): SeccompRule {
  return { names, action: 'SCMP_ACT_ERRNO', errnoRet, ...(args === undefined ? {} : { args }) };
}

function exactly(index: number, value: number): SeccompArgument {
  return masked(index, low32, value);
}

function masked(index: number, mask: number, value: number): SeccompArgument {
  return { index, value: mask, valueTwo: value, op: 'SCMP_CMP_MASKED_EQ' };
}
