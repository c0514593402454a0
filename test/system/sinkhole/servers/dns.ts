/**
 * The world's resolver, over UDP and TCP at one address. Its zone is the test's and may change while it runs; every
 * question is told. A name it does not know does not exist.
 */
import { createSocket } from 'node:dgram';
import type { Socket } from 'node:net';
import packet, { type Answer, type Packet, type Question } from 'dns-packet';
import { type Netns, ports, resolverAddress } from '../network.ts';
import type { Recording } from '../recording.ts';
import { type Listening, listenEverywhere } from './everywhere.ts';
import { listenDatagrams } from './plain.ts';

export interface Addresses {
  readonly a?: readonly string[];
  readonly aaaa?: readonly string[];
  /** Another name of the zone, whose addresses are given along. */
  readonly cname?: string;
  readonly ttlSeconds?: number;
}

/** A list rebinds (NX-10): the nth question of a type gets the nth entry, and the last for ever after. */
export type ZoneEntry = Addresses | readonly Addresses[];
export type Zone = Map<string, ZoneEntry>;

export interface SeenQuestion {
  /** As it was spelt. */
  readonly name: string;
  readonly type: string;
  readonly transport: 'udp' | 'tcp';
}

const nameDoesNotExist = 3;
const longestChain = 8;
const longestMessage = 4096;

export async function serveDns(world: Netns, zone: Zone, questions: Recording<SeenQuestion>): Promise<Listening> {
  const counts = new Map<string, number>();
  const reply = (bytes: Buffer, transport: 'udp' | 'tcp'): Buffer | undefined => {
    const query = decoded(bytes);
    if (query === undefined) return undefined;
    for (const { name, type } of query.questions ?? []) questions.add({ name, type, transport });
    return packet.encode(answerTo(query, zone, counts));
  };
  const socket = createSocket('udp4');
  socket.on('message', (bytes, { port, address }) => {
    const answer = reply(bytes, 'udp');
    if (answer !== undefined) socket.send(answer, port, address);
  });
  await listenDatagrams(socket, world, resolverAddress, ports.dns);
  try {
    const serve = (connection: Socket): void => answerFramed(connection, (bytes) => reply(bytes, 'tcp'));
    const streams = await listenEverywhere(world, ports.dns, serve, { addresses: [resolverAddress] });
    return { close: () => Promise.all([closed(socket), streams.close()]).then(() => undefined) };
  } catch (error) {
    socket.close();
    throw error;
  }
}

async function closed(socket: ReturnType<typeof createSocket>): Promise<void> {
  await new Promise<void>((resolve) => socket.close(resolve));
}

function decoded(bytes: Buffer): Packet | undefined {
  try {
    return packet.decode(bytes);
  } catch {
    // what is no DNS message gets no answer; the recorder has it all the same
    return undefined;
  }
}

function answerTo(query: Packet, zone: Zone, counts: Map<string, number>): Packet {
  const questions = query.questions ?? [];
  const [question] = questions;
  const flags = packet.RECURSION_AVAILABLE | packet.RECURSION_DESIRED;
  const head = { type: 'response', id: query.id ?? 0, questions } as const;
  if (question === undefined || !zone.has(keyOf(question.name))) return { ...head, flags: flags | nameDoesNotExist };
  return { ...head, flags, answers: answersOf(question, zone, counts) };
}

function answersOf({ name, type }: Question, zone: Zone, counts: Map<string, number>): Answer[] {
  const answers: Answer[] = [];
  let current = name;
  while (answers.length < longestChain) {
    const { a = [], aaaa = [], cname, ttlSeconds: ttl = 60 } = turnOf(current, type, zone, counts);
    if (cname !== undefined) {
      answers.push({ type: 'CNAME', name: current, ttl, data: cname });
      current = cname;
      continue;
    }
    const data = type === 'A' ? a : type === 'AAAA' ? aaaa : [];
    return [...answers, ...data.map((address) => ({ type: type as 'A', name: current, ttl, data: address }))];
  }
  return answers;
}

function turnOf(name: string, type: string, zone: Zone, counts: Map<string, number>): Addresses {
  const entry = zone.get(keyOf(name)) ?? {};
  if (!isTurns(entry)) return entry;
  const key = `${keyOf(name)} ${type}`;
  const turn = counts.get(key) ?? 0;
  counts.set(key, turn + 1);
  return entry[turn] ?? entry.at(-1) ?? {};
}

function isTurns(entry: ZoneEntry): entry is readonly Addresses[] {
  return Array.isArray(entry);
}

function keyOf(name: string): string {
  return name.toLowerCase().replace(/\.$/, '');
}

/** RFC 7766: each message has its length in two bytes before it. */
function answerFramed(connection: Socket, reply: (bytes: Buffer) => Buffer | undefined): void {
  let buffered = Buffer.alloc(0);
  connection.on('end', () => connection.end());
  connection.on('data', (chunk: Buffer) => {
    buffered = Buffer.concat([buffered, chunk]);
    while (buffered.length >= 2 && buffered.length >= 2 + buffered.readUInt16BE()) {
      const end = 2 + buffered.readUInt16BE();
      const answer = reply(buffered.subarray(2, end));
      buffered = buffered.subarray(end);
      if (answer === undefined) connection.destroy();
      else connection.write(Buffer.concat([Buffer.from([answer.length >> 8, answer.length & 0xff]), answer]));
    }
    if (buffered.length > longestMessage) connection.destroy();
  });
}
