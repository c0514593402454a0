import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Duplex } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { openInitClient } from './client.ts';
import { encodeFrame, hostFrame, initFrame } from './frame.ts';
import { pair32, u32, u64 } from './integers.ts';
import { creditBytes, openBacklogBytes, openStreams, outputFrameBytes, stdinChunkBytes } from './limits.ts';
import type { Channel, InitClient, InitStream, OutputChunk, SpawnSpec } from './types.ts';

const spec: SpawnSpec = {
  identity: { uid: 1000, gid: 1000, groups: [] },
  argv: ['true'],
  env: {},
  cwd: '/',
  stdin: true,
  killTreeOnExit: true,
  root: false,
  openFiles: 64,
};
const options = { lifetimeMs: 60_000, readyDeadlineMs: 1_000 };
const outputFrame = { stdout: initFrame.stdout, stderr: initFrame.stderr } as const;

const unheard: unknown[] = [];
const onUnheard = (reason: unknown): void => void unheard.push(reason);
beforeEach(() => void process.on('unhandledRejection', onUnheard));
afterEach(async () => {
  await turn();
  process.off('unhandledRejection', onUnheard);
  expect(unheard.splice(0)).toEqual([]);
});

describe('the greeting', () => {
  it('is HELLO with the version and the lifetime, and READY answers it', async () => {
    const init = new FakeInit();
    const client = openInitClient(init, options);
    expect(init.frames).toEqual([
      { type: hostFrame.hello, stream: 0, payload: Buffer.concat([Buffer.from([1, 0, 0, 0]), u64(60_000)]) },
    ]);
    init.say(initFrame.ready, 0, Buffer.from([1, 0, 0, 0]));
    await expect(client.ready).resolves.toBeUndefined();
    client.close();
  });

  it('that stays unanswered ends with the deadline', async () => {
    const client = openInitClient(new FakeInit(), { ...options, readyDeadlineMs: 5 });
    await expect(client.ready).rejects.toMatchObject({ code: 'deadline' });
    await expect(client.lost).resolves.toEqual({ code: 'init_lost', detail: 'init was not ready after 5 ms' });
  });

  it('on a channel that is closed already is lost at once', async () => {
    const init = new FakeInit();
    init.destroy();
    await expect(openInitClient(init, options).ready).rejects.toMatchObject({ code: 'init_lost' });
  });
});

