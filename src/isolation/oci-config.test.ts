import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { GrantLimits } from '../admission/grant.ts';
import { capabilitiesOf } from './capabilities.ts';
import { exerciseGrant } from './exercise-grant.ts';
import { type OciInput, renderOciConfig } from './oci-config.ts';
import { seccompProfile } from './seccomp.ts';

const base: OciInput = {
  id: 'sb-1',
  hostname: 'sandbox',
  rootfs: '/run/sallyport/rootfs',
  netns: '/run/sallyport/netns',
  root: false,
  tier: 'container',
  limits: exerciseGrant('container', { name: 'base', digest: 'sha256:0' }).limits,
  uidMap: { base: 1_879_048_192, count: 65_536 },
  cgroupsPath: '/sallyport/home/sb-1',
  hasSwapLimit: true,
  hasSocketLimit: false,
  hostOpenFiles: 20_000,
  seccomp: seccompProfile(false, 'x64'),
};

const anyLimits: fc.Arbitrary<GrantLimits> = fc.record({
  cpuShares: fc.integer({ min: 2, max: 262_144 }),
  cpuMillis: fc.integer({ min: 1, max: 256_000 }),
  memoryBytes: fc.integer({ min: 1 << 20, max: 2 ** 45 }),
  pids: fc.integer({ min: 1, max: 4_194_304 }),
  openFiles: fc.integer({ min: 1, max: 2 ** 31 }),
  diskBytes: fc.nat(),
  inodes: fc.nat(),
  execMs: fc.nat(),
  outputBytes: fc.nat(),
});

/** Everything that a request or an image could reach is arbitrary, strings included. */
const anyInput: fc.Arbitrary<OciInput> = fc
  .record({
    id: fc.string(),
    hostname: fc.string(),
    root: fc.boolean(),
    tier: fc.constantFrom('process', 'container'),
    limits: anyLimits,
    hasSwapLimit: fc.boolean(),
  })
  .map((changes) => ({ ...base, ...changes, seccomp: seccompProfile(changes.root, 'x64') }));

describe('no input makes the configuration', () => {
  const holds = (name: string, rule: (config: ReturnType<typeof renderOciConfig>, input: OciInput) => void): void =>
    it(name, () => fc.assert(fc.property(anyInput, (input) => rule(renderOciConfig(input), input))));

  holds('miss a namespace, or join one of the host', ({ linux }) => {
    expect(linux.namespaces).toEqual([
      ...['pid', 'ipc', 'uts', 'mount', 'cgroup', 'user'].map((type) => ({ type })),
      { type: 'network', path: '/run/sallyport/netns' },
    ]);
  });

  holds('mount anything of the host: kernel filesystems only', ({ mounts }) => {
    expect(mounts.map(({ type }) => type)).toEqual(['proc', 'tmpfs', 'devpts', 'tmpfs', 'mqueue']);
    for (const { source, options } of mounts) {
      expect(source).not.toContain('/');
      expect(options.some((option) => option.includes('bind'))).toBe(false);
    }
  });

  holds('leave /proc/sys or another switch writable (PX-01)', ({ linux }) => {
    for (const path of ['/proc/sys', '/proc/sysrq-trigger', '/proc/irq', '/proc/bus', '/proc/fs'])
      expect(linux.readonlyPaths).toContain(path);
    for (const path of ['/proc/kcore', '/proc/keys', '/proc/timer_list', '/sys/firmware', '/sys/kernel'])
      expect(linux.maskedPaths).toContain(path);
    for (const path of ['/proc/pressure', '/sys/devices/virtual']) expect(linux.maskedPaths).toContain(path);
  });

  holds('give a capability beyond the table, or an inheritable or ambient one', ({ process }, { root }) => {
    const { bounding, effective, permitted, inheritable, ambient } = process.capabilities;
    for (const set of [bounding, effective, permitted]) expect(set).toEqual(capabilitiesOf(root));
    expect([...inheritable, ...ambient]).toEqual([]);
  });

  holds('allow new privileges without root, a terminal, another user, or another program', ({ process }, { root }) => {
    expect(process.noNewPrivileges).toBe(!root);
    expect(process).toMatchObject({ terminal: false, user: { uid: 0, gid: 0 }, args: ['/.sallyport/init'] });
  });

  holds('map root or anybody of the host', ({ linux }) => {
    for (const maps of [linux.uidMappings, linux.gidMappings]) {
      expect(maps).toEqual([{ containerID: 0, hostID: base.uidMap.base, size: base.uidMap.count }]);
    }
  });

  holds('allow a device beyond the harmless ones (FS-33)', ({ linux }) => {
    const [first, ...rest] = linux.resources.devices;
    expect(first).toEqual({ allow: false, access: 'rwm' });
    const shown = rest.map(
      (rule) => `${'major' in rule ? rule.major : '*'}:${'minor' in rule ? rule.minor : '*'} ${rule.access}`,
    );
    expect(shown).toEqual(['1:3 rw', '1:5 rw', '1:7 rw', '1:8 rw', '1:9 rw', '5:0 rw', '5:2 rw', '136:* rw']);
  });

  holds('go without seccomp, or with another default than deny', ({ linux }) => {
    expect(linux.seccomp.defaultAction).toBe('SCMP_ACT_ERRNO');
    expect(linux.seccomp.syscalls.length).toBeGreaterThan(50);
  });

  holds('carry annotations, hooks or keys nobody decided on (FS-31)', (config) => {
    expect(Object.keys(config).sort()).toEqual(['hostname', 'linux', 'mounts', 'ociVersion', 'process', 'root']);
    expect(Object.keys(config.linux).sort()).toEqual(
      [
        'cgroupsPath',
        'gidMappings',
        'maskedPaths',
        'namespaces',
        'readonlyPaths',
        'resources',
        'seccomp',
        'uidMappings',
      ].sort(),
    );
  });

  holds('raise a limit above the Grant or the host', ({ linux, process }, { limits, hasSwapLimit }) => {
    expect(linux.resources.memory).toEqual({
      limit: limits.memoryBytes,
      ...(hasSwapLimit ? { swap: limits.memoryBytes } : {}),
    });
    expect(linux.resources.pids.limit).toBe(limits.pids);
    for (const { type, hard } of process.rlimits)
      if (type === 'RLIMIT_NOFILE') expect(hard).toBeLessThanOrEqual(base.hostOpenFiles);
  });
});

