/** The first schema: sandboxes, runs, API keys. A migration that was released is never edited. */
import type { Kysely, Migration } from 'kysely';

export const first: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable('sandboxes')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('state', 'text', (column) => column.notNull())
      .addColumn('class', 'text', (column) => column.notNull())
      .addColumn('grant_digest', 'text', (column) => column.notNull())
      .addColumn('tier', 'text', (column) => column.notNull())
      .addColumn('image_name', 'text', (column) => column.notNull())
      .addColumn('image_digest', 'text', (column) => column.notNull())
      .addColumn('runtime_name', 'text', (column) => column.notNull())
      .addColumn('runtime_version', 'text', (column) => column.notNull())
      .addColumn('created_at', 'text', (column) => column.notNull())
      .addColumn('deadline_at', 'text', (column) => column.notNull())
      .addColumn('ended_at', 'text')
      .addColumn('end_reason', 'text')
      .addColumn('end_detail', 'text')
      .addColumn('metadata', 'text', (column) => column.notNull())
      .addColumn('slot', 'integer')
      .addColumn('uid', 'integer')
      .addColumn('boot_id', 'text', (column) => column.notNull())
      .execute();
    await db.schema.createIndex('sandboxes_by_state').on('sandboxes').columns(['state', 'created_at']).execute();
    await db.schema.createIndex('sandboxes_by_time').on('sandboxes').column('created_at').execute();
    await db.schema
      .createTable('runs')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('sandbox_id', 'text', (column) => column.notNull())
      .addColumn('outcome', 'text', (column) => column.notNull())
      .addColumn('created_at', 'text', (column) => column.notNull())
      .addColumn('record', 'text', (column) => column.notNull())
      .execute();
    await db.schema.createIndex('runs_by_time').on('runs').column('created_at').execute();
    await db.schema
      .createTable('api_keys')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('name', 'text', (column) => column.notNull())
      .addColumn('sha256', 'blob', (column) => column.notNull().unique())
      .addColumn('created_at', 'text', (column) => column.notNull())
      .addColumn('revoked_at', 'text')
      .execute();
  },
};