describe('a stream', () => {
  it('tells its start, its output in order, its exit and its end', async () => {
    const { client, init } = ready();
    const stream = client.spawn(spec);
    expect(init.last).toMatchObject({ type: hostFrame.spawn, stream: stream.id });
    init.say(initFrame.started, stream.id, u32(42));
    init.output(stream.id, 'stdout', 'a');
    init.output(stream.id, 'stderr', 'b');
    init.output(stream.id, 'stdout', 'c');
    init.exit(stream.id, [0, 3]);
    init.treeEnded(stream.id);
    await expect(stream.started).resolves.toEqual({ pid: 42 });
    expect((await readAll(stream)).map(shown)).toEqual(['stdout a', 'stderr b', 'stdout c']);
    await expect(stream.exit).resolves.toMatchObject({ outcome: { kind: 'exited', code: 3 }, killed: false });
    await expect(stream.closed).resolves.toBeUndefined();
    client.close();
  });

  it('is kept apart from the others, whatever the order', async () => {
    const { client, init } = ready();
    const streams = [client.spawn(spec), client.file(spec.identity, { op: 'read', path: Buffer.from('/a') })] as const;
    const [command, file] = streams;
    init.output(file.id, 'stdout', 'content');
    init.output(command.id, 'stderr', 'first');
    init.exit(file.id, [0, 0]);
    init.treeEnded(file.id);
    init.output(command.id, 'stdout', 'second');
    init.say(initFrame.started, command.id, u32(2));
    init.exit(command.id, [1, 9, 0, 1]);
    expect((await readAll(command)).map(shown)).toEqual(['stderr first', 'stdout second']);
    expect((await readAll(file)).map(shown)).toEqual(['stdout content']);
    await expect(command.exit).resolves.toMatchObject({ outcome: { kind: 'signalled', signal: 9 }, killed: true });
    client.close();
  });

  it('can be read after its exit and its end', async () => {
    const { client, init } = ready();
    const stream = client.spawn(spec);
    init.output(stream.id, 'stdout', 'kept');
    init.exit(stream.id, [0, 0]);
    init.treeEnded(stream.id);
    await stream.closed;
    client.close();
    expect((await readAll(stream)).map(shown)).toEqual(['stdout kept']);
  });

  it('gives what comes to a reader that waits', async () => {
    const { client, init } = ready();
    const stream = client.spawn(spec);
    const reading = readAll(stream);
    await turn();
    init.output(stream.id, 'stdout', 'late');
    await turn();
    init.exit(stream.id, [0, 0]);
    expect((await reading).map(shown)).toEqual(['stdout late']);
    client.close();
  });

  it('that could not start says where and why', async () => {
    const { client, init } = ready();
    const stream = client.spawn(spec);
    init.exit(stream.id, [2, 2, 8]);
    init.treeEnded(stream.id);
    await expect(stream.started).rejects.toMatchObject({
      code: 'exec_failed',
      message: 'Cannot start the command: exec failed with ENOENT',
    });
    await expect(stream.exit).resolves.toMatchObject({ outcome: { kind: 'failed', errno: 2, stage: 'exec' } });
    client.close();
  });

  it('sends signals, kills and sizes as the wire has them', () => {
    const { client, init } = ready();
    const stream = client.spawn({ ...spec, pty: { rows: 1, columns: 1 } });
    const sent = (): unknown => ({ type: init.last?.type, payload: init.last?.payload.toString('hex') });
    stream.kill(2_000);
    expect(sent()).toEqual({ type: hostFrame.kill, payload: 'd0070000' });
    stream.kill(Number.NaN);
    expect(sent()).toEqual({ type: hostFrame.kill, payload: '00000000' });
    stream.signal(15, 'tree');
    expect(sent()).toEqual({ type: hostFrame.signal, payload: '0f00000001000000' });
    stream.signal(2, 'main');
    expect(sent()).toEqual({ type: hostFrame.signal, payload: '0200000000000000' });
    stream.resize(24, 80);
    expect(sent()).toEqual({ type: hostFrame.resize, payload: '18005000' });
    expect(() => stream.signal(0, 'main')).toThrow(expect.objectContaining({ code: 'invalid_request' }));
    expect(() => stream.resize(-1, 80)).toThrow(expect.objectContaining({ code: 'invalid_request' }));
    client.close();
  });

  it('sends nothing once it is closed', async () => {
    const { client, init } = ready();
    const stream = client.spawn(spec);
    init.exit(stream.id, [0, 0]);
    init.treeEnded(stream.id);
    await stream.closed;
    const count = init.frames.length;
    stream.kill(0);
    stream.signal(9, 'tree');
    stream.discard();
    stream.endStdin();
    expect(init.frames.length).toBe(count);
    client.close();
  });

  it('past the 256th is refused until one is closed', async () => {
    const { client, init } = ready();
    const streams = Array.from({ length: openStreams }, () => client.spawn(spec));
    expect(new Set(streams.map(({ id }) => id)).size).toBe(openStreams);
    const refused = expect.objectContaining({ code: 'too_many_streams' });
    expect(() => client.spawn(spec)).toThrow(refused);
    init.exit(7, [0, 0]);
    await turn();
    expect(() => client.spawn(spec)).toThrow(refused);
    init.treeEnded(7);
    await turn();
    expect(client.spawn(spec).id).toBe(openStreams + 1);
    client.close();
  });

  it('with a bad spec is refused before anything is sent', () => {
    const { client, init } = ready();
    expect(() => client.spawn({ ...spec, argv: [] })).toThrow(expect.objectContaining({ code: 'invalid_request' }));
    expect(init.frames.length).toBe(1);
    client.close();
  });
});

