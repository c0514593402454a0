/** A run: one command in one fresh sandbox, its inputs, its artifacts and its record. */
import type { Grant } from '../admission/grant.ts';
import type { ExportResult } from '../artifacts/export.ts';
import type { EgressSummary } from '../egress/records.ts';
import type { EndReason, ExecResult, LimitName } from '../sandbox/types.ts';
import type { InputFile } from '../workspace/types.ts';

/** Exit statuses of `sallyport run` that are not the command's own. */
export const runExitCodes = { limit: 122, denied: 123, platform: 124 } as const;

/** Written as `manifest.json` beside the artifacts. */
export interface ArtifactManifest extends ExportResult {
  readonly version: 1;
  readonly runId: string;
  readonly grantDigest: string;
}

/** Written as `record.json` beside the artifacts and kept under SALLYPORT_HOME/runs. */
export interface RunRecord {
  readonly version: 1;
  readonly runId: string;
  readonly sandboxId: string;
  readonly grant: Grant;
  readonly grantDigest: string;
  readonly image: { readonly name: string; readonly digest: string };
  readonly runtime: { readonly name: string; readonly version: string };
  readonly host: { readonly kernel: string; readonly sallyport: string };
  readonly inputs: readonly InputFile[];
  readonly command: readonly string[];
  /** `failed`: the program could not be started (not found, not executable). */
  readonly outcome: 'exited' | 'signalled' | 'limit' | 'failed' | 'denied' | 'platform';
  readonly exec: ExecResult | null;
  readonly limitsHit: readonly LimitName[];
  readonly endReason: EndReason;
  readonly error: { readonly code: string; readonly message: string } | null;
  /** What it tried to reach, counted; each entry is in `egress.jsonl` beside this. */
  readonly egress: EgressSummary;
  readonly artifacts: ArtifactManifest;
  readonly timings: {
    readonly createdAt: string;
    readonly startMs: number;
    readonly execMs: number;
    readonly exportMs: number;
    readonly totalMs: number;
  };
}
