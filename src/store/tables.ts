/** The tables of the store as Kysely sees them. Times are ISO 8601 text; everything structured is JSON text. */
import type { Insertable, Selectable } from 'kysely';

interface SandboxTable {
  readonly id: string;
  readonly state: string;
  readonly class: string;
  readonly grant_digest: string;
  readonly tier: string;
  readonly image_name: string;
  readonly image_digest: string;
  readonly runtime_name: string;
  readonly runtime_version: string;
  readonly created_at: string;
  readonly deadline_at: string;
  readonly ended_at: string | null;
  readonly end_reason: string | null;
  readonly end_detail: string | null;
  /** JSON object of text. */
  readonly metadata: string;
  /** Which of the host's uid ranges it holds, where that is known. */
  readonly slot: number | null;
  /** First host uid of that range. */
  readonly uid: number | null;
  /** The daemon start that made it: another value means that the owner is gone. */
  readonly boot_id: string;
}

interface RunTable {
  readonly id: string;
  readonly sandbox_id: string;
  readonly outcome: string;
  readonly created_at: string;
  /** JSON of the whole record. */
  readonly record: string;
}

interface ApiKeyTable {
  readonly id: string;
  readonly name: string;
  /** sha256 of the key: 256 random bits need no slow hash. */
  readonly sha256: Buffer;
  readonly created_at: string;
  readonly revoked_at: string | null;
}

export interface Tables {
  sandboxes: SandboxTable;
  runs: RunTable;
  api_keys: ApiKeyTable;
}

export type SandboxRow = Selectable<SandboxTable>;
export type NewSandboxRow = Insertable<SandboxTable>;
