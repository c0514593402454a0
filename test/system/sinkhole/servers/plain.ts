/** The plainest services: a TCP echo, a protocol in which the server speaks first, and a UDP echo. */
import { createSocket, type Socket as DatagramSocket } from 'node:dgram';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { addon } from '../../../../src/linux/addon.ts';
import { type Netns, ports } from '../network.ts';
import { type Listening, listenEverywhere } from './everywhere.ts';

export const banner = '220 sinkhole.example ready\r\n';

/** Every TCP port that nothing else listens on comes here. */
export function serveEcho(world: Netns): Promise<Listening> {
  return listenEverywhere(world, ports.echo, (socket) => socket.pipe(socket));
}

/** Greets before it is spoken to, then echoes. */
export function serveBanner(world: Netns): Promise<Listening> {
  return listenEverywhere(world, ports.banner, (socket: Socket) => {
    socket.write(banner);
    socket.pipe(socket);
  });
}

/** Port 443 comes here too, as QUIC would. */
export async function serveDatagrams(world: Netns): Promise<Listening> {
  const sockets: DatagramSocket[] = [];
  for (const [type, address] of [
    ['udp4', '0.0.0.0'],
    ['udp6', '::'],
  ] as const) {
    const socket = createSocket(type);
    sockets.push(socket);
    socket.on('message', (data, { port, address: from }) => socket.send(data, port, from));
    await listenDatagrams(socket, world, address, ports.datagram);
  }
  return { close: async () => sockets.forEach((socket) => void socket.close()) };
}

export async function listenDatagrams(socket: DatagramSocket, { fd }: Netns, address: string, port: number) {
  const listening = once(socket, 'listening');
  socket.bind({ fd: addon().listenInNetns(fd, address, port, 'udp') });
  await listening;
}
