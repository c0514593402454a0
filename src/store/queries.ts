/**
 * Runs queries that Kysely built on the SQLite connection, at once: SQLite has no wait worth a promise, and a caller
 * that need not wait cannot forget to. Statements are prepared once.
 */
import type SqliteDatabase from 'better-sqlite3';
import type { Compilable } from 'kysely';
import { guardDisk } from './disk-guard.ts';

export class Queries {
  readonly #connection: SqliteDatabase.Database;
  readonly #statements = new Map<string, SqliteDatabase.Statement>();

  constructor(connection: SqliteDatabase.Database) {
    this.#connection = connection;
  }

  all<Row>(query: Compilable<Row>): Row[] {
    const { sql, parameters } = query.compile();
    // The row type is what Kysely derived for exactly this SQL.
    return this.#statement(sql).all(...parameters) as Row[];
  }

  first<Row>(query: Compilable<Row>): Row | undefined {
    return this.all(query)[0];
  }

  /** @returns how many rows it changed. @throws SallyportError `host_disk_full` */
  run(query: Compilable): number {
    const { sql, parameters } = query.compile();
    return guardDisk(() => this.#statement(sql).run(...parameters).changes);
  }

  #statement(sql: string): SqliteDatabase.Statement {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    const statement = this.#connection.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }
}