describe('credit', () => {
  it('is given back in steps as the reader takes chunks', async () => {
    const { client, init } = ready();
    const stream = client.spawn(spec);
    const reader = stream.output[Symbol.asyncIterator]();
    for (let sent = 0; sent < creditBytes; sent += outputFrameBytes) init.output(stream.id, 'stdout', outputFrameBytes);
    expect(init.sent(hostFrame.credit)).toEqual([]);
    await reader.next();
    await reader.next();
    const grant = pair32(1, outputFrameBytes);
    expect(init.sent(hostFrame.credit).map(({ payload }) => payload)).toEqual([grant, grant]);
    client.close();
  });

  it.each(['stdout', 'stderr'] as const)('for %s that is overdrawn by a byte ends the sandbox', async (channel) => {
    const { client, init } = ready();
    const stream = client.spawn(spec);
    for (let sent = 0; sent < creditBytes; sent += outputFrameBytes) init.output(stream.id, channel, outputFrameBytes);
    await turn();
    expect(init.destroyed).toBe(false);
    init.output(stream.id, channel, 1);
    await expect(client.lost).resolves.toMatchObject({
      code: 'init_protocol',
      detail: expect.stringContaining(`stream 1 sent more ${channel} than its credit`),
    });
    await expect(stream.exit).rejects.toMatchObject({ code: 'init_protocol' });
  });

  it('for stderr is none for a file operation', async () => {
    const { client, init } = ready();
    init.output(client.file(spec.identity, { op: 'stat', path: Buffer.from('/'), followLink: true }).id, 'stderr', 'x');
    await expect(client.lost).resolves.toMatchObject({ code: 'init_protocol' });
  });

  it('never lets more than the window wait, and never runs dry, for any reader and any writer within it', async () => {
    const step = fc.oneof(
      fc.record({ channel: fc.constantFrom<Channel>('stdout', 'stderr'), bytes: fc.integer({ min: 1, max: 262_144 }) }),
      fc.record({ takes: fc.integer({ min: 1, max: 8 }) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 30, maxLength: 120 }), async (steps) => {
        const { client, init } = ready();
        const stream = client.spawn(spec);
        const reader = stream.output[Symbol.asyncIterator]();
        const sent = { stdout: 0, stderr: 0 };
        const taken = { stdout: 0, stderr: 0 };
        const allowed = (channel: Channel): number => creditBytes + init.granted(channel) - sent[channel];
        for (const each of steps) {
          if ('takes' in each) {
            for (let take = 0; take < each.takes && waiting(sent, taken) > 0; take++) {
              const { value } = await reader.next();
              if (value !== undefined) taken[value.channel as Channel] += value.data.length;
            }
            continue;
          }
          const bytes = Math.min(each.bytes, allowed(each.channel));
          if (bytes === 0) continue;
          init.output(stream.id, each.channel, bytes);
          sent[each.channel] += bytes;
          for (const channel of ['stdout', 'stderr'] as const) {
            expect(sent[channel] - taken[channel]).toBeLessThanOrEqual(creditBytes);
            // what is neither waiting nor allowed is what the host owes: less than a step
            expect(creditBytes - allowed(channel) - (sent[channel] - taken[channel])).toBeLessThan(creditBytes / 4);
          }
        }
        expect(init.destroyed).toBe(false);
        client.close();
      }),
      { numRuns: 40 },
    );
  });
});

