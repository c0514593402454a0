/**
 * Oracle O2, the eye: what left the daemon's namespace, packet by packet. `settle` is the barrier: a datagram of our
 * own goes the same way, and when it has been seen, so has everything that was sent before it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { addon } from '../../../src/linux/addon.ts';
import { type Network, worldDevice } from './network.ts';
import { Recording } from './recording.ts';

export interface Packet {
  /** Absent when it was no IP packet; then `protocol` says what it was. */
  readonly family?: 4 | 6;
  /** `tcp`, `udp`, `icmp`, `icmp6`, or the number. */
  readonly protocol: string;
  readonly source: string;
  readonly address: string;
  readonly sourcePort?: number;
  readonly port?: number;
  readonly icmpType?: number;
  /** Of TCP: false means a segment of a connection that was not seen to begin. */
  readonly isSyn?: boolean;
  readonly bytes: number;
  /** Of UDP to port 53: the name as it was spelt, null when the message has none. */
  readonly question?: string | null;
}

export interface Recorder {
  readonly packets: Recording<Packet>;
  /** @throws Error when the recorder is gone, slow, or had to let a packet go unseen */
  settle(): Promise<void>;
  close(): Promise<void>;
}

interface Marker {
  readonly marker: number;
  readonly lost: number;
}

type Line = Packet | Marker | { readonly ready: true };

const program = fileURLToPath(new URL('./recorder.py', import.meta.url));
const deadlineMs = 10_000;

/** @returns once it sees */
export async function startRecorder(network: Network): Promise<Recorder> {
  const secret = randomBytes(16).toString('hex');
  const words = [`--net=${network.world.path}`, 'setpriv', '--pdeathsig', 'KILL', 'python3', '-B', program];
  const child = spawn('nsenter', [...words, worldDevice, secret], { stdio: ['pipe', 'pipe', 'inherit'] });
  const packets = new Recording<Packet>('packets', 100_000);
  const lines = new Lines(child, child.stdout, packets);
  try {
    await lines.next((line) => 'ready' in line);
    const socket = await socketIn(network);
    return { packets, settle: () => settle(lines, socket, secret), close: () => close(child, socket) };
  } catch (error) {
    await close(child, undefined);
    throw error;
  }
}

/** Sends from where the daemon is. */
async function socketIn(network: Network): Promise<Socket> {
  const socket = createSocket('udp4');
  const bound = once(socket, 'listening');
  socket.bind({ fd: addon().listenInNetns(network.daemon.fd, '0.0.0.0', 0, 'udp') });
  await bound;
  return socket;
}

let lastMarker = 0;

async function settle(lines: Lines, socket: Socket, secret: string): Promise<void> {
  lastMarker += 1;
  const marker = lastMarker;
  const seen = lines.next((line) => 'marker' in line && line.marker === marker);
  // discard: nothing listens there, and the marker is known by its secret
  socket.send(`${secret} ${marker}`, 9, '192.0.2.255');
  const line = await seen;
  if ('lost' in line && line.lost > 0) throw new Error(`O2: ${line.lost} packets went by unseen`);
}

async function close(child: ChildProcess, socket: Socket | undefined): Promise<void> {
  socket?.close();
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

interface Waiter {
  readonly isIt: (line: Line) => boolean;
  readonly resolve: (line: Line) => void;
  readonly reject: (error: Error) => void;
}

/** What the program says: packets are kept, the rest goes to whoever waits for it. */
class Lines {
  readonly #waiters = new Set<Waiter>();
  #end: Error | undefined;

  constructor(child: ChildProcess, stdout: Readable, packets: Recording<Packet>) {
    createInterface({ input: stdout }).on('line', (text) => {
      const line = JSON.parse(text) as Line;
      if ('protocol' in line) packets.add(line);
      else for (const waiter of this.#waiters) if (waiter.isIt(line)) waiter.resolve(line);
    });
    child.once('error', (error) => this.#fail(error));
    child.once('exit', (status, signal) => this.#fail(new Error(`O2: the recorder ended: ${status ?? signal}`)));
  }

  #fail(error: Error): void {
    this.#end ??= error;
    for (const waiter of this.#waiters) waiter.reject(error);
  }

  async next(isIt: Waiter['isIt']): Promise<Line> {
    if (this.#end !== undefined) throw this.#end;
    let waiter: Waiter | undefined;
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise<Line>((resolve, reject) => {
        waiter = { isIt, resolve, reject };
        this.#waiters.add(waiter);
        timer = setTimeout(() => reject(new Error(`O2: the recorder was silent for ${deadlineMs} ms`)), deadlineMs);
      });
    } finally {
      clearTimeout(timer);
      if (waiter !== undefined) this.#waiters.delete(waiter);
    }
  }
}
