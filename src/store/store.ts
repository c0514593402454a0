/**
 * The daemon's memory: one SQLite file, and a small repository for each kind of thing in it.
 */
import { randomBytes } from 'node:crypto';
import { Kysely, SqliteDialect } from 'kysely';
import { type ApiKeyRepository, createApiKeyRepository } from './api-key-repository.ts';
import { connect } from './connection.ts';
import { guardDisk, nameFullDisk } from './disk-guard.ts';
import { migrate } from './migrate.ts';
import { Queries } from './queries.ts';
import { createRunRepository, type RunRepository } from './run-repository.ts';
import { createSandboxRepository, type SandboxRepository } from './sandbox-repository.ts';
import type { Tables } from './tables.ts';

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