describe('a reader that leaves', () => {
  it('sends DISCARD; what arrived is told as it arrives, what init kept back is in the report', async () => {
    const { client, init } = ready();
    const stream = client.spawn(spec);
    const arrived = { stdout: 0, stderr: 0 };
    stream.onArrival((channel, bytes) => {
      arrived[channel] += bytes;
    });
    init.output(stream.id, 'stdout', 'read');
    init.output(stream.id, 'stderr', 'missed');
    for await (const _ of stream.output) break;
    expect(init.last).toEqual({ type: hostFrame.discard, stream: stream.id, payload: Buffer.alloc(0) });
    init.output(stream.id, 'stdout', 'was on its way');
    init.exit(stream.id, [0, 0], [100n, 200n]);
    expect(await readAll(stream)).toEqual([]);
    await expect(stream.exit).resolves.toMatchObject({ discarded: { stdout: 100, stderr: 200 } });
    expect(arrived).toEqual({ stdout: 18, stderr: 6 });
    client.close();
  });

  it('because its loop threw sends DISCARD too', async () => {
    const { client, init } = ready();
    const stream = client.spawn(spec);
    init.output(stream.id, 'stdout', 'x');
    const reading = (async () => {
      for await (const _ of stream.output) throw new Error('a reader that fails');
    })();
    await expect(reading).rejects.toThrow('a reader that fails');
    expect(init.last?.type).toBe(hostFrame.discard);
    client.close();
  });

  it('is not there when discard is called: nothing is kept', async () => {
    const { client, init } = ready();
    const stream = client.spawn(spec);
    init.output(stream.id, 'stdout', 'unread');
    stream.discard();
    stream.discard();
    expect(init.sent(hostFrame.discard).length).toBe(1);
    expect(await readAll(stream)).toEqual([]);
    client.close();
  });

  it('but stays while discard is called still gets what is on its way', async () => {
    const { client, init } = ready();
    const stream = client.spawn(spec);
    const reading = readAll(stream);
    stream.discard();
    init.output(stream.id, 'stdout', 'last words');
    init.exit(stream.id, [1, 9]);
    expect((await reading).map(shown)).toEqual(['stdout last words']);
    client.close();
  });
});

describe('stdin', () => {
  it('waits for credit, goes in pieces, and ends after what was written', async () => {
    const { client, init } = ready();
    const stream = client.spawn(spec);
    const data = Buffer.from(Array.from({ length: 200_000 }, (_, at) => at % 251));
    const writes = Promise.all([stream.write(data), stream.write(Buffer.from('tail'))]);
    stream.endStdin();
    await turn();
    expect(init.stdin()).toEqual([]);
    init.say(initFrame.stdinCredit, stream.id, u32(100_000));
    await turn();
    expect(init.stdin().map(({ length }) => length)).toEqual([stdinChunkBytes, 100_000 - stdinChunkBytes]);
    expect(init.sent(hostFrame.stdinEof)).toEqual([]);
    init.say(initFrame.stdinCredit, stream.id, u32(100_004));
    await writes;
    await turn();
    expect(Buffer.concat(init.stdin())).toEqual(Buffer.concat([data, Buffer.from('tail')]));
    expect(init.last?.type).toBe(hostFrame.stdinEof);
    client.close();
  });

  it('cannot be written after its end, nor where it is not open', async () => {
    const { client } = ready();
    const stream = client.spawn(spec);
    stream.endStdin();
    await expect(stream.write(Buffer.from('x'))).rejects.toMatchObject({ code: 'invalid_request' });
    const closed = client.spawn({ ...spec, stdin: false });
    await expect(closed.write(Buffer.from('x'))).rejects.toMatchObject({ code: 'invalid_request' });
    client.close();
  });

  it('refuses a writer that waits when the command ends', async () => {
    const { client, init } = ready();
    const stream = client.spawn(spec);
    const writing = stream.write(Buffer.from('x'));
    init.exit(stream.id, [0, 0]);
    await expect(writing).rejects.toMatchObject({ code: 'exec_not_found' });
    await expect(stream.write(Buffer.from('y'))).rejects.toMatchObject({ code: 'exec_not_found' });
    client.close();
  });

  it('waits for the socket, so that one piece a stream is all that waits there', async () => {
    const { client, init } = ready();
    init.stopReading();
    const streams = [client.spawn(spec), client.spawn(spec)];
    const before = init.writableLength;
    const writes = streams.map((stream) => {
      init.say(initFrame.stdinCredit, stream.id, u32(1_000_000));
      return stream.write(Buffer.alloc(1_000_000));
    });
    await turn();
    expect(init.writableLength - before).toBe(2 * (stdinChunkBytes + 12));
    init.readAgain();
    await Promise.all(writes);
    expect(Buffer.concat(init.stdin()).length).toBe(2_000_000);
    client.close();
  });

  it('rejects a writer that waits for the socket when the channel goes', async () => {
    const { client, init } = ready();
    init.stopReading();
    const stream = client.spawn(spec);
    init.say(initFrame.stdinCredit, stream.id, u32(1_000_000));
    const writing = stream.write(Buffer.alloc(1_000_000));
    await turn();
    client.close();
    await expect(writing).rejects.toMatchObject({ code: 'init_lost' });
  });
});

