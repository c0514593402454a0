import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SallyportError } from '../errors/error.ts';
import { OutputQueue } from './output-queue.ts';
import type { Channel, OutputChunk } from './types.ts';

describe('the output queue', () => {
  it('keeps every byte in the order it came, and counts what is taken', async () => {
    const piece = fc.tuple(
      fc.constantFrom<Channel>('stdout', 'stderr'),
      fc.oneof(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 20_000 })),
      fc.nat(2), // chunks that the reader takes meanwhile
    );
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 80 }), async (pieces) => {
        const taken = { stdout: 0, stderr: 0 };
        const queue = newQueue(taken);
        const reader = queue[Symbol.asyncIterator]();
        const got: OutputChunk[] = [];
        let sent = 0;
        for (const [channel, size, reads] of pieces) {
          queue.push(channel, Buffer.alloc(size, sent++));
          for (let read = 0; read < reads && waiting(queue) > 0; read++) got.push(...(await nextOf(reader)));
        }
        queue.end();
        for (let more = await nextOf(reader); more.length > 0; more = await nextOf(reader)) got.push(...more);
        expect(flat(got)).toEqual(
          flat(pieces.map(([channel, size], at) => ({ channel, data: Buffer.alloc(size, at) }))),
        );
        expect(taken).toEqual(count(got));
        expect(waiting(queue)).toBe(0);
      }),
    );
  });

  it('does not keep a receive buffer alive for a byte of it', async () => {
    const queue = newQueue();
    const received = Buffer.allocUnsafeSlow(65_536);
    for (let at = 0; at < 100; at++) queue.push('stdout', received.subarray(at, at + 1));
    const [chunk] = await nextOf(queue[Symbol.asyncIterator]());
    expect(chunk?.data.length).toBe(100);
    expect(chunk?.data.buffer.byteLength).toBe(100);
  });

  it('hands a byte to a waiting reader without the receive buffer around it', async () => {
    const queue = newQueue();
    const next = nextOf(queue[Symbol.asyncIterator]());
    queue.push('stdout', Buffer.allocUnsafeSlow(65_536).subarray(7, 8));
    expect((await next)[0]?.data.buffer.byteLength).toBe(1);
  });

  it('does not copy output that is large', async () => {
    const queue = newQueue();
    const data = Buffer.allocUnsafeSlow(65_536);
    queue.push('stdout', data);
    expect((await nextOf(queue[Symbol.asyncIterator]()))[0]?.data.buffer).toBe(data.buffer);
  });

  it('gives what waits before it tells of a failure', async () => {
    const queue = newQueue();
    queue.push('stderr', Buffer.from('last words'));
    queue.fail(new SallyportError('init_lost', 'gone'));
    const reader = queue[Symbol.asyncIterator]();
    expect((await nextOf(reader))[0]?.data.toString()).toBe('last words');
    await expect(reader.next()).rejects.toMatchObject({ code: 'init_lost' });
  });

  it('tells a waiting reader of a failure', async () => {
    const queue = newQueue();
    const next = queue[Symbol.asyncIterator]().next();
    queue.fail(new SallyportError('init_protocol', 'broken'));
    await expect(next).rejects.toMatchObject({ code: 'init_protocol' });
  });

  it('counts what waits and what still comes when the reader leaves', async () => {
    const queue = newQueue();
    queue.push('stdout', Buffer.alloc(5));
    queue.push('stderr', Buffer.alloc(50_000));
    for await (const _ of queue) break;
    queue.push('stdout', Buffer.alloc(3));
    expect(queue.dropped).toEqual({ stdout: 3, stderr: 50_000 });
    expect(waiting(queue)).toBe(0);
  });

  it('refuses two reads at once', async () => {
    const queue = newQueue();
    const reader = queue[Symbol.asyncIterator]();
    const first = reader.next();
    await expect(reader.next()).rejects.toMatchObject({ code: 'internal' });
    queue.end();
    expect((await first).done).toBe(true);
  });
});

function newQueue(taken = { stdout: 0, stderr: 0 }): OutputQueue {
  return new OutputQueue({
    onTaken: (channel, bytes) => {
      taken[channel] += bytes;
    },
    onLeft: () => undefined,
  });
}

function waiting({ queued }: OutputQueue): number {
  return queued.stdout + queued.stderr;
}

async function nextOf(reader: AsyncIterator<OutputChunk>): Promise<OutputChunk[]> {
  const { done, value } = await reader.next();
  return done === true ? [] : [value];
}

/** Chunks of one channel in a row count as one. */
function flat(chunks: readonly OutputChunk[]): string[] {
  const rows: { channel: Channel; parts: Buffer[] }[] = [];
  for (const { channel, data } of chunks) {
    const last = rows.at(-1);
    if (last?.channel === channel) last.parts.push(data);
    else rows.push({ channel, parts: [data] });
  }
  return rows.map(({ channel, parts }) => `${channel} ${Buffer.concat(parts).toString('base64')}`);
}

function count(chunks: readonly OutputChunk[]): { stdout: number; stderr: number } {
  const total = { stdout: 0, stderr: 0 };
  for (const { channel, data } of chunks) total[channel] += data.length;
  return total;
}
