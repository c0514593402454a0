import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeEntries, decodeWatch, RecordSplitter } from './records.ts';
import type { OutputChunk } from './types.ts';

interface Entry {
  readonly letter: string;
  readonly words: readonly number[];
  readonly size: bigint;
  readonly blocks: bigint;
  readonly mtimeNs: bigint;
  readonly path: Buffer;
  readonly target: Buffer;
}

const kinds: Readonly<Record<string, string>> = {
  f: 'file',
  d: 'folder',
  l: 'symlink',
  p: 'fifo',
  s: 'socket',
  c: 'device',
  b: 'device',
};
const name = fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes));
const entry: fc.Arbitrary<Entry> = fc
  .record({
    letter: fc.constantFrom(...Object.keys(kinds)),
    words: fc.array(fc.nat(0xffff_ffff), { minLength: 4, maxLength: 4 }),
    size: fc.bigInt({ min: 0n, max: 2n ** 53n }),
    blocks: fc.bigInt({ min: 0n, max: 2n ** 40n }),
    mtimeNs: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    path: name,
    target: name,
  })
  .map((each) => (each.letter === 'l' ? each : { ...each, target: Buffer.alloc(0) }));
const sizes = fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 40 });

describe('records', () => {
  it('of entries survive any pieces', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(entry, { maxLength: 12 }), sizes, async (entries, cuts) => {
        const decoded = await collect(decodeEntries(output(Buffer.concat(entries.map(encodeEntry)), cuts)));
        expect(decoded).toEqual(entries.map(expected));
      }),
    );
  });

  it('of a watch survive any pieces', async () => {
    const event = fc.tuple(fc.constantFrom('R', 'c', 'm', 'd', 'f', 't', 'a', 'o'), name);
    await fc.assert(
      fc.asyncProperty(fc.array(event, { maxLength: 12 }), sizes, async (events, cuts) => {
        const wire = Buffer.concat(events.map(([letter, path]) => encodeEvent(letter, path)));
        const decoded = await collect(decodeWatch(output(wire, cuts)));
        expect(decoded.map(({ path }) => path)).toEqual(events.map(([, path]) => path));
        expect(decoded.every(({ kind }) => kind.length > 1)).toBe(true);
      }),
    );
  });

  it('are decoded or refused with init_protocol, whatever comes', async () => {
    const wire = fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes));
    const nearly = fc.tuple(fc.nat(80), wire).map(([length, bytes]) => Buffer.concat([lengthOf(length), bytes]));
    await fc.assert(
      fc.asyncProperty(fc.oneof(wire, nearly), sizes, async (bytes, cuts) => {
        for (const decoder of [decodeEntries, decodeWatch]) {
          const thrown = await collect<unknown>(decoder(output(bytes, cuts))).then(
            () => undefined,
            (error: unknown) => error,
          );
          if (thrown !== undefined) expect(thrown).toMatchObject({ code: 'init_protocol' });
        }
      }),
      { numRuns: 300 },
    );
  });

  it('with a length that no record has are refused before they are kept', () => {
    expect(() => new RecordSplitter().push(lengthOf(0xffff_ffff))).toThrow(/a record of 4294967295 bytes/);
    expect(() => new RecordSplitter().push(lengthOf(7))).toThrow(/a record of 7 bytes/);
  });

  it('that end half-way are refused', async () => {
    const wire = encodeEvent('c', Buffer.from('name'));
    await expect(collect(decodeWatch(output(wire.subarray(0, -1), [100])))).rejects.toMatchObject({
      code: 'init_protocol',
    });
  });

  it('of a file with a target are refused', async () => {
    const wire = encodeEntry({
      letter: 'f',
      words: [0, 0, 0, 0],
      size: 0n,
      blocks: 0n,
      mtimeNs: 0n,
      path: Buffer.from('a'),
      target: Buffer.from('b'),
    });
    await expect(collect(decodeEntries(output(wire, [100])))).rejects.toMatchObject({ code: 'init_protocol' });
  });
});

function encodeEntry({ letter, words, size, blocks, mtimeNs, path, target }: Entry): Buffer {
  const fixed = Buffer.alloc(48);
  fixed.write(letter, 0);
  for (const [index, word] of words.entries()) fixed.writeUInt32LE(word, 4 + index * 4);
  fixed.writeBigUInt64LE(size, 20);
  fixed.writeBigUInt64LE(blocks, 28);
  fixed.writeBigInt64LE(mtimeNs, 36);
  fixed.writeUInt16LE(path.length, 44);
  fixed.writeUInt16LE(target.length, 46);
  return Buffer.concat([lengthOf(48 + path.length + target.length), fixed, path, target]);
}

function encodeEvent(letter: string, path: Buffer): Buffer {
  const fixed = Buffer.alloc(8);
  fixed.write(letter, 0);
  fixed.writeUInt16LE(path.length, 4);
  return Buffer.concat([lengthOf(8 + path.length), fixed, path]);
}

function expected({ letter, words, size, blocks, mtimeNs, path, target }: Entry): object {
  const [mode, uid, gid, links] = words;
  return {
    path,
    kind: kinds[letter],
    mode,
    uid,
    gid,
    links,
    bytes: Number(size),
    allocatedBytes: Number(blocks) * 512,
    modifiedAt: new Date(Number(mtimeNs / 1_000_000n)).toISOString(),
    ...(letter === 'l' ? { target } : {}),
  };
}

function lengthOf(length: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(length, 0);
  return bytes;
}

async function* output(wire: Buffer, cuts: readonly number[]): AsyncGenerator<OutputChunk> {
  for (let at = 0, index = 0; at < wire.length; index++) {
    const end = at + (cuts[index % cuts.length] ?? 1);
    yield { channel: 'stdout', data: wire.subarray(at, end) };
    at = end;
  }
}

async function collect<T>(records: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const record of records) all.push(record);
  return all;
}
