/** The store on a real SQLite file: what is remembered, what survives, what a full disk says. */
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { appendRun } from './append-run.ts';
import { guardDisk } from './disk-guard.ts';
import { openStore, type Store } from './store.ts';

let folder: string;
let file: string;
let store: Store;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-store-'));
  file = join(folder, 'store.db');
  store = await openStore(file);
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true });
});

const info = {
  id: 'sb-one',
  state: 'running',
  class: 'default',
  grantDigest: 'ab'.repeat(32),
  tier: 'container',
  image: { name: 'base', digest: 'sha256:00' },
  runtime: { name: 'crun', version: '1.8' },
  createdAt: '2025-01-01T00:00:00.000Z',
  deadlineAt: '2025-01-01T01:00:00.000Z',
  metadata: { task: 'a "quoted" ü' },
};
const place = { slot: 3, uid: 300000 };
const record = { info, place, bootId: expect.stringMatching(/^[0-9a-f]{16}$/) };

describe('openStore', () => {
  it('makes the file readable by its owner only', () => {
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(statSync(`${file}-wal`).mode & 0o777).toBe(0o600);
  });

  it('opens an existing file again and keeps what was in it', async () => {
    store.sandboxes.insert(info, place);
    await store.close();
    store = await openStore(file);
    expect(store.sandboxes.get('sb-one')).toEqual(record);
  });

  it('uses the write-ahead log', () => {
    const other = new SqliteDatabase(file, { readonly: true });
    expect(other.pragma('journal_mode', { simple: true })).toBe('wal');
    other.close();
  });

  it('refuses a file that is no database', async () => {
    const { writeFileSync } = await import('node:fs');
    const bad = join(folder, 'bad.db');
    writeFileSync(bad, 'this is not a database, and it is long enough to tell '.repeat(40));
    await expect(openStore(bad)).rejects.toThrow(/not a database/);
  });
});

describe('sandboxes', () => {
  it('lists a sandbox as running until it is marked ended', async () => {
    store.sandboxes.insert(info, place);
    expect(store.sandboxes.listRunning()).toEqual([record]);
    store.sandboxes.markEnded({ id: 'sb-one', endedAt: 'T', endReason: 'oom', endDetail: 'used 512 MiB' });
    expect(store.sandboxes.listRunning()).toEqual([]);
    const ended = store.sandboxes.get('sb-one');
    expect(ended?.info).toMatchObject({
      state: 'ended',
      endedAt: 'T',
      endReason: 'oom',
      endDetail: 'used 512 MiB',
      metadata: info.metadata,
    });
  });

  it('keeps the first ending', async () => {
    store.sandboxes.insert(info, place);
    store.sandboxes.markEnded({ id: 'sb-one', endedAt: 'T1', endReason: 'wall' });
    store.sandboxes.markEnded({ id: 'sb-one', endedAt: 'T2', endReason: 'killed' });
    expect(store.sandboxes.get('sb-one')?.info).toMatchObject({ endedAt: 'T1', endReason: 'wall' });
  });

  it('lists newest first, within the limit, ended or not as asked', async () => {
    for (const day of [1, 2, 3]) {
      const createdAt = `2025-01-0${day}T00:00:00.000Z`;
      store.sandboxes.insert({ ...info, id: `sb-${day}`, createdAt });
    }
    store.sandboxes.markEnded({ id: 'sb-2', endedAt: 'T', endReason: 'finished' });
    const ids = (filter: object) => store.sandboxes.list(filter).map((each) => each.info.id);
    expect(ids({})).toEqual(['sb-3', 'sb-2', 'sb-1']);
    expect(ids({ ended: true })).toEqual(['sb-2']);
    expect(ids({ ended: false })).toEqual(['sb-3', 'sb-1']);
    expect(ids({ limit: 1 })).toEqual(['sb-3']);
  });

  it('marks what an earlier daemon start left, and nothing of this one', async () => {
    store.sandboxes.insert({ ...info, id: 'sb-old' }, place);
    await store.close();
    store = await openStore(file);
    store.sandboxes.insert({ ...info, id: 'sb-new' });
    expect(store.sandboxes.endOrphans(new Date())).toBe(1);
    expect(store.sandboxes.get('sb-old')?.info).toMatchObject({ state: 'ended', endReason: 'daemon-stop' });
    expect(store.sandboxes.get('sb-new')).toMatchObject({ info: { state: 'running' }, place: null });
  });

  it('knows no sandbox of an unknown id', async () => {
    expect(store.sandboxes.get('nope')).toBeUndefined();
  });
});

