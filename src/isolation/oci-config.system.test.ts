/**
 * A rendered configuration on the real kernel: crun and runc start it, and a probe as PID 1 says what it finds. This is
 * where libseccomp's reading of the profile, the mounts and the masks are proved; everything else is data.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exerciseGrant } from './exercise-grant.ts';
import { maskedPaths } from './masked-paths.ts';
import { type OciInput, renderOciConfig } from './oci-config.ts';
import { type RuntimeName, runtimes } from './runtime.ts';
import { seccompProfile } from './seccomp.ts';

const base = 1_879_048_192;
const startDeadlineMs = 40_000;
const architecture = process.arch === 'arm64' ? 'arm64' : 'x64';
const cgroupParent = `sallyport-oci-test-${process.pid}`;
const hybridMount = '/sys/fs/cgroup/unified';

const [OK, EPERM, ENOMEM, EACCES, ENOSYS, EPROTONOSUPPORT, EAFNOSUPPORT] = [
  '0',
  '1',
  '12',
  '13',
  '38',
  '93',
  '97',
] as const;

/** What the probe said. */
interface Findings {
  /** Raw call → errno, `0` where it succeeded. */
  readonly calls: ReadonlyMap<string, string>;
  lines(key: string): string[];
  /** A field of /proc/self/status. */
  status(field: string): string;
}

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-oci-'));
  // root of the sandbox is nobody here: he passes through to the root that is his own
  chmodSync(folder, 0o711);
  const source = new URL('./oci-config.probe.c', import.meta.url).pathname;
  const flags = ['-O2', '-Wall', '-Wextra', '-Werror', '-static', '-pthread'];
  execFileSync('gcc', [...flags, '-o', join(folder, 'probe'), source]);
});

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
  for (const hierarchy of readdirSync('/sys/fs/cgroup')) {
    for (const parent of [join('/sys/fs/cgroup', hierarchy, cgroupParent), join('/sys/fs/cgroup', cgroupParent)]) {
      if (existsSync(parent)) rmdirSync(parent);
    }
  }
});

function makeRoot(path: string): void {
  for (const part of ['', '.sallyport', 'proc', 'dev', 'sys']) {
    mkdirSync(join(path, part), { mode: 0o755 });
    chownSync(join(path, part), base, base);
  }
  copyFileSync(join(folder, 'probe'), join(path, '.sallyport/init'));
  chmodSync(join(path, '.sallyport/init'), 0o755);
  writeFileSync(join(path, 'hidden'), maskedPaths.map((masked) => `${masked}\n`).join(''));
}

/** As the launcher does it: the network and its sysfs first. crun 1.8 refuses a hybrid host, so it does not see that it is one. */
function commandOf(runtime: RuntimeName, bundle: string, id: string): string[] {
  const options = ['--root', join(bundle, 'state'), 'run', '--bundle', bundle, id];
  const hides = runtimes[runtime].refusesHybridCgroups && existsSync(hybridMount);
  const steps = [
    'ip link set lo up',
    `mount --bind /proc/self/ns/net ${join(bundle, 'netns')}`,
    `mount -t sysfs -o ro,nosuid,nodev,noexec sysfs ${join(bundle, 'rootfs/sys')}`,
    ...(hides ? [`umount ${hybridMount}`] : []),
    'exec "$@"',
  ].join(' && ');
  const command = runtime === 'runc' ? ['runc', ...options] : ['crun', '--cgroup-manager=cgroupfs', ...options];
  return ['unshare', '--mount', '--net', '--propagation', 'private', 'sh', '-c', steps, 'sh', ...command];
}

function inputOf(id: string, rootfs: string, root: boolean): OciInput {
  return {
    id,
    hostname: 'sandbox',
    rootfs,
    netns: join(rootfs, '../netns'),
    root,
    tier: 'container',
    limits: exerciseGrant('container', { name: 'base', digest: 'sha256:0' }).limits,
    uidMap: { base, count: 65_536 },
    cgroupsPath: `/${cgroupParent}/${id}`,
    hasSwapLimit: existsSync('/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes'),
    hasSocketLimit: existsSync('/sys/fs/cgroup/memory/memory.kmem.tcp.limit_in_bytes'),
    hostOpenFiles: 4_096,
    seccomp: seccompProfile(root, architecture),
  };
}

