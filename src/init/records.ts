/** Records of list, stat and watch, from output in any pieces. A broken one is `init_protocol`. */
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

const recordBytes = 48 + 2 * 4_096;
const entryKinds: Readonly<Record<string, EntryRecord['kind']>> = {
  f: 'file',
  d: 'folder',
  l: 'symlink',
  p: 'fifo',
  s: 'socket',
  c: 'device',
  b: 'device',
};
const watchKinds: Readonly<Record<string, WatchRecord['kind']>> = {
  R: 'ready',
  c: 'created',
  m: 'modified',
  d: 'removed',
  f: 'moved-from',
  t: 'moved-to',
  a: 'attributes',
  o: 'overflow',
};

export async function* decodeEntries(output: AsyncIterable<OutputChunk>): AsyncGenerator<EntryRecord> {
  for await (const record of splitRecords(output)) yield decodeEntry(record);
}

export async function* decodeWatch(output: AsyncIterable<OutputChunk>): AsyncGenerator<WatchRecord> {
  for await (const record of splitRecords(output)) yield decodeWatchRecord(record);
}

async function* splitRecords(output: AsyncIterable<OutputChunk>): AsyncGenerator<Buffer> {
  let rest = Buffer.alloc(0);
  for await (const { data } of output) {
    let at = 0;
    rest = rest.length === 0 ? Buffer.from(data) : Buffer.concat([rest, data]);
    while (rest.length - at >= 4) {
      const length = rest.readUInt32LE(at);
      if (length < 8 || length > recordBytes) throw broken(`a record of ${length} bytes`);
      if (rest.length - at - 4 < length) break;
      yield rest.subarray(at + 4, at + 4 + length);
      at += 4 + length;
    }
    rest = rest.subarray(at);
  }
  if (rest.length > 0) throw broken(`${rest.length} bytes of a record that does not end`);
}

function decodeEntry(record: Buffer): EntryRecord {
  const kind = entryKinds[String.fromCharCode(record[0] ?? 0)];
  if (kind === undefined || record.length < 48) throw broken('a record of no known kind');
  const pathLength = record.readUInt16LE(44);
  const targetLength = record.readUInt16LE(46);
  if (record.length !== 48 + pathLength + targetLength) throw broken('a record whose names do not fit its length');
  const target = record.subarray(48 + pathLength);
  return {
    path: record.subarray(48, 48 + pathLength),
    kind,
    mode: record.readUInt32LE(4),
    uid: record.readUInt32LE(8),
    gid: record.readUInt32LE(12),
    links: record.readUInt32LE(16),
    bytes: Number(record.readBigUInt64LE(20)),
    allocatedBytes: Number(record.readBigUInt64LE(28)) * 512,
    modifiedAt: isoTime(record.readBigInt64LE(36)),
    ...(kind === 'symlink' ? { target } : {}),
  };
}

/** A file's time can be set to anything; what no Date can hold becomes its nearest bound. */
function isoTime(nanoseconds: bigint): string {
  const milliseconds = Number(nanoseconds / 1_000_000n);
  return new Date(Math.max(-8.64e15, Math.min(8.64e15, milliseconds))).toISOString();
}

function decodeWatchRecord(record: Buffer): WatchRecord {
  const kind = watchKinds[String.fromCharCode(record[0] ?? 0)];
  const pathLength = record.readUInt16LE(4);
  if (kind === undefined || record.length !== 8 + pathLength) throw broken('a watch record of no known kind or length');
  return { kind, path: record.subarray(8) };
}