describe('an init that does not read', () => {
  it('gets no new stream', () => {
    const { client, init } = ready();
    init.stopReading();
    const long = { ...spec, argv: Array.from({ length: 8 }, () => Buffer.alloc(120_000, 1)) };
    const spawnAll = (): void => {
      for (let each = 0; each < openStreams; each++) client.spawn(long);
    };
    expect(spawnAll).toThrow(expect.objectContaining({ code: 'too_many_streams' }));
    expect(init.writableLength).toBeLessThan(openBacklogBytes + 2 * 1_048_576);
    client.close();
  });
});

describe('ping', () => {
  it('measures the round trip', async () => {
    const { client, init } = ready();
    const pinged = client.ping(1_000);
    const token = init.last?.payload ?? Buffer.alloc(0);
    init.say(initFrame.pong, 0, token);
    expect(await pinged).toBeGreaterThanOrEqual(0);
    client.close();
  });

  it('gives up at its deadline, and a late answer is no error', async () => {
    const { client, init } = ready();
    const pinged = client.ping(5);
    const token = init.last?.payload ?? Buffer.alloc(0);
    await expect(pinged).rejects.toMatchObject({ code: 'deadline' });
    init.say(initFrame.pong, 0, token);
    await turn();
    expect(init.destroyed).toBe(false);
    init.say(initFrame.pong, 0, u64(77n));
    await expect(client.lost).resolves.toMatchObject({ code: 'init_protocol' });
    await expect(client.ping(5)).rejects.toMatchObject({ code: 'init_protocol' });
  });
});

describe('a disk that becomes full', () => {
  it('is told to every listener', async () => {
    const { client, init } = ready();
    const seen = vi.fn();
    client.onDisk(seen);
    client.onDisk(seen);
    init.say(initFrame.disk, 0, Buffer.concat([u64(1), u64(2), u64(3), u64(4)]));
    await turn();
    expect(seen.mock.calls).toEqual(
      Array.from({ length: 2 }, () => [{ freeBytes: 1, totalBytes: 2, freeInodes: 3, totalInodes: 4 }]),
    );
    client.close();
  });
});