function probe(runtime: RuntimeName, root: boolean): Findings {
  const id = `probe-${runtime}-${root ? 'root' : 'plain'}`;
  const bundle = join(folder, id);
  mkdirSync(bundle, { mode: 0o711 });
  makeRoot(join(bundle, 'rootfs'));
  writeFileSync(join(bundle, 'netns'), '');
  writeFileSync(
    join(bundle, 'config.json'),
    JSON.stringify(renderOciConfig(inputOf(id, join(bundle, 'rootfs'), root))),
  );
  const [command = '', ...options] = commandOf(runtime, bundle, id);
  const { status, stdout, stderr } = spawnSync(command, options, {
    encoding: 'utf8',
    timeout: startDeadlineMs,
    killSignal: 'SIGKILL',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  if (status !== 0 || !stdout.endsWith('end ok\n')) throw new Error(`${runtime} ended with ${status}: ${stderr}`);
  return findingsOf(stdout);
}

function findingsOf(text: string): Findings {
  const all = text.split('\n');
  const lines = (key: string): string[] =>
    all.filter((line) => line.startsWith(`${key} `)).map((line) => line.slice(key.length + 1));
  const calls = lines('call').map((line): [string, string] => {
    const [name = '', answer = ''] = line.split(' ');
    return [name, answer];
  });
  const status = (field: string): string =>
    lines('status')
      .find((line) => line.startsWith(`${field}:`))
      ?.slice(field.length + 1)
      .trim() ?? '';
  return { calls: new Map(calls), lines, status };
}

/** The answers of the calls whose name the pattern matches, as an object to compare with. */
function answers({ calls }: Findings, pattern: RegExp): Record<string, string> {
  return Object.fromEntries([...calls].filter(([name]) => pattern.test(name)));
}

/** Mount point → its last mount's options and type: the last one is the one that is seen. */
function mountsOf(findings: Findings): Map<string, { options: string[]; type: string }> {
  return new Map(
    findings.lines('mount').map((line) => {
      const [before = '', after = ''] = line.split(' - ');
      const fields = before.split(' ');
      return [fields[4] ?? '', { options: (fields[5] ?? '').split(','), type: after.split(' ')[0] ?? '' }];
    }),
  );
}

const denied =
  'ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd mount umount2 pivot_root open_tree move_mount fsopen ' +
  'fsconfig fsmount fspick mount_setattr setns add_key request_key keyctl bpf perf_event_open userfaultfd kexec_load ' +
  'kexec_file_load io_uring_setup io_uring_enter io_uring_register init_module finit_module delete_module acct swapon ' +
  'swapoff quotactl reboot syslog fanotify_init vhangup settimeofday clock_settime clock_adjtime adjtimex sethostname ' +
  'setdomainname name_to_handle_at open_by_handle_at mbind set_mempolicy migrate_pages move_pages mlockall ' +
  'sched_setattr mknod-device';
const deniedOnX64 = 'iopl ioperm modify_ldt';

describe.each(
  (['crun', 'runc'] as const).flatMap((runtime) => [
    { runtime, root: false, name: `${runtime}, a class without root` },
    { runtime, root: true, name: `${runtime}, a class with root` },
  ]),
)('$name', ({ runtime, root }) => {
  let found: Findings;
  beforeAll(() => {
    found = probe(runtime, root);
  });

  it('PX-11: PID 1 has the capabilities of the table and no others', () => {
    // KILL, SETGID, SETUID, SETPCAP are bits 5 … 8 (linux/capability.h)
    const expected = root ? '00000000a00405fb' : '00000000000001e0';
    for (const field of ['CapPrm', 'CapEff', 'CapBnd']) expect([field, found.status(field)]).toEqual([field, expected]);
    for (const field of ['CapInh', 'CapAmb']) expect([field, found.status(field)]).toEqual([field, '0'.repeat(16)]);
  });

  it('the filter is on, and setuid programs work only with root', () => {
    expect(found.status('Seccomp')).toBe('2');
    expect(found.status('NoNewPrivs')).toBe(root ? '0' : '1');
  });

  it('maps one range of nobodies', () => {
    for (const key of ['uid_map', 'gid_map'])
      expect(found.lines(key).map((line) => line.trim().split(/ +/).map(Number))).toEqual([[0, base, 65_536]]);
  });

  it('RX-13: limits are set, also those that a daemon could hand down', () => {
    const limit = (name: string): string | undefined =>
      found
        .lines('limit')
        .find((line) => line.startsWith(name))
        ?.slice(name.length)
        .trim()
        .replace(/ +/g, ' ');
    expect(limit('Max open files')).toMatch(/^4096 4096\b/);
    expect(limit('Max core file size')).toMatch(/^0 0\b/);
    expect(limit('Max locked memory')).toMatch(/^65536 65536\b/);
    expect(limit('Max nice priority')).toBe('0 0');
    expect(limit('Max realtime priority')).toBe('0 0');
  });

  it('mounts kernel filesystems and devices only, /proc/sys and /sys read-only', () => {
    const mounts = mountsOf(found);
    const masks = new Set([...maskedPaths, '/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger']);
    const devices = ['full', 'null', 'random', 'tty', 'urandom', 'zero'].map((name) => `/dev/${name}`);
    const own = ['/', '/dev', '/dev/mqueue', '/dev/pts', '/dev/shm', '/proc', '/sys'];
    expect([...mounts.keys()].filter((path) => !masks.has(path)).sort()).toEqual([...devices, ...own].sort());
    for (const path of ['/sys', '/proc/sys', '/proc/irq', '/proc/bus', '/proc/fs'])
      expect([path, mounts.get(path)?.options]).toEqual([path, expect.arrayContaining(['ro'])]);
    for (const path of ['/proc', '/dev/shm', '/dev/mqueue', '/sys'])
      expect(mounts.get(path)?.options).toEqual(expect.arrayContaining(['nosuid', 'nodev', 'noexec']));
  });

  it('PX-01, PX-02, PX-04, PX-05: nothing in /proc or /sys opens for writing, but what belongs to a process', () => {
    expect(found.lines('writable')).toEqual([]);
  });

  it('PX-24: what is masked says nothing; twin: what programs size themselves by is there', () => {
    const bytes = new Map(found.lines('readable').map((line) => line.split(' ') as [string, string]));
    expect(maskedPaths.filter((path) => bytes.get(path) !== '0')).toEqual([]);
    const wanted = [...bytes].filter(([path]) => !maskedPaths.includes(path));
    expect(wanted.length).toBeGreaterThan(10);
    expect(wanted.filter(([, count]) => count === '0')).toEqual([]);
  });

  it('PX-06, PX-11, PX-13, PX-14, PX-32: refuses every call of the denied families with EPERM', () => {
    const names = (architecture === 'x64' ? `${denied} ${deniedOnX64}` : denied).split(' ');
    expect(names.filter((name) => found.calls.get(name) !== EPERM)).toEqual([]);
    expect(found.calls.get('chroot')).toBe(root ? OK : EPERM);
  });

  it('PX-08, PX-09: refuses every namespace flag, in any mix; clone3 does not exist', () => {
    const table = answers(found, /^(unshare|clone)-/);
    expect(Object.keys(table).length).toBe(23);
    expect(Object.entries(table).filter(([, answer]) => answer !== EPERM)).toEqual([]);
    expect(answers(found, /^(clone3|unknown)$/)).toEqual({ clone3: ENOSYS, unknown: ENOSYS });
  });

  it('PX-17, PX-18: has no socket family but unix, inet, inet6 and netlink', () => {
    const open = ['family-1', 'family-2', 'family-10'];
    for (const [name, answer] of Object.entries(answers(found, /^family-/)))
      expect([name, answer]).toEqual([name, open.includes(name) ? OK : EAFNOSUPPORT]);
    expect(found.calls.get('vsock-upper-bits')).toBe(EAFNOSUPPORT);
    for (const name of ['socketpair-inet', 'socketpair-tipc']) expect(found.calls.get(name)).toBe(ENOSYS);
  });

  it('PX-18: speaks TCP and UDP only, so that no protocol module is loaded into the host', () => {
    const table = answers(found, /^inet6?-/);
    expect(Object.keys(table).length).toBe(97);
    expect(Object.entries(table).filter(([, answer]) => answer === OK)).toEqual([]);
    expect(answers(found, /^inet6?-[12]-1(32|36)$|^inet-sctp/)).toEqual({
      'inet-1-132': EPROTONOSUPPORT,
      'inet-1-136': EPROTONOSUPPORT,
      'inet-2-132': EPROTONOSUPPORT,
      'inet-2-136': EPROTONOSUPPORT,
      'inet6-1-132': EPROTONOSUPPORT,
      'inet6-1-136': EPROTONOSUPPORT,
      'inet6-2-132': EPROTONOSUPPORT,
      'inet6-2-136': EPROTONOSUPPORT,
      'inet-sctp-upper-bits': EPROTONOSUPPORT,
    });
    expect(answers(found, /^raw-/)).toEqual({ 'raw-icmp': EPERM, 'raw-icmp6': EPERM });
  });

  it('PX-19: netlink is for routes only', () => {
    const { 'netlink-0': routes, ...others } = answers(found, /^netlink-/);
    expect(routes).toBe(OK);
    expect(Object.keys(others).length).toBe(23);
    expect(Object.entries(others).filter(([, answer]) => answer !== EPROTONOSUPPORT)).toEqual([]);
  });

  it('PX-22: pushes no input into a terminal, however the number is dressed up; twin: a terminal works', () => {
    expect(answers(found, /^TIOC/)).toEqual({
      TIOCSTI: EPERM,
      TIOCLINUX: EPERM,
      'TIOCSTI-upper-bits': EPERM,
      'TIOCLINUX-upper-bits': EPERM,
      'TIOCSTI-sign-extended': EPERM,
      TIOCGWINSZ: OK,
      'TIOCGWINSZ-upper-bits': OK,
      TIOCGPTN: OK,
      'TIOCGPTN-sign-extended': OK,
    });
  });

  it('RX-13: takes no realtime, no higher priority and no locked memory; twin: batch and one locked page', () => {
    expect(answers(found, /^(sched-|nice|ioprio|mlock-)/)).toEqual({
      'sched-fifo': EPERM,
      'sched-rr': EPERM,
      'sched-deadline': EPERM,
      'sched-fifo-upper-bits': EPERM,
      'sched-fifo-reset': ENOSYS,
      'sched-ext': ENOSYS,
      'nice-minus-20': EACCES,
      'ioprio-realtime': EPERM,
      'mlock-one-mebibyte': ENOMEM,
      'sched-batch': OK,
      'mlock-one-page': OK,
    });
    expect(found.calls.get('personality-no-random')).toBe(ENOSYS);
  });

  it.runIf(architecture === 'x64')('ends a program that calls by the numbers of another architecture', () => {
    expect(found.calls.get('i386-getpid')).toBe('killed');
    expect(found.calls.get('x32-getpid')).toBe('signal-31');
  });

  it('twins: threads, programs, sockets, routes, shared memory and another user work', () => {
    const table = answers(found, /^twin-/);
    expect(Object.keys(table).length).toBe(13);
    expect(Object.entries(table).filter(([, answer]) => answer !== OK)).toEqual([]);
  });

  it('leaves no cgroup and no state behind', () => {
    const id = `probe-${runtime}-${root ? 'root' : 'plain'}`;
    expect(readdirSync(join(folder, id, 'state'))).toEqual([]);
    for (const hierarchy of readdirSync('/sys/fs/cgroup'))
      expect(existsSync(join('/sys/fs/cgroup', hierarchy, cgroupParent, id))).toBe(false);
    expect(readFileSync('/proc/self/mountinfo', 'utf8')).not.toContain(folder);
  });
});
