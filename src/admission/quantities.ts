/**
 * Every number of a job class: its unit, its name in the policy file, and the range in which it means anything at all.
 * Both the policy and a request are held to these ranges, so a sandbox that cannot start is refused before it is tried.
 */
import { bytesGrammar, formatBytes } from '../units/bytes.ts';
import { durationGrammar, formatDuration } from '../units/duration.ts';
import type { Grant, GrantLifetime, GrantLimits } from './grant.ts';
import type { NetworkBandwidth, NetworkBudget } from './network.ts';

export interface Quantity {
  /** Key in the policy file. */
  readonly key: string;
  readonly unit: 'count' | 'bytes' | 'ms';
  readonly min: number;
  readonly max: number;
}

const mebibyte = 1024 ** 2;
const tebibyte = 1024 ** 4;
/** Below the 2^31-1 ms that a Node timer can wait: one more and it fires at once. */
const longestMs = 24 * 86_400_000;
/** Linux's own ceiling of kernel.pid_max. */
const mostPids = 2 ** 22;

export const limitQuantities = {
  cpuShares: { key: 'cpuShares', unit: 'count', min: 2, max: 262_144 },
  // The kernel refuses a CFS quota below 1 ms of the 100 ms period.
  cpuMillis: { key: 'cpuMillis', unit: 'count', min: 10, max: 1_024_000 },
  memoryBytes: { key: 'memory', unit: 'bytes', min: 32 * mebibyte, max: 16 * tebibyte },
  pids: { key: 'pids', unit: 'count', min: 16, max: mostPids },
  openFiles: { key: 'openFiles', unit: 'count', min: 64, max: 1_048_576 },
  diskBytes: { key: 'disk', unit: 'bytes', min: mebibyte, max: tebibyte },
  inodes: { key: 'inodes', unit: 'count', min: 64, max: 100_000_000 },
  execMs: { key: 'exec', unit: 'ms', min: 100, max: longestMs },
  outputBytes: { key: 'output', unit: 'bytes', min: 0, max: tebibyte },
} as const satisfies Record<keyof GrantLimits, Quantity>;

export const lifetimeQuantities = {
  wallMs: { key: 'wall', unit: 'ms', min: 100, max: longestMs },
  idleMs: { key: 'idle', unit: 'ms', min: 100, max: longestMs },
} as const satisfies Record<keyof GrantLifetime, Quantity>;

export const fileQuantities = {
  inputBytes: { key: 'inputBytes', unit: 'bytes', min: 0, max: tebibyte },
  inputFiles: { key: 'inputFiles', unit: 'count', min: 0, max: 10_000_000 },
} as const satisfies Record<Exclude<keyof Grant['files'], 'workdir'>, Quantity>;

export const artifactQuantities = {
  bytes: { key: 'bytes', unit: 'bytes', min: 0, max: tebibyte },
  files: { key: 'files', unit: 'count', min: 0, max: 10_000_000 },
} as const satisfies Record<keyof Grant['artifacts'], Quantity>;

/** None is 0: what nothing may pass of needs no rule. */
export const budgetQuantities = {
  connections: { key: 'connections', unit: 'count', min: 1, max: 1_000_000_000 },
  requests: { key: 'requests', unit: 'count', min: 1, max: 1_000_000_000 },
  upBytes: { key: 'up', unit: 'bytes', min: 1, max: 1024 * tebibyte },
  downBytes: { key: 'down', unit: 'bytes', min: 1, max: 1024 * tebibyte },
} as const satisfies Record<keyof NetworkBudget, Quantity>;

/** Bytes per second. */
export const bandwidthQuantities = {
  upBytesPerSecond: { key: 'up', unit: 'bytes', min: 1024, max: tebibyte },
  downBytesPerSecond: { key: 'down', unit: 'bytes', min: 1024, max: tebibyte },
} as const satisfies Record<keyof NetworkBandwidth, Quantity>;

/** A value as the policy file writes it. */
export function showAmount(value: number, quantity: Quantity): string {
  if (quantity.unit === 'bytes') return formatBytes(value);
  return quantity.unit === 'ms' ? formatDuration(value) : String(value);
}

/** "32MiB to 16TiB, …" for messages about the policy file. */
export function showRange(quantity: Quantity): string {
  const grammar = { bytes: bytesGrammar, ms: durationGrammar, count: 'a whole number' }[quantity.unit];
  return `${grammar}, ${showAmount(quantity.min, quantity)} to ${showAmount(quantity.max, quantity)}`;
}
