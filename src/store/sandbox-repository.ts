/** What the daemon must remember of its sandboxes: to answer for ended ones, and to clean up after a crash. */
import type { Kysely } from 'kysely';
import type { Queries } from './queries.ts';
import type { NewSandboxRow, SandboxRow, Tables } from './tables.ts';

/** A sandbox's info as it is kept. The words of `state` and `endReason` are those of whoever inserted it. */
export interface StoredSandbox {
  readonly id: string;
  readonly state: string;
  readonly class: string;
  readonly grantDigest: string;
  readonly tier: string;
  readonly image: { readonly name: string; readonly digest: string };
  readonly runtime: { readonly name: string; readonly version: string };
  readonly createdAt: string;
  readonly deadlineAt: string;
  readonly endedAt?: string;
  readonly endReason?: string;
  readonly endDetail?: string;
  readonly metadata: Readonly<Record<string, string>>;
}

/** The host's things that a sandbox holds. */
interface SandboxPlace {
  readonly slot: number;
  readonly uid: number;
}

interface SandboxRecord {
  readonly info: StoredSandbox;
  readonly place: SandboxPlace | null;
  /** The opening of the store that inserted it: one per daemon start. */
  readonly bootId: string;
}

export interface SandboxRepository {
  /** @throws SallyportError `host_disk_full` */
  insert(info: StoredSandbox, place?: SandboxPlace): void;
  /** The first ending stays; an unknown id is no error. @throws SallyportError `host_disk_full` */
  markEnded(info: Pick<StoredSandbox, 'id' | 'endedAt' | 'endReason' | 'endDetail'>): void;
  /** Marks what earlier daemon starts left as running. @returns how many. @throws SallyportError `host_disk_full` */
  endOrphans(at: Date): number;
  /** All that were not marked ended, of this and of earlier daemon starts, oldest first. */
  listRunning(): SandboxRecord[];
  /** Newest first; `limit` defaults to 1000. */
  list(filter?: { readonly ended?: boolean; readonly limit?: number }): SandboxRecord[];
  get(id: string): SandboxRecord | undefined;
}

const defaultListLimit = 1_000;

export function createSandboxRepository(db: Kysely<Tables>, queries: Queries, bootId: string): SandboxRepository {
  const running = db.selectFrom('sandboxes').selectAll().where('state', '!=', 'ended');
  return {
    insert: (info, place) => {
      queries.run(db.insertInto('sandboxes').values(rowOf(info, place, bootId)));
    },
    markEnded: ({ id, endedAt, endReason, endDetail }) => {
      const ending = { ended_at: endedAt ?? null, end_reason: endReason ?? null, end_detail: endDetail ?? null };
      const update = db.updateTable('sandboxes').set({ state: 'ended', ...ending });
      queries.run(update.where('id', '=', id).where('state', '!=', 'ended'));
    },
    endOrphans: (at) => {
      const ending = { ended_at: at.toISOString(), end_reason: 'daemon-stop', end_detail: orphanDetail };
      const update = db.updateTable('sandboxes').set({ state: 'ended', ...ending });
      return queries.run(update.where('state', '!=', 'ended').where('boot_id', '!=', bootId));
    },
    listRunning: () => queries.all(running.orderBy('created_at').orderBy('id')).map(recordOf),
    list: ({ ended, limit = defaultListLimit } = {}) => {
      const all = db.selectFrom('sandboxes').selectAll().orderBy('created_at', 'desc').orderBy('id').limit(limit);
      if (ended === undefined) return queries.all(all).map(recordOf);
      return queries.all(all.where('state', ended ? '=' : '!=', 'ended')).map(recordOf);
    },
    get: (id) => {
      const row = queries.first(db.selectFrom('sandboxes').selectAll().where('id', '=', id));
      return row === undefined ? undefined : recordOf(row);
    },
  };
}

const orphanDetail = 'The daemon ended without a stop; its next start removed what was left.';

function rowOf(info: StoredSandbox, place: SandboxPlace | undefined, bootId: string): NewSandboxRow {
  return {
    id: info.id,
    state: info.state,
    class: info.class,
    grant_digest: info.grantDigest,
    tier: info.tier,
    image_name: info.image.name,
    image_digest: info.image.digest,
    runtime_name: info.runtime.name,
    runtime_version: info.runtime.version,
    created_at: info.createdAt,
    deadline_at: info.deadlineAt,
    ended_at: info.endedAt ?? null,
    end_reason: info.endReason ?? null,
    end_detail: info.endDetail ?? null,
    metadata: JSON.stringify(info.metadata),
    slot: place?.slot ?? null,
    uid: place?.uid ?? null,
    boot_id: bootId,
  };
}

function recordOf(row: SandboxRow): SandboxRecord {
  const info: StoredSandbox = {
    id: row.id,
    state: row.state,
    class: row.class,
    grantDigest: row.grant_digest,
    tier: row.tier,
    image: { name: row.image_name, digest: row.image_digest },
    runtime: { name: row.runtime_name, version: row.runtime_version },
    createdAt: row.created_at,
    deadlineAt: row.deadline_at,
    ...(row.ended_at === null ? {} : { endedAt: row.ended_at }),
    ...(row.end_reason === null ? {} : { endReason: row.end_reason }),
    ...(row.end_detail === null ? {} : { endDetail: row.end_detail }),
    metadata: JSON.parse(row.metadata) as Record<string, string>,
  };
  const place = row.slot === null || row.uid === null ? null : { slot: row.slot, uid: row.uid };
  return { info, place, bootId: row.boot_id };
}
