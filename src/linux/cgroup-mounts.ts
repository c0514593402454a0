/** Which cgroup hierarchies this host has: a pure reading of /proc/self/mountinfo. */
import type { CgroupMode } from './types.ts';

export interface CgroupMounts {
  readonly mode: CgroupMode;
  /** v1 controller, or a hierarchy without one (`name=systemd`), → mount point. */
  readonly v1: ReadonlyMap<string, string>;
  readonly v2?: string;
}

const controllers: ReadonlySet<string> = new Set([
  'cpu',
  'cpuacct',
  'cpuset',
  'memory',
  'devices',
  'freezer',
  'blkio',
  'pids',
  'hugetlb',
  'net_cls',
  'net_prio',
  'perf_event',
  'rdma',
  'misc',
]);

/** @param mountinfo the text of /proc/self/mountinfo (proc(5)) */
export function parseCgroupMounts(mountinfo: string): CgroupMounts {
  const v1 = new Map<string, string>();
  let v2: string | undefined;
  for (const line of mountinfo.split('\n')) {
    const [before = '', after = ''] = line.split(' - ');
    const mountPoint = before.split(' ')[4]?.replace(/\\([0-7]{3})/g, unescaped);
    const [type, , options = ''] = after.split(' ');
    if (mountPoint === undefined) continue;
    if (type === 'cgroup2') v2 ??= mountPoint;
    if (type !== 'cgroup') continue;
    for (const option of options.split(',')) if (isHierarchy(option) && !v1.has(option)) v1.set(option, mountPoint);
  }
  const mode = v1.size === 0 ? 'v2' : v2 === undefined ? 'v1' : 'hybrid';
  return { mode, v1, ...(v2 === undefined ? {} : { v2 }) };
}

/** An OCI runtime makes a folder in named hierarchies too, whatever their name. */
function isHierarchy(option: string): boolean {
  return controllers.has(option) || option.startsWith('name=');
}

/** mountinfo writes space, tab, newline and backslash as three octal digits. */
function unescaped(_: string, octal: string): string {
  return String.fromCharCode(Number.parseInt(octal, 8));
}