describe('a mistake of the caller', () => {
  it.each([0, 1_000, 65_535, -1, Number.NaN, 1e300])('does not map users of the host: base %d', (start) => {
    expect(() => renderOciConfig({ ...base, uidMap: { base: start, count: 65_536 } })).toThrow(/uid range begins/);
  });

  it.each([0, -1, 0.5])('does not map a range of %d ids', (count) => {
    expect(() => renderOciConfig({ ...base, uidMap: { base: 65_536, count } })).toThrow(/uid range holds/);
  });

  it.each(['/', '', 'rootfs'])('does not make %j the root', (rootfs) => {
    expect(() => renderOciConfig({ ...base, rootfs })).toThrow(/the root is/);
  });

  it.each(['', 'netns', '/proc/1/ns/net', '/proc/self/ns/net'])('does not join the network %j', (netns) => {
    expect(() => renderOciConfig({ ...base, netns })).toThrow(/the network namespace is/);
  });
});

describe('priorities', () => {
  it('RX-13: cannot be raised, whatever limits the daemon itself was started with', () => {
    const { rlimits } = renderOciConfig(base).process;
    for (const type of ['RLIMIT_NICE', 'RLIMIT_RTPRIO']) expect(rlimits).toContainEqual({ type, hard: 0, soft: 0 });
  });
});

describe('the only host paths', () => {
  it('are the root and the network that the launcher has put together', () => {
    const text = JSON.stringify({
      ...renderOciConfig(base),
      linux: { ...renderOciConfig(base).linux, seccomp: undefined },
    });
    const paths = [...text.matchAll(/"(\/[^"]*)"/g)].map(([, path]) => path ?? '');
    const own = paths.filter((path) => !/^\/(proc|sys|dev|\.sallyport|$)/.test(path));
    expect(own).toEqual(['/run/sallyport/rootfs', '/run/sallyport/netns', '/sallyport/home/sb-1']);
  });
});

describe('cpu', () => {
  it.each([
    [1_000, 100_000],
    [1_500, 150_000],
    [250, 25_000],
    [1, 1_000],
  ])('%i thousandths are a quota of %i µs in 100 ms', (cpuMillis, quota) => {
    const { cpu } = renderOciConfig({ ...base, limits: { ...base.limits, cpuMillis } }).linux.resources;
    expect(cpu).toMatchObject({ quota, period: 100_000 });
  });
});
