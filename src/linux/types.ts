/** The host kernel as the rest of the host side sees it: cgroups, pidfds, readable fds. */

export type CgroupMode = 'v1' | 'v2' | 'hybrid';

export interface CgroupUsage {
  readonly memoryBytes: number;
  readonly memoryPeakBytes: number;
  readonly cpuMicros: number;
  /** Periods in which the CPU quota stopped the sandbox. */
  readonly throttledPeriods: number;
  readonly pids: number;
  /** Forks refused by the pids limit since the start. */
  readonly pidsRefused: number;
  /** Processes killed by the cgroup's OOM killer since the start. */
  readonly oomKills: number;
}

/** One sandbox's place in every hierarchy that the host has. */
export interface Cgroup {
  /** Value for `linux.cgroupsPath` of an OCI configuration. */
  readonly ociPath: string;
  usage(): CgroupUsage;
  /** Calls back once, soon after the first OOM kill or refused fork; returns the way to stop watching. */
  watch(onLimit: (limit: 'oom' | 'pids') => void): () => void;
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  /** Host pids in the cgroup and below it. */
  pids(): number[];
  /** SIGKILLs everything in it (thawing first), until empty. @throws SallyportError `deadline` */
  kill(deadlineMs: number): Promise<void>;
  /** Removes its folders in every hierarchy; a missing one is no error. */
  remove(): Promise<void>;
}

export interface CgroupTree {
  readonly mode: CgroupMode;
  /** Where a hybrid host mounts its cgroup2 tree, which crun 1.8 must not see; absent elsewhere. */
  readonly unifiedMount?: string;
  /** True where the memory controller counts swap too (OCI `memory.swap` may be set). */
  readonly hasSwapLimit: boolean;
  /** True on v1, where socket buffers are counted apart (OCI `memory.kernelTCP` has to be set). */
  readonly hasSocketLimit: boolean;
  /** The cgroup of one sandbox; creates nothing (the OCI runtime does). */
  sandbox(id: string): Cgroup;
  /** Ids of sandboxes that have a cgroup in any hierarchy, for the reaper. */
  list(): string[];
  /** Removes the tree's own parent folders when no sandbox is left in them. */
  removeEmptyParents(): Promise<void>;
}

/** A process that cannot be mistaken for a later one with the same pid. */
export interface ProcessHandle {
  readonly pid: number;
  /** @returns false when it has ended already */
  signal(signal: number): boolean;
  /** Settles when the process has ended (zombie counts as ended). */
  readonly ended: Promise<void>;
  close(): void;
}
