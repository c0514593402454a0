import { describe, expect, it } from 'vitest';
import { parseCgroupMounts } from './cgroup-mounts.ts';

const v1Line = (controllers: string): string =>
  `30 25 0:26 / /sys/fs/cgroup/${controllers} rw,relatime shared:9 - cgroup cgroup rw,${controllers}`;
const v2 = '34 25 0:29 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate';
const unified = '43 33 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw';

describe('cgroup mounts', () => {
  it('v2: one tree', () => {
    expect(parseCgroupMounts(v2)).toEqual({ mode: 'v2', v1: new Map(), v2: '/sys/fs/cgroup' });
  });

  it('v1: each controller by name, also where two share a mount', () => {
    const { mode, v1 } = parseCgroupMounts([v1Line('cpu,cpuacct'), v1Line('memory'), v1Line('pids')].join('\n'));
    expect(mode).toBe('v1');
    expect([...v1]).toEqual([
      ['cpu', '/sys/fs/cgroup/cpu,cpuacct'],
      ['cpuacct', '/sys/fs/cgroup/cpu,cpuacct'],
      ['memory', '/sys/fs/cgroup/memory'],
      ['pids', '/sys/fs/cgroup/pids'],
    ]);
  });

  it('hybrid: v1 controllers with a cgroup2 tree beside them', () => {
    expect(parseCgroupMounts([v1Line('memory'), unified].join('\n'))).toMatchObject({
      mode: 'hybrid',
      v2: '/sys/fs/cgroup/unified',
    });
  });

  it('named hierarchies, and paths that mountinfo had to escape', () => {
    const named = '40 31 0:37 / /sys/fs/c\\040group/e rw - cgroup cgroup rw,xattr,name=elogind';
    expect([...parseCgroupMounts(named).v1]).toEqual([['name=elogind', '/sys/fs/c group/e']]);
  });

  it('takes no other mount for one, and an empty or odd text for none', () => {
    const other = '24 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\nnonsense\n';
    expect(parseCgroupMounts(other)).toMatchObject({ mode: 'v2' });
    expect(parseCgroupMounts('').v2).toBeUndefined();
  });
});