describe('the end of a channel', () => {
  it.each<[string, (init: FakeInit) => void]>([
    ['bytes that are no frame', (init) => init.raw(Buffer.alloc(12, 0xff))],
    ['output of a stream that was never opened', (init) => init.output(99, 'stdout', 'x')],
    ['a second READY', (init) => init.say(initFrame.ready, 0, Buffer.from([1, 0, 0, 0]))],
    ['a second STARTED', (init) => [1, 2].map((pid) => init.say(initFrame.started, 1, u32(pid)))],
    ['output after EXIT', (init) => [init.exit(1, [0, 0]), init.output(1, 'stdout', 'x')]],
    ['a second EXIT', (init) => [init.exit(1, [0, 0]), init.exit(1, [0, 0])]],
    ['CLOSED before EXIT', (init) => init.treeEnded(1)],
    ['a frame after CLOSED', (init) => [init.exit(1, [0, 0]), init.treeEnded(1), init.output(1, 'stdout', 'x')]],
    ['too much credit', (init) => [1, 2].map(() => init.say(initFrame.stdinCredit, 1, u32(0xffff_ffff)))],
  ])('by %s ends that sandbox alone', async (_, misbehave) => {
    const [bad, good] = [ready(), ready()];
    const streams = [bad.client.spawn(spec), bad.client.spawn(spec), good.client.spawn(spec)] as const;
    misbehave(bad.init);
    await expect(bad.client.lost).resolves.toMatchObject({ code: 'init_protocol' });
    expect(bad.init.destroyed).toBe(true);
    await expect(streams[1].exit).rejects.toMatchObject({ code: 'init_protocol' });
    expect(() => bad.client.spawn(spec)).toThrow(expect.objectContaining({ code: 'init_protocol' }));
    good.init.exit(streams[2].id, [0, 0]);
    await expect(streams[2].exit).resolves.toMatchObject({ outcome: { kind: 'exited' } });
    good.client.close();
  });

  it('before READY may only be READY, DISK or FATAL', async () => {
    const init = new FakeInit();
    const client = openInitClient(init, options);
    const stream = client.spawn(spec);
    init.exit(stream.id, [0, 0]);
    await expect(client.ready).rejects.toMatchObject({ code: 'init_protocol' });
  });

  it('by EOF rejects everything that waits with init_lost', async () => {
    const { client, init } = ready();
    const stream = client.spawn(spec);
    const waits = [
      stream.started,
      stream.exit,
      stream.closed,
      stream.write(Buffer.from('x')),
      stream.output[Symbol.asyncIterator]().next(),
      client.ping(10_000),
    ];
    init.raw(null);
    const results = await Promise.allSettled(waits);
    expect(results.map((result) => result.status === 'rejected' && result.reason.code)).toEqual(
      waits.map(() => 'init_lost'),
    );
    await expect(client.lost).resolves.toEqual({ code: 'init_lost', detail: 'its channel ended' });
  });

  it('leaves no unheard rejection when nobody waits', async () => {
    const { client, init } = ready();
    const stream = client.spawn(spec);
    void stream.write(Buffer.from('x'));
    void stream.output[Symbol.asyncIterator]().next();
    void client.ping(10_000);
    init.destroy(new Error('EPIPE'));
    await expect(client.lost).resolves.toEqual({ code: 'init_lost', detail: 'its channel failed: EPIPE' });
  });

  it('by FATAL carries its text, quoted', async () => {
    const { client, init } = ready();
    init.say(initFrame.fatal, 0, Buffer.concat([u32(70), Buffer.from('bad\u001b[2J')]));
    await expect(client.lost).resolves.toEqual({
      code: 'init_lost',
      detail: 'it gave up with code 70: "bad\\u001b[2J"',
    });
  });

  it('by close keeps what was settled before', async () => {
    const { client, init } = ready();
    const stream = client.spawn(spec);
    init.say(initFrame.started, stream.id, u32(5));
    init.exit(stream.id, [0, 1]);
    await stream.exit;
    client.close();
    client.close();
    await expect(stream.started).resolves.toEqual({ pid: 5 });
    await expect(stream.exit).resolves.toMatchObject({ outcome: { code: 1 } });
    await expect(stream.closed).rejects.toMatchObject({ code: 'init_lost' });
  });

  it('is all that any bytes of an init can bring about', async () => {
    const frame = fc
      .tuple(fc.constantFrom(...Object.values(initFrame)), fc.nat(3), fc.constantFrom(1, 4, 8, 32, 56), fc.nat(3))
      .map(([type, stream, length, fill]) => encodeFrame(type, stream, Buffer.alloc(length, fill)));
    const bytes = fc.oneof({ weight: 9, arbitrary: frame }, { weight: 1, arbitrary: fc.uint8Array({ minLength: 1 }) });
    await fc.assert(
      fc.asyncProperty(fc.array(bytes, { maxLength: 30 }), async (parts) => {
        const { client, init } = ready();
        const streams = [client.spawn(spec), client.spawn(spec)];
        for (const part of parts) if (!init.destroyed) init.raw(Buffer.from(part));
        await turn();
        client.close();
        for (const stream of streams) await readAll(stream).catch((error) => expect(error.code).toMatch(/^init_/));
        expect((await client.lost).code).toMatch(/^init_(lost|protocol)$/);
      }),
      { numRuns: 200 },
    );
  });
});

