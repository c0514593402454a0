/**
 * Keeps the record of a run without opening the whole store: `sallyport run` ends with this, and loading the query
 * builder would take longer than many a run.
 */
import { existsSync } from 'node:fs';
import SqliteDatabase from 'better-sqlite3';
import { connect } from './connection.ts';
import { guardDisk } from './disk-guard.ts';
import { rowOfRun, type StoredRun } from './run-row.ts';

const insert = `insert into runs (id, sandbox_id, outcome, created_at, record)
  values (@id, @sandbox_id, @outcome, @created_at, @record)`;

/** @returns false when there is no store yet, or an older one: then `openStore` must make it first. @throws SallyportError `host_disk_full` */
export function appendRun(path: string, record: StoredRun): boolean {
  if (!existsSync(path)) return false;
  const connection = guardDisk(() => connect(path));
  try {
    guardDisk(() => connection.prepare(insert).run(rowOfRun(record)));
    return true;
  } catch (thrown) {
    // SQLITE_ERROR is what a statement about a table that is not there gets
    if (thrown instanceof SqliteDatabase.SqliteError && thrown.code === 'SQLITE_ERROR') return false;
    throw thrown;
  } finally {
    connection.close();
  }
}
