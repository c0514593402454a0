/**
 * A lock that one process at a time holds, and that the kernel takes back when the process ends, however it ends:
 * SQLite's own lock on a file of its own.
 */
import SqliteDatabase from 'better-sqlite3';
import { guardDisk } from './disk-guard.ts';

export interface Lock {
  release(): void;
}

/** @returns undefined while another process holds it. @throws SallyportError `host_disk_full` */
export function acquireLock(path: string): Lock | undefined {
  const connection = guardDisk(() => new SqliteDatabase(path, { timeout: 0 }));
  try {
    connection.exec('BEGIN EXCLUSIVE');
    return { release: () => connection.close() };
  } catch (thrown) {
    connection.close();
    if (thrown instanceof SqliteDatabase.SqliteError && thrown.code.startsWith('SQLITE_BUSY')) return undefined;
    throw thrown;
  }
}
