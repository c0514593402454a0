/** Untrimmed nearest-rank percentiles; p99 only where n carries it (n ≥ 500). All values in milliseconds. */

export interface Summary {
  readonly n: number;
  readonly failures: number;
  readonly p50: number;
  readonly p95: number;
  /** Absent below 500 samples. */
  readonly p99?: number;
  readonly max: number;
}

export function summarize(samples: readonly number[], failures = 0): Summary {
  const sorted = [...samples].sort((a, b) => a - b);
  const at = (share: number): number => round(sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN);
  const base = { n: sorted.length, failures, p50: at(0.5), p95: at(0.95), max: at(1) };
  return sorted.length >= 500 ? { ...base, p99: at(0.99) } : base;
}

export function round(value: number): number {
  return Math.round(value * 100) / 100;
}
