/** Brings a database to the newest schema. The list is static: no folder is read at run time. */
import { type Kysely, type MigrationProvider, Migrator } from 'kysely';
import { first } from './migrations/0001-first.ts';
import type { Tables } from './tables.ts';

const provider: MigrationProvider = {
  getMigrations: async () => ({ '0001-first': first }),
};

/** @throws whatever the failing migration threw; nothing of it is kept then */
export async function migrate(db: Kysely<Tables>): Promise<void> {
  const { error } = await new Migrator({ db, provider }).migrateToLatest();
  if (error !== undefined) throw error;
}
