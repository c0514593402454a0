/**
 * The daemon's memory: one SQLite file. Several processes may have it open (daemon and CLI): WAL lets them read
 * while one writes, and a writer waits up to five seconds for another.
 */
import { randomBytes } from 'node:crypto';
import SqliteDatabase from 'better-sqlite3';
import { Kysely, SqliteDialect } from 'kysely';
import { type ApiKeyRepository, createApiKeyRepository } from './api-key-repository.ts';
import { guardDisk, nameFullDisk } from './disk-guard.ts';
import { migrate } from './migrate.ts';
import { Queries } from './queries.ts';
import { createRunRepository, type RunRepository } from './run-repository.ts';
import { createSandboxRepository, type SandboxRepository } from './sandbox-repository.ts';
import type { Tables } from './tables.ts';

const busyTimeoutMs = 5_000;

export interface Store {
  readonly sandboxes: SandboxRepository;
  readonly runs: RunRepository;
  readonly apiKeys: ApiKeyRepository;
  close(): Promise<void>;
}

/**
 * Opens the file, making it (mode 0600) and migrating it as needed.
 * @param path of the database file; its folder must exist
 * @throws SallyportError `host_disk_full`; the error of SQLite when the file cannot be opened
 */
export async function openStore(path: string): Promise<Store> {
  const connection = guardDisk(() => connect(path));
  const db = new Kysely<Tables>({ dialect: new SqliteDialect({ database: connection }) });
  try {
    await migrate(db);
  } catch (thrown) {
    connection.close();
    throw nameFullDisk(thrown);
  }
  const queries = new Queries(connection);
  const dataVersion = () => Number(connection.pragma('data_version', { simple: true }));
  return {
    sandboxes: createSandboxRepository(db, queries, randomBytes(8).toString('hex')),
    runs: createRunRepository(db, queries),
    apiKeys: createApiKeyRepository(db, queries, dataVersion),
    close: () => db.destroy(),
  };
}

function connect(path: string): SqliteDatabase.Database {
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
