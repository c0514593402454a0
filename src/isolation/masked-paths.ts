/**
 * What of /proc and /sys is hidden or read-only in every sandbox, with the reason. What stays is what programs size
 * themselves by: cpuinfo, meminfo, stat, loadavg, uptime, vmstat and /sys/devices/system/{cpu,node}. A runtime passes
 * over a path that the host's kernel does not have.
 */

/** Empty or absent inside: they show or steer the host. */
export const maskedPaths: readonly string[] = [
  // kernel memory, log, symbols and build (PX-24)
  '/proc/kcore',
  '/proc/kmsg',
  '/proc/kallsyms',
  '/proc/kpagecount',
  '/proc/kpageflags',
  '/proc/kpagecgroup',
  '/proc/modules',
  '/proc/config.gz',
  '/proc/cmdline',
  // the kernel's allocators: how the host's memory is laid out, and what it is used for
  '/proc/slabinfo',
  '/proc/vmallocinfo',
  '/proc/pagetypeinfo',
  '/proc/buddyinfo',
  '/proc/zoneinfo',
  '/sys/devices/system/memory',
  // timers and schedulers of every process of the host
  '/proc/timer_list',
  '/proc/timer_stats',
  '/proc/sched_debug',
  '/proc/latency_stats',
  // mode 0666: whoever opens one for writing makes the host's kernel watch the pressure of the whole host for him
  '/proc/pressure',
  // keys are not namespaced (PX-14)
  '/proc/keys',
  '/proc/key-users',
  // hardware, and the timing of what others do with it
  '/proc/acpi',
  '/proc/asound',
  '/proc/scsi',
  '/proc/interrupts',
  '/proc/softirqs',
  '/proc/iomem',
  '/proc/ioports',
  '/proc/dma',
  '/proc/driver',
  '/proc/mtrr',
  '/sys/firmware',
  '/sys/power',
  '/sys/devices/LNXSYSTM:00',
  '/sys/devices/pci0000:00',
  '/sys/devices/platform',
  '/sys/devices/pnp0',
  '/sys/devices/system/edac',
  '/sys/devices/system/machinecheck',
  // disks: loop/backing_file names host paths and other sandboxes (FS-28), stat shows what those do
  '/proc/partitions',
  '/proc/diskstats',
  '/proc/fs/ext4',
  '/proc/fs/jbd2',
  '/proc/fs/xfs',
  '/proc/fs/btrfs',
  '/proc/fs/nfsd',
  // loop, dmi, powercap, thermal, net; and the indexes of all devices
  '/sys/devices/virtual',
  '/sys/block',
  '/sys/bus',
  '/sys/class',
  '/sys/dev',
  // kernel switches, uevent_helper, debugfs, tracefs, slab (PX-05)
  '/sys/kernel',
  '/sys/module',
  '/sys/fs',
  '/sys/hypervisor',
];

/** Readable, never writable: every one of them changes the host (PX-01, PX-02). */
export const readonlyPaths: readonly string[] = [
  '/proc/bus',
  '/proc/fs',
  '/proc/irq',
  '/proc/sys',
  '/proc/sysrq-trigger',
];
