import { describe, expect, it } from 'vitest';
import { maskedPaths, readonlyPaths } from './masked-paths.ts';

const covers = (mask: string, path: string): boolean => path === mask || path.startsWith(`${mask}/`);

describe('the masks', () => {
  it('hide what shows or steers the host', () => {
    const hidden = [
      '/proc/kcore',
      '/proc/keys',
      '/proc/pressure/cpu',
      '/proc/timer_list',
      '/proc/partitions',
      '/sys/kernel/uevent_helper',
      '/sys/firmware/efi/efivars',
      '/sys/devices/virtual/block/loop0/loop/backing_file',
      '/sys/devices/virtual/powercap',
      '/sys/class/dmi',
      '/sys/fs/cgroup',
    ];
    expect(hidden.filter((path) => !maskedPaths.some((mask) => covers(mask, path)))).toEqual([]);
  });

  it('leave what programs size themselves by', () => {
    const shown = [
      ...['cpuinfo', 'meminfo', 'stat', 'loadavg', 'uptime', 'vmstat', 'filesystems', 'self', 'sys', 'net'].map(
        (name) => `/proc/${name}`,
      ),
      '/sys/devices/system/cpu/online',
      '/sys/devices/system/node/online',
    ];
    expect(shown.filter((path) => maskedPaths.some((mask) => covers(mask, path)))).toEqual([]);
  });

  it('and the read-only paths are of /proc or /sys, each named once', () => {
    const all = [...maskedPaths, ...readonlyPaths];
    expect(new Set(all).size).toBe(all.length);
    expect(all.filter((path) => !/^\/(proc|sys)(\/[A-Za-z0-9_.:-]+)+$/.test(path))).toEqual([]);
  });

  it('PX-01, PX-02: the switches of the kernel are read-only', () => {
    expect(readonlyPaths).toEqual(expect.arrayContaining(['/proc/sys', '/proc/sysrq-trigger', '/proc/irq']));
  });
});
