/**
 * The Grant: what one sandbox may do, decided once from (request, class), immutable afterwards, and named
 * by the sha256 of its canonical JSON on everything that follows from it (invariant 4).
 */

import type { NetworkGrant, NetworkRequest } from './network.ts';

/** Isolation tiers, weakest first. Later parts add `gvisor` and `microvm`. */
export const tiers = ['process', 'container'] as const;
export type Tier = (typeof tiers)[number];

export interface GrantLimits {
  /** Relative CPU weight under contention, 2…262144, cgroup v1 scale (1024 = one normal share). */
  readonly cpuShares: number;
  /** Hard CPU quota in thousandths of one CPU (1500 = one and a half). */
  readonly cpuMillis: number;
  readonly memoryBytes: number;
  /** Tasks (processes and threads) at once, init and its supervisors included. */
  readonly pids: number;
  /** Open files of one process (RLIMIT_NOFILE). */
  readonly openFiles: number;
  /** Writable bytes of the workspace. */
  readonly diskBytes: number;
  /** Files and folders the workspace may hold. */
  readonly inodes: number;
  /** Longest life of one exec. */
  readonly execMs: number;
  /** stdout and stderr bytes of one exec, together. */
  readonly outputBytes: number;
}

export interface GrantLifetime {
  /** Longest life of the sandbox. */
  readonly wallMs: number;
  /** The sandbox ends when no exec ran and no call came for so long. */
  readonly idleMs: number;
}

export interface Grant {
  readonly version: 1;
  readonly class: string;
  /** sha256 of the policy file the class came from. */
  readonly policySha256: string;
  readonly isolation: {
    readonly tier: Tier;
    /** Root inside the sandbox's user namespace, by sudo. */
    readonly root: boolean;
  };
  readonly image: { readonly name: string; readonly digest: string };
  readonly files: {
    /** Where commands start and relative artifact patterns are rooted; absolute. */
    readonly workdir: string;
    readonly inputBytes: number;
    readonly inputFiles: number;
  };
  readonly network: NetworkGrant;
  readonly packages: { readonly mode: 'none' };
  readonly secrets: { readonly mode: 'none' };
  readonly limits: GrantLimits;
  /** The whole environment of a command before its own additions. */
  readonly env: Readonly<Record<string, string>>;
  readonly artifacts: {
    readonly bytes: number;
    readonly files: number;
  };
  readonly tools: readonly string[];
  readonly lifetime: GrantLifetime;
}

/** A Grant with its digest. The object is deeply frozen. */
export interface StampedGrant {
  readonly grant: Grant;
  /** Lower-case hex sha256 of the canonical (RFC 8785) JSON of `grant`. */
  readonly digest: string;
}

/** What a caller asks for. Every field narrows the class; leaving it out takes the class's value. */
export interface SandboxRequest {
  readonly class: string;
  readonly tier?: Tier;
  readonly root?: boolean;
  readonly image?: string;
  readonly limits?: Partial<GrantLimits>;
  readonly lifetime?: Partial<GrantLifetime>;
  /** What is left of the class's network: nothing, or these of its rules and hosts. */
  readonly network?: NetworkRequest;
  /** Additional environment variables; names must match the class's `env.allow`. */
  readonly env?: Readonly<Record<string, string>>;
}