describe('over a real socket', () => {
  it('output and input flow through their windows many times over', async () => {
    await using pair = await socketPair();
    const client = openInitClient(pair.host, options);
    const init = new FakeInit();
    // what the host sends reaches the fake, what the fake says goes to the host
    pair.init.on('data', (bytes: Buffer) => init.write(bytes));
    init.on('data', (bytes: Buffer) => pair.init.write(bytes));
    init.say(initFrame.ready, 0, Buffer.from([1, 0, 0, 0]));
    await client.ready;
    const stream = client.spawn(spec);
    const total = 8 * creditBytes;
    const sending = init.flood(stream.id, total);
    init.creditStdin(stream.id, total);
    let bytes = 0;
    const reading = (async () => {
      for await (const { data } of stream.output) bytes += data.length;
    })();
    await stream.write(Buffer.alloc(total));
    stream.endStdin();
    await sending;
    init.exit(stream.id, [0, 0]);
    await reading;
    expect(bytes).toBe(total);
    await vi.waitFor(() => expect(init.sent(hostFrame.stdinEof).length).toBe(1));
    expect(init.stdin().reduce((sum, { length }) => sum + length, 0)).toBe(total);
    client.close();
  });

  it('a peer that goes away is lost', async () => {
    await using pair = await socketPair();
    const client = openInitClient(pair.host, options);
    pair.init.destroy();
    await expect(client.lost).resolves.toMatchObject({ code: 'init_lost' });
  });
});

interface HostFrame {
  readonly type: number;
  readonly stream: number;
  readonly payload: Buffer;
}

/** A client whose init has said READY. */
function ready(): { readonly client: InitClient; readonly init: FakeInit } {
  const init = new FakeInit();
  const client = openInitClient(init, options);
  init.say(initFrame.ready, 0, Buffer.from([1, 0, 0, 0]));
  return { client, init };
}

/** The other end of the channel, scripted by the test; it decodes what the host sends with a parser of its own. */
class FakeInit extends Duplex {
  readonly frames: HostFrame[] = [];
  #received = Buffer.alloc(0);
  #isReading = true;
  #unread: (() => void) | undefined;
  #stdinCredit: { readonly stream: number; left: number } | undefined;
  #onGrant: () => void = () => undefined;

  get last(): HostFrame | undefined {
    return this.frames.at(-1);
  }

  sent(type: number): readonly HostFrame[] {
    return this.frames.filter((frame) => frame.type === type);
  }

  stdin(): readonly Buffer[] {
    return this.sent(hostFrame.stdin).map(({ payload }) => payload);
  }

  granted(channel: Channel): number {
    const grants = this.sent(hostFrame.credit).filter(
      ({ payload }) => payload.readUInt32LE(0) === (channel === 'stdout' ? 1 : 2),
    );
    return grants.reduce((sum, { payload }) => sum + payload.readUInt32LE(4), 0);
  }

  raw(bytes: Buffer | null): void {
    this.push(bytes);
  }

  say(type: number, stream: number, payload: Buffer): void {
    this.raw(encodeFrame(type, stream, payload));
  }

