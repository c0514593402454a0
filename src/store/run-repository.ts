/** Records of runs, kept whole as JSON and found by id or by time. */
import type { Kysely } from 'kysely';
import type { Queries } from './queries.ts';
import { rowOfRun, type StoredRun } from './run-row.ts';
import type { Tables } from './tables.ts';

export interface RunRepository {
  /** @throws SallyportError `host_disk_full` */
  insert(record: StoredRun): void;
  get(runId: string): StoredRun | undefined;
  /** Newest first; `limit` defaults to 100. */
  list(filter?: { readonly limit?: number }): StoredRun[];
}

const defaultListLimit = 100;

export function createRunRepository(db: Kysely<Tables>, queries: Queries): RunRepository {
  return {
    insert: (record) => {
      queries.run(db.insertInto('runs').values(rowOfRun(record)));
    },
    get: (runId) => {
      const row = queries.first(db.selectFrom('runs').select('record').where('id', '=', runId));
      return row === undefined ? undefined : parse(row.record);
    },
    list: ({ limit = defaultListLimit } = {}) => {
      const query = db.selectFrom('runs').select('record').orderBy('created_at', 'desc').orderBy('id').limit(limit);
      return queries.all(query).map((row) => parse(row.record));
    },
  };
}

/** Only `insert` writes the column, so its shape is known. */
function parse(text: string): StoredRun {
  return JSON.parse(text) as StoredRun;
}
