/**
 * One SQLite connection. Several processes may have the file open (daemon and CLI): WAL lets them read while one
 * writes, and a writer waits up to five seconds for another.
 */
import SqliteDatabase from 'better-sqlite3';

const busyTimeoutMs = 5_000;

/** @throws the error of SQLite when the file cannot be opened or is no database */
export function connect(path: string): SqliteDatabase.Database {
  // SQLite gives -wal and -shm the mode of the database, so the umask is what decides for all three.
  const umask = process.umask(0o077);
  try {
    const connection = new SqliteDatabase(path, { timeout: busyTimeoutMs });
    connection.pragma('journal_mode = WAL');
    // With WAL, NORMAL loses at most the last commits on power loss, never consistency.
    connection.pragma('synchronous = NORMAL');
    connection.pragma('foreign_keys = ON');
    return connection;
  } finally {
    process.umask(umask);
  }
}
