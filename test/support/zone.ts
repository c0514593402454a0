/** A resolver of the test's own on loopback. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import dnsPacket from 'dns-packet';

/** name → addresses; what is not in it does not exist. */
export type Zone = Readonly<Record<string, readonly string[]>>;

/** @param questions filled with what it was asked */
export async function serveZone(
  zone: Zone,
  questions: string[] = [],
): Promise<{ port: number; close: () => Promise<void> }> {
  const socket = createSocket('udp4');
  socket.on('message', (message, from) => {
    const { id, questions: asked = [] } = dnsPacket.decode(message);
    const [question] = asked;
    if (question === undefined || id === undefined) return;
    questions.push(`${question.name} ${question.type}`);
    const family = question.type === 'AAAA' ? 6 : 4;
    const known = zone[question.name.toLowerCase()];
    const addresses = (known ?? []).filter((text) => text.includes(':') === (family === 6));
    const answers = addresses.map(
      (data) => ({ name: question.name, type: family === 6 ? 'AAAA' : 'A', ttl: 0, data }) as const,
    );
    const flags = 0x0180 | (known === undefined ? 3 : 0);
    socket.send(
      dnsPacket.encode({ type: 'response', id, flags, questions: [question], answers }),
      from.port,
      from.address,
    );
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return {
    port: socket.address().port,
    close: () => new Promise((resolve) => socket.close(() => resolve())),
  };
}