  output(stream: number, channel: Channel, data: string | number): void {
    this.say(outputFrame[channel], stream, typeof data === 'string' ? Buffer.from(data) : Buffer.alloc(data));
  }

  exit(stream: number, words: readonly number[], discarded: readonly [bigint, bigint] = [0n, 0n]): void {
    const payload = Buffer.alloc(56);
    for (const [index, word] of words.entries()) payload.writeUInt32LE(word, index * 4);
    payload.writeBigUInt64LE(discarded[0], 16);
    payload.writeBigUInt64LE(discarded[1], 24);
    this.say(initFrame.exit, stream, payload);
  }

  treeEnded(stream: number): void {
    this.say(initFrame.closed, stream, Buffer.alloc(8));
  }

  /** Sends so many bytes of stdout, within the credit. */
  async flood(stream: number, total: number): Promise<void> {
    for (let sent = 0; sent < total; ) {
      const size = Math.min(creditBytes + this.granted('stdout') - sent, 100_000, total - sent);
      if (size === 0) {
        await new Promise<void>((resolve) => {
          this.#onGrant = resolve;
        });
        continue;
      }
      this.output(stream, 'stdout', size);
      sent += size;
    }
  }

  /** Gives stdin credit, a window first, then what was read. */
  creditStdin(stream: number, total: number): void {
    this.#stdinCredit = { stream, left: total - 262_144 };
    this.say(initFrame.stdinCredit, stream, u32(262_144));
  }

  stopReading(): void {
    this.#isReading = false;
  }

  readAgain(): void {
    this.#isReading = true;
    this.#unread?.();
  }

  override _read(): void {
    // what is said is pushed as it is said
  }

  override _write(bytes: Buffer, _encoding: string, done: () => void): void {
    this.#received = Buffer.concat([this.#received, bytes]);
    while (this.#received.length >= 12 && this.#received.length >= 12 + this.#received.readUInt32LE(0)) this.#take();
    if (this.#isReading) done();
    else this.#unread = done;
  }

  #take(): void {
    const end = 12 + this.#received.readUInt32LE(0);
    const frame = {
      type: this.#received.readUInt32LE(4),
      stream: this.#received.readUInt32LE(8),
      payload: this.#received.subarray(12, end),
    };
    this.#received = this.#received.subarray(end);
    this.frames.push(frame);
    if (frame.type === hostFrame.credit) this.#onGrant();
    if (frame.type === hostFrame.stdin) this.#repayStdin(frame.payload.length);
  }

  #repayStdin(bytes: number): void {
    const credit = this.#stdinCredit;
    if (credit === undefined || credit.left === 0) return;
    const size = Math.min(bytes, credit.left);
    credit.left -= size;
    this.say(initFrame.stdinCredit, credit.stream, u32(size));
  }
}

interface SocketPair extends AsyncDisposable {
  readonly host: Socket;
  readonly init: Socket;
}

async function socketPair(): Promise<SocketPair> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-init-test-'));
  const server = createServer();
  const accepted = once(server, 'connection');
  server.listen(join(folder, 'socket'));
  await once(server, 'listening');
  const init = connect(join(folder, 'socket'));
  const [host] = (await accepted) as [Socket];
  init.on('error', () => undefined);
  return {
    host,
    init,
    async [Symbol.asyncDispose]() {
      host.destroy();
      init.destroy();
      server.close();
      rmSync(folder, { recursive: true });
    },
  };
}

async function readAll(stream: InitStream): Promise<OutputChunk[]> {
  const chunks: OutputChunk[] = [];
  for await (const chunk of stream.output) chunks.push(chunk);
  return chunks;
}

function shown({ channel, data }: OutputChunk): string {
  return `${channel} ${data.toString()}`;
}

function waiting(sent: Record<Channel, number>, taken: Record<Channel, number>): number {
  return sent.stdout + sent.stderr - taken.stdout - taken.stderr;
}
