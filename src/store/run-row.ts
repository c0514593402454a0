/** A run as a row: what the store reads of a record, and the record whole. */

export interface StoredRun {
  readonly version: number;
  readonly runId: string;
  readonly sandboxId: string;
  readonly outcome: string;
  readonly timings: { readonly createdAt: string };
}

export function rowOfRun(record: StoredRun) {
  return {
    id: record.runId,
    sandbox_id: record.sandboxId,
    outcome: record.outcome,
    created_at: record.timings.createdAt,
    record: JSON.stringify(record),
  };
}
