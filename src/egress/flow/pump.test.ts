import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { pump } from './pump.ts';

const made: { destroy?(): unknown; close?(): unknown }[] = [];

afterEach(() => {
  for (const thing of made.splice(0)) {
    thing.destroy?.();
    thing.close?.();
  }
});

/** A connected pair, both ends half-open capable. */
async function pair(): Promise<[Socket, Socket]> {
  const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const near = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', allowHalfOpen: true });
  const [far] = (await once(server, 'connection')) as [Socket];
  made.push(near, far, server);
  return [near, far];
}

async function pumped(onBytes: (direction: 'up' | 'down', bytes: number) => number | 'stop' = () => 0) {
  const [client, inside] = await pair();
  const [outside, server] = await pair();
  const closed = new Promise<string | null>((resolve) => pump({ inside, outside, onBytes, onClosed: resolve }));
  for (const socket of [client, server]) socket.on('error', () => undefined);
  return { client, server, closed };
}

async function textOf(socket: Socket): Promise<string> {
  let text = '';
  socket.on('data', (piece: Buffer) => {
    text += piece;
  });
  await once(socket, 'end');
  return text;
}

describe('two sockets as one', () => {
  it('pass an end on, and go on the other way', async () => {
    const { client, server, closed } = await pumped();
    client.end('question');
    expect(await textOf(server)).toBe('question');
    server.end('answer after the end');
    expect(await textOf(client)).toBe('answer after the end');
    expect(await closed).toBeNull();
  });

  it('pass a reset on', async () => {
    const { client, server, closed } = await pumped();
    client.write('x');
    await once(server, 'data');
    client.resetAndDestroy();
    await expect(once(server, 'end')).rejects.toThrow('ECONNRESET');
    expect(await closed).toContain('ECONNRESET');
  });

  it('wait for a reader that does not read, and lose nothing', async () => {
    let passed = 0;
    const { client, server } = await pumped((_direction, bytes) => {
      passed += bytes;
      return 0;
    });
    server.pause();
    const total = 64 * 1024 * 1024;
    client.end(Buffer.alloc(total));
    const settled = async (): Promise<number> => {
      const before = passed;
      await new Promise((resolve) => setTimeout(resolve, 100));
      return passed === before ? passed : settled();
    };
    expect(await settled()).toBeLessThan(total / 2);
    let received = 0;
    server.on('data', (piece: Buffer) => {
      received += piece.length;
    });
    server.resume();
    await once(server, 'end');
    expect(received).toBe(total);
  });

  it('end when they are told to stop, and the piece does not go on', async () => {
    const { client, server, closed } = await pumped(() => 'stop');
    let received = 0;
    server.on('data', (piece: Buffer) => {
      received += piece.length;
    });
    client.write('too much');
    await closed;
    expect(received).toBe(0);
  });
});
