/** A run: one command in one fresh sandbox, its inputs, its artifacts and its record. */
import type { Grant } from '../admission/grant.ts';
import type { EndReason, ExecResult, LimitName } from '../sandbox/types.ts';
import type { InputFile } from '../workspace/types.ts';

/** Exit statuses of `sallyport run` that are not the command's own. */
export const runExitCodes = { limit: 122, denied: 123, platform: 124 } as const;

export interface ArtifactEntry {
  /** Relative to the workdir, as text; bytes that are not UTF-8 are percent-encoded (`%FF`), and `%` as `%25`. */
  readonly path: string;
  readonly bytes: number;
  readonly mode: number;
  readonly sha256: string;
}

export interface SkippedEntry {
  readonly path: string;
  /** Why it was not copied: `symlink`, `fifo`, `socket`, `device`, `setuid`, `sparse`, … */
  readonly reason: string;
}

/** Written as `manifest.json` beside the artifacts. */
export interface ArtifactManifest {
  readonly version: 1;
  readonly runId: string;
  readonly grantDigest: string;
  readonly artifacts: readonly ArtifactEntry[];
  readonly skipped: readonly SkippedEntry[];
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
  readonly outcome: 'exited' | 'signalled' | 'limit' | 'denied' | 'platform';
  readonly exec: ExecResult | null;
  readonly limitsHit: readonly LimitName[];
  readonly endReason: EndReason;
  readonly error: { readonly code: string; readonly message: string } | null;
  readonly artifacts: ArtifactManifest;
  readonly timings: {
    readonly createdAt: string;
    readonly startMs: number;
    readonly execMs: number;
    readonly exportMs: number;
    readonly totalMs: number;
  };
}
