/** The daemon's own resource limits, which its children cannot exceed without CAP_SYS_RESOURCE. */
import { readFileSync } from 'node:fs';

/** Hard RLIMIT_NOFILE (proc_pid_limits(5)). */
export function hardOpenFiles(): number {
  const hard = /^Max open files\s+\S+\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1];
  return hard === 'unlimited' || hard === undefined ? 1_048_576 : Number(hard);
}
