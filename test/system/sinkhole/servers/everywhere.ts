/** Listening on a TCP port of every address of the world, IPv4 and IPv6, from within this process. */
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { addon } from '../../../../src/linux/addon.ts';
import type { Netns } from '../network.ts';

export interface Listening {
  /** Ends open connections too. */
  close(): Promise<void>;
}

interface ListenOptions {
  readonly addresses?: readonly string[];
  /** Whether a socket stays open for writing when the other side is done with its half. TLS knows no halves. */
  readonly allowHalfOpen?: boolean;
}

const mostConnections = 4096;

export async function listenEverywhere(
  world: Netns,
  port: number,
  onConnection: (socket: Socket) => void,
  { addresses = ['0.0.0.0', '::'], allowHalfOpen = true }: ListenOptions = {},
): Promise<Listening> {
  const servers: Server[] = [];
  const sockets = new Set<Socket>();
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  };
  try {
    for (const address of addresses) {
      const server = createServer({ allowHalfOpen, noDelay: true }, (socket) => {
        sockets.add(socket);
        // resets are part of the game
        socket.once('close', () => sockets.delete(socket)).on('error', () => socket.destroy());
        onConnection(socket);
      });
      server.maxConnections = mostConnections;
      servers.push(server);
      const listening = once(server, 'listening');
      server.listen({ fd: addon().listenInNetns(world.fd, address, port, 'tcp') });
      await listening;
    }
  } catch (error) {
    await close();
    throw error;
  }
  return { close };
}
