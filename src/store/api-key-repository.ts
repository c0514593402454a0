/**
 * API keys. The plain key leaves `create` once and is kept nowhere: the store holds its sha256. A revoked key is
 * refused from the next request on, also when another process (the CLI) revoked it.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Kysely } from 'kysely';
import type { Queries } from './queries.ts';
import type { Tables } from './tables.ts';

interface ApiKey {
  readonly id: string;
  readonly name: string;
  readonly createdAt: string;
  readonly revokedAt: string | null;
}

export interface ApiKeyRepository {
  /** @returns the key's text (`sp_` and 43 characters), shown this once. @throws SallyportError `host_disk_full` */
  create(name: string): { readonly apiKey: ApiKey; readonly key: string };
  /** The key that this text is, unless it is unknown or revoked. Takes as long whatever the text is. */
  verify(key: string): ApiKey | undefined;
  /** True when at least one key would be accepted. */
  hasValid(): boolean;
  list(): ApiKey[];
  /** @returns false when there is no such key, or it is revoked already. @throws SallyportError `host_disk_full` */
  revoke(id: string): boolean;
}

interface ValidKey {
  readonly sha256: Buffer;
  readonly apiKey: ApiKey;
}

/** @param dataVersion changes whenever another connection committed (PRAGMA data_version) */
export function createApiKeyRepository(
  db: Kysely<Tables>,
  queries: Queries,
  dataVersion: () => number,
): ApiKeyRepository {
  let cache: { readonly version: number; readonly valid: readonly ValidKey[] } | undefined;

  function validKeys(): readonly ValidKey[] {
    const version = dataVersion();
    if (cache?.version === version) return cache.valid;
    const rows = queries.all(db.selectFrom('api_keys').selectAll().where('revoked_at', 'is', null));
    const valid = rows.map((row) => ({ sha256: row.sha256, apiKey: apiKeyOf(row) }));
    cache = { version, valid };
    return valid;
  }

  return {
    create: (name) => {
      const key = `sp_${randomBytes(32).toString('base64url')}`;
      const id = `key-${randomBytes(5).toString('hex')}`;
      const row = { id, name, sha256: sha256(key), created_at: new Date().toISOString(), revoked_at: null };
      queries.run(db.insertInto('api_keys').values(row));
      cache = undefined;
      return { apiKey: apiKeyOf(row), key };
    },
    verify: (key) => {
      const presented = sha256(key);
      let found: ApiKey | undefined;
      // Every key is compared, so the time says nothing about which one was near.
      for (const { sha256: known, apiKey } of validKeys()) {
        if (timingSafeEqual(known, presented)) found = apiKey;
      }
      return found;
    },
    hasValid: () => validKeys().length > 0,
    list: () => queries.all(db.selectFrom('api_keys').selectAll().orderBy('created_at').orderBy('id')).map(apiKeyOf),
    revoke: (id) => {
      const update = db.updateTable('api_keys').set({ revoked_at: new Date().toISOString() });
      const changed = queries.run(update.where('id', '=', id).where('revoked_at', 'is', null));
      cache = undefined;
      return changed === 1;
    },
  };
}

function apiKeyOf(row: {
  readonly id: string;
  readonly name: string;
  readonly created_at: string;
  readonly revoked_at: string | null;
}): ApiKey {
  return { id: row.id, name: row.name, createdAt: row.created_at, revokedAt: row.revoked_at };
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
