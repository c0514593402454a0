import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seccompProfile } from './seccomp.ts';
import { allowedCalls, deniedCalls, namespaceFlags } from './seccomp-calls.ts';

type Profile = ReturnType<typeof seccompProfile>;
const MASK64 = (1n << 64n) - 1n;

/** What the kernel would answer, by the rules' own meaning: any matching ERRNO rule, else any matching ALLOW rule, else the default. */
function verdict({ syscalls, defaultErrnoRet }: Profile, name: string, args: readonly bigint[] = []): 'allow' | number {
  const matching = syscalls.filter(
    (rule) =>
      rule.names.includes(name) &&
      (rule.args ?? []).every(({ index, value, valueTwo, op }) => {
        const argument = (args[index] ?? 0n) & MASK64;
        if (op === 'SCMP_CMP_GT') return argument > BigInt(value);
        return (argument & BigInt(value)) === BigInt(valueTwo ?? 0);
      }),
  );
  const refused = matching.find(({ action }) => action === 'SCMP_ACT_ERRNO');
  if (refused !== undefined) return refused.errnoRet ?? 0;
  return matching.some(({ action }) => action === 'SCMP_ACT_ALLOW') ? 'allow' : defaultErrnoRet;
}

const plain = seccompProfile(false, 'x64');
const rooted = seccompProfile(true, 'x64');
const EPERM = 1;
const ENOSYS = 38;

describe('the seccomp profile', () => {
  it('names no call twice, and none as both allowed and denied', () => {
    expect(new Set(allowedCalls).size).toBe(allowedCalls.length);
    expect(new Set(deniedCalls).size).toBe(deniedCalls.length);
    expect(allowedCalls.filter((name) => deniedCalls.includes(name))).toEqual([]);
  });

  it('answers what it does not know with ENOSYS, clone3 among it (PX-09)', () => {
    for (const name of ['clone3', 'a_call_of_tomorrow']) expect(verdict(plain, name)).toBe(ENOSYS);
  });

  it.each([
    'ptrace',
    'mount',
    'bpf',
    'keyctl',
    'io_uring_setup',
    'userfaultfd',
    'setns',
    'open_by_handle_at',
    'chroot',
  ])('refuses %s', (name) => {
    expect(verdict(plain, name)).toBe(EPERM);
  });

  it('allows chroot to root inside, and nothing else more', () => {
    expect(verdict(rooted, 'chroot')).toBe('allow');
    for (const name of deniedCalls) expect(verdict(rooted, name)).toBe(EPERM);
  });

  it('PX-08: refuses clone and unshare with any namespace flag, whatever else is set', () => {
    const flags = Array.from({ length: 32 }, (_, bit) => 2 ** bit).filter((flag) => (namespaceFlags & flag) !== 0);
    fc.assert(
      fc.property(fc.constantFrom(...flags), fc.bigInt({ min: 0n, max: MASK64 }), (flag, rest) => {
        for (const name of ['clone', 'unshare']) expect(verdict(plain, name, [rest | BigInt(flag)])).toBe(EPERM);
      }),
    );
    expect(verdict(plain, 'clone', [0x3d0f00n])).toBe('allow');
    expect(verdict(plain, 'unshare', [0x400n])).toBe('allow');
    expect(verdict(plain, 'unshare', [0x80n])).toBe(EPERM);
  });

  it('PX-17, PX-18, PX-19: allows unix, TCP and UDP sockets, and netlink for routes only', () => {
    const tables: Record<number, readonly number[] | undefined> = { 1: [0, 6], 2: [0, 17] };
    const passes = (family: number, kind: number, protocol: number): boolean => {
      if (family === 1) return true;
      if (family === 16) return protocol === 0;
      return (family === 2 || family === 10) && (tables[kind]?.includes(protocol) ?? false);
    };
    const anyFamily = fc.oneof(fc.constantFrom(1, 2, 10, 16), fc.integer({ min: 0, max: 0xffff }));
    const anyKind = fc.integer({ min: 0, max: 15 });
    const anyProtocol = fc.oneof(fc.integer({ min: 0, max: 32 }), fc.constantFrom(58, 132, 136, 256, 262));
    const anyFlags = fc.constantFrom(0, 0x800, 0x80000, 0x80800);
    fc.assert(
      fc.property(anyFamily, anyKind, anyFlags, anyProtocol, (family, kind, flags, protocol) => {
        const answer = verdict(plain, 'socket', [BigInt(family), BigInt(kind | flags), BigInt(protocol)]);
        expect(answer === 'allow').toBe(passes(family, kind, protocol));
      }),
      { numRuns: 2_000 },
    );
    for (const family of [2n, 10n]) {
      expect(verdict(plain, 'socket', [family, 3n, 1n])).toBe(EPERM);
      expect(verdict(plain, 'socket', [family, 2n, 1n])).toBe(EPERM);
      expect(verdict(plain, 'socket', [family, 1n, 132n])).toBe(93);
      expect(verdict(plain, 'socket', [family, 1n, 0x1_0000_0084n])).toBe(93);
    }
    expect(verdict(plain, 'socket', [38n, 5n, 0n])).toBe(97);
    expect(verdict(plain, 'socketpair', [1n, 1n, 0n])).toBe('allow');
    expect(verdict(plain, 'socketpair', [2n, 1n, 0n])).not.toBe('allow');
  });

  it('PX-22: allows every ioctl but TIOCSTI and TIOCLINUX, also with bits set that the kernel does not look at', () => {
    const upper = fc.bigInt({ min: 0n, max: 0xffff_ffffn }).map((value) => value << 32n);
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 0xffff_ffffn }), upper, (request, ignored) => {
        const isDenied = request === 0x5412n || request === 0x541cn;
        expect(verdict(plain, 'ioctl', [0n, request | ignored])).toBe(isDenied ? EPERM : 'allow');
      }),
    );
    fc.assert(
      fc.property(fc.constantFrom(0x5412n, 0x541cn), upper, (request, ignored) => {
        expect(verdict(plain, 'ioctl', [0n, request | ignored])).toBe(EPERM);
      }),
    );
    for (let request = 0x5400n; request < 0x5480n; request++) {
      expect(verdict(plain, 'ioctl', [0n, request])).toBe(request === 0x5412n || request === 0x541cn ? EPERM : 'allow');
    }
  });

  it('RX-13: allows fair schedulers only', () => {
    const table = Object.fromEntries(
      [0, 1, 2, 3, 5, 6].map((policy) => [policy, verdict(plain, 'sched_setscheduler', [0n, BigInt(policy)])]),
    );
    expect(table).toEqual({ 0: 'allow', 1: EPERM, 2: EPERM, 3: 'allow', 5: 'allow', 6: EPERM });
  });

  it('knows the native architecture only', () => {
    expect(plain.architectures).toEqual(['SCMP_ARCH_X86_64']);
    expect(seccompProfile(false, 'arm64').architectures).toEqual(['SCMP_ARCH_AARCH64']);
  });
});
