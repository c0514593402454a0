/**
 * Records of list, stat and watch, from output in any pieces. They come from a process inside, so a broken one is
 * `init_protocol` for that operation, and every name in them is bytes that the sandbox chose.
 */
import { broken } from './frame.ts';
import type { OutputChunk } from './types.ts';

export interface EntryRecord {
  readonly path: Buffer;
  readonly kind: 'file' | 'folder' | 'symlink' | 'fifo' | 'socket' | 'device';
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly links: number;
  readonly bytes: number;
  readonly allocatedBytes: number;
  readonly modifiedAt: string;
  readonly target?: Buffer;
}

export interface WatchRecord {
  readonly kind: 'ready' | 'created' | 'modified' | 'removed' | 'moved-from' | 'moved-to' | 'attributes' | 'overflow';
  readonly path: Buffer;
}

const lengthBytes = 4;
const entryFixedBytes = 48;
const watchFixedBytes = 8;
/** Two names of at most 65 535 bytes: what their u16 lengths can say. */
const recordBytes = entryFixedBytes + 2 * 0xffff;

const entryKinds: ReadonlyMap<number, EntryRecord['kind']> = kindsByByte({
  f: 'file',
  d: 'folder',
  l: 'symlink',
  p: 'fifo',
  s: 'socket',
  c: 'device',
  b: 'device',
});
const watchKinds: ReadonlyMap<number, WatchRecord['kind']> = kindsByByte({
  R: 'ready',
  c: 'created',
  m: 'modified',
  d: 'removed',
  f: 'moved-from',
  t: 'moved-to',
  a: 'attributes',
  o: 'overflow',
});

/** @throws SallyportError `init_protocol`, and what reading the output throws */
export async function* decodeEntries(output: AsyncIterable<OutputChunk>): AsyncGenerator<EntryRecord> {
  const splitter = new RecordSplitter();
  for await (const { data } of output) for (const record of splitter.push(data)) yield decodeEntry(record);
  splitter.end();
}

/** @throws SallyportError `init_protocol`, and what reading the output throws */
export async function* decodeWatch(output: AsyncIterable<OutputChunk>): AsyncGenerator<WatchRecord> {
  const splitter = new RecordSplitter();
  for await (const { data } of output) for (const record of splitter.push(data)) yield decodeWatchRecord(record);
  splitter.end();
}

/** Cuts bytes in any pieces into records; keeps at most one unfinished record. */
export class RecordSplitter {
  #rest: Buffer = Buffer.alloc(0);

  /** @returns the records that are complete now, without their length. @throws SallyportError `init_protocol` */
  push(data: Buffer): Buffer[] {
    const bytes = this.#rest.length === 0 ? data : Buffer.concat([this.#rest, data]);
    const records: Buffer[] = [];
    let at = 0;
    for (let end = recordEnd(bytes, at); end <= bytes.length; end = recordEnd(bytes, at)) {
      records.push(bytes.subarray(at + lengthBytes, end));
      at = end;
    }
    this.#rest = bytes.subarray(at);
    return records;
  }

  /** @throws SallyportError `init_protocol` when a record was not finished */
  end(): void {
    if (this.#rest.length > 0) throw broken(`a record that ends after ${this.#rest.length} bytes`);
  }
}

/** Where the record at `at` ends; past the bytes, also when its length is not there yet. */
function recordEnd(bytes: Buffer, at: number): number {
  if (bytes.length - at < lengthBytes) return Number.POSITIVE_INFINITY;
  const length = bytes.readUInt32LE(at);
  if (length < watchFixedBytes || length > recordBytes) throw broken(`a record of ${length} bytes`);
  return at + lengthBytes + length;
}

function decodeEntry(record: Buffer): EntryRecord {
  if (record.length < entryFixedBytes) throw broken(`an entry of ${record.length} bytes`);
  const kind = kindOf(record, entryKinds);
  const pathEnd = entryFixedBytes + record.readUInt16LE(44);
  if (record.length !== pathEnd + record.readUInt16LE(46)) throw broken('an entry whose names do not fit its length');
  if (kind !== 'symlink' && record.length !== pathEnd) throw broken(`a ${kind} with a symlink's target`);
  return {
    path: record.subarray(entryFixedBytes, pathEnd),
    kind,
    mode: record.readUInt32LE(4),
    uid: record.readUInt32LE(8),
    gid: record.readUInt32LE(12),
    links: record.readUInt32LE(16),
    bytes: Number(record.readBigUInt64LE(20)),
    allocatedBytes: Number(record.readBigUInt64LE(28)) * 512,
    modifiedAt: isoTime(record.readBigInt64LE(36)),
    ...(kind === 'symlink' ? { target: record.subarray(pathEnd) } : {}),
  };
}

/** All 64 bits of nanoseconds lie within what a Date can hold. */
function isoTime(nanoseconds: bigint): string {
  return new Date(Number(nanoseconds / 1_000_000n)).toISOString();
}

function decodeWatchRecord(record: Buffer): WatchRecord {
  const kind = kindOf(record, watchKinds);
  if (record.length !== watchFixedBytes + record.readUInt16LE(4)) throw broken('an event whose name does not fit');
  if (record.readUInt16LE(6) !== 0) throw broken('an event whose reserved bytes are not 0');
  return { kind, path: record.subarray(watchFixedBytes) };
}

function kindOf<T>(record: Buffer, kinds: ReadonlyMap<number, T>): T {
  const kind = kinds.get(record.readUInt32LE(0)); // the kind's byte and three that are 0
  if (kind !== undefined) return kind;
  throw broken(`a record of the kind 0x${record.readUInt32LE(0).toString(16)}`);
}

function kindsByByte<T>(kinds: Readonly<Record<string, T>>): ReadonlyMap<number, T> {
  return new Map(Object.entries(kinds).map(([letter, kind]) => [letter.charCodeAt(0), kind]));
}