describe('runs', () => {
  const run = (runId: string, day: number) => ({
    ...{ version: 1, runId, sandboxId: 'sb-1', outcome: 'exited', more: { kept: ['as', 'it', 'came'] } },
    timings: { createdAt: `2025-01-0${day}T00:00:00.000Z` },
  });

  it('come back whole, newest first', () => {
    store.runs.insert(run('run-1', 1));
    store.runs.insert(run('run-2', 2));
    expect(store.runs.list()).toEqual([run('run-2', 2), run('run-1', 1)]);
    expect(store.runs.list({ limit: 1 })).toHaveLength(1);
    expect(store.runs.get('run-1')).toEqual(run('run-1', 1));
    expect(store.runs.get('run-3')).toBeUndefined();
  });
  it('are appended without the whole store, but only to a store that is there', () => {
    expect(appendRun(file, run('run-1', 1))).toBe(true);
    expect(store.runs.get('run-1')).toEqual(run('run-1', 1));
    expect(appendRun(join(folder, 'none.db'), run('run-1', 1))).toBe(false);
    new SqliteDatabase(join(folder, 'empty.db')).exec('create table other (x)').close();
    expect(appendRun(join(folder, 'empty.db'), run('run-1', 1))).toBe(false);
  });
});

describe('API keys', () => {
  it('gives the key once and stores only its hash', async () => {
    const { key } = store.apiKeys.create('laptop');
    expect(key).toMatch(/^sp_[A-Za-z0-9_-]{43}$/);
    const raw = new SqliteDatabase(file, { readonly: true });
    expect(JSON.stringify(raw.prepare('select * from api_keys').all())).not.toContain(key.slice(3));
    raw.close();
  });

  it('verifies a key and nothing near it', async () => {
    const { key, apiKey } = store.apiKeys.create('laptop');
    expect(store.apiKeys.verify(key)).toEqual(apiKey);
    expect(store.apiKeys.verify(`${key}x`)).toBeUndefined();
    expect(store.apiKeys.verify(key.slice(0, -1))).toBeUndefined();
    expect(store.apiKeys.verify('')).toBeUndefined();
  });

  it('refuses a revoked key at once', async () => {
    const { key, apiKey } = store.apiKeys.create('laptop');
    expect(store.apiKeys.verify(key)).toBeDefined();
    expect(store.apiKeys.revoke(apiKey.id)).toBe(true);
    expect(store.apiKeys.verify(key)).toBeUndefined();
    expect(store.apiKeys.revoke(apiKey.id)).toBe(false);
  });

  it('sees at once what another process created and revoked', async () => {
    const other = await openStore(file);
    try {
      const { key, apiKey } = other.apiKeys.create('cli');
      expect(store.apiKeys.verify(key)).toEqual(apiKey);
      other.apiKeys.revoke(apiKey.id);
      expect(store.apiKeys.verify(key)).toBeUndefined();
    } finally {
      await other.close();
    }
  });
});

describe('a full disk', () => {
  it('is host_disk_full, whether SQLite or the kernel says so', async () => {
    const fail = (code: string) => () =>
      guardDisk(() => {
        throw Object.assign(new Error('x'), { code });
      });
    expect(fail('SQLITE_FULL')).toThrow(expect.objectContaining({ code: 'host_disk_full' }));
    expect(fail('ENOSPC')).toThrow(expect.objectContaining({ code: 'host_disk_full' }));
    expect(fail('SQLITE_BUSY')).toThrow(expect.objectContaining({ code: 'SQLITE_BUSY' }));
  });

  it('is what a real database without room answers', async () => {
    const database = new SqliteDatabase(join(folder, 'full.db'));
    database.exec('create table t (data blob)');
    database.pragma('max_page_count = 3');
    const fill = () => guardDisk(() => database.prepare('insert into t values (zeroblob(100000))').run());
    expect(fill).toThrow(expect.objectContaining({ code: 'host_disk_full' }));
    database.close();
  });
});
