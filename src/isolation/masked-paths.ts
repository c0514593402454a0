/** What of /proc and /sys is hidden or read-only in every sandbox, with the reason. */

/** Empty or absent inside: they show or steer the host. */
export const maskedPaths: readonly string[] = [
  // kernel memory, log and symbols (PX-24)
  '/proc/kcore',
  '/proc/kmsg',
  '/proc/kallsyms',
  '/proc/kpagecount',
  '/proc/kpageflags',
  '/proc/kpagecgroup',
  // timers and schedulers of every process of the host
  '/proc/timer_list',
  '/proc/timer_stats',
  '/proc/sched_debug',
  '/proc/latency_stats',
  // keys are not namespaced (PX-14)
  '/proc/keys',
  '/proc/key-users',
  // hardware
  '/proc/acpi',
  '/proc/asound',
  '/proc/scsi',
  '/proc/interrupts',
  '/sys/firmware',
  '/sys/devices/virtual/powercap',
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
