/**
 * Packets that a netfilter rule logged (nfnetlink_log): asked for with two messages, then read from the same socket. The
 * kernel numbers what it logs, so what was lost on the way is counted. Only headers are taken; see `nfnetlink_log.h`.
 */
import { readSync, writeSync } from 'node:fs';
import { ofBytes } from '../network/ip-address.ts';
import { whenReadable } from './readiness.ts';

export interface LoggedPacket {
  /** `udp`, `icmp`, …, or the number of the protocol. */
  readonly protocol: string;
  /** Where it wanted to go. */
  readonly address: string;
  /** Of UDP and TCP, unless this is a later fragment. */
  readonly port?: number;
}

export interface PacketLogOptions {
  /** One read's packets, and how many were lost before them; at the end perhaps "at least one more". */
  readonly onPackets: (packets: readonly LoggedPacket[], lost: number) => void;
  /** After each read; so a flood costs the daemon a bounded share of its time, and the rest is counted as lost. */
  readonly pauseMs: number;
}

/** Enough for an IPv6 header, a few extension headers and the ports. */
const copiedBytes = 96;
const readBytes = 64 * 1024;

const netlinkHeaderBytes = 16;
const ackFlags = 5;
const configMessage = (4 << 8) | 1;
const packetMessage = 4 << 8;
const attribute = { command: 1, mode: 2, timeout: 4, flags: 6 } as const;
const payloadAttribute = 9;
const sequenceAttribute = 12;

/** What to write to the socket, once each, to have the packets of `group` copied to it. */
export function logRequests(group: number): Buffer[] {
  const mode = Buffer.alloc(6);
  mode.writeUInt32BE(copiedBytes, 0);
  mode[4] = 2;
  return [
    configOf(group, [[attribute.command, Buffer.from([1])]]),
    configOf(group, [
      [attribute.mode, mode],
      // hundredths of a second that a packet may wait for company
      [attribute.timeout, bigEndian32(5)],
      [attribute.flags, Buffer.from([0, 1])],
    ]),
  ];
}

function configOf(group: number, attributes: readonly (readonly [number, Buffer])[]): Buffer {
  const body = Buffer.concat([Buffer.from([0, 0, group >> 8, group & 0xff]), ...attributes.map(attributeOf)]);
  const header = Buffer.alloc(netlinkHeaderBytes);
  header.writeUInt32LE(netlinkHeaderBytes + body.length, 0);
  header.writeUInt16LE(configMessage, 4);
  header.writeUInt16LE(ackFlags, 6);
  return Buffer.concat([header, body]);
}

function attributeOf([type, data]: readonly [number, Buffer]): Buffer {
  const header = Buffer.alloc(4);
  header.writeUInt16LE(4 + data.length, 0);
  header.writeUInt16LE(type, 2);
  return Buffer.concat([header, data, Buffer.alloc(-data.length & 3)]);
}

function bigEndian32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** One read of the socket. A packet that cannot be understood is left out; its sequence number still counts. */
export function readLogged(bytes: Buffer): { readonly packets: LoggedPacket[]; readonly sequences: number[] } {
  const packets: LoggedPacket[] = [];
  const sequences: number[] = [];
  for (const { type, body } of messagesOf(bytes)) {
    if (type !== packetMessage) continue;
    const attributes = attributesOf(body.subarray(4));
    const sequence = attributes.get(sequenceAttribute);
    if (sequence?.length === 4) sequences.push(sequence.readUInt32BE());
    const packet = packetOf(attributes.get(payloadAttribute) ?? Buffer.alloc(0));
    if (packet !== undefined) packets.push(packet);
  }
  return { packets, sequences };
}

function* messagesOf(bytes: Buffer): Generator<{ type: number; body: Buffer }> {
  let rest = bytes;
  while (rest.length >= netlinkHeaderBytes) {
    const length = rest.readUInt32LE(0);
    if (length < netlinkHeaderBytes || length > rest.length) return;
    yield { type: rest.readUInt16LE(4), body: rest.subarray(netlinkHeaderBytes, length) };
    rest = rest.subarray(Math.min(rest.length, (length + 3) & ~3));
  }
}

function attributesOf(bytes: Buffer): Map<number, Buffer> {
  const found = new Map<number, Buffer>();
  let rest = bytes;
  while (rest.length >= 4) {
    const length = rest.readUInt16LE(0);
    if (length < 4 || length > rest.length) break;
    // the upper two bits say "nested" and "network byte order"
    found.set(rest.readUInt16LE(2) & 0x3fff, rest.subarray(4, length));
    rest = rest.subarray(Math.min(rest.length, (length + 3) & ~3));
  }
  return found;
}

const protocolNames: Readonly<Record<number, string>> = {
  1: 'icmp',
  6: 'tcp',
  17: 'udp',
  58: 'icmp6',
  132: 'sctp',
  136: 'udplite',
};
const withPorts: ReadonlySet<number> = new Set([6, 17, 132, 136]);

function packetOf(bytes: Buffer): LoggedPacket | undefined {
  const version = (bytes[0] ?? 0) >> 4;
  if (version === 4 && bytes.length >= 20) return ipv4Packet(bytes);
  if (version === 6 && bytes.length >= 40) return ipv6Packet(bytes);
  return undefined;
}

function ipv4Packet(bytes: Buffer): LoggedPacket {
  const isFirst = (bytes.readUInt16BE(6) & 0x1fff) === 0;
  const transport = bytes.subarray(((bytes[0] ?? 0) & 0x0f) * 4);
  return describe(bytes[9] ?? 0, bytes.subarray(16, 20), isFirst ? transport : Buffer.alloc(0));
}

/** Hop-by-hop, routing and destination headers are stepped over; a fragment is named by what it says it carries. */
function ipv6Packet(bytes: Buffer): LoggedPacket {
  let next = bytes[6] ?? 0;
  let rest = bytes.subarray(40);
  while ((next === 0 || next === 43 || next === 60) && rest.length >= 8) {
    next = rest[0] ?? 0;
    rest = rest.subarray(((rest[1] ?? 0) + 1) * 8);
  }
  if (next === 44 && rest.length >= 8) return describe(rest[0] ?? 0, bytes.subarray(24, 40), Buffer.alloc(0));
  return describe(next, bytes.subarray(24, 40), rest);
}

function describe(protocol: number, destination: Buffer, transport: Buffer): LoggedPacket {
  const named = { protocol: protocolNames[protocol] ?? String(protocol), address: ofBytes([...destination]).text };
  if (!withPorts.has(protocol) || transport.length < 4) return named;
  return { ...named, port: transport.readUInt16BE(2) };
}

/**
 * Reads what the kernel logs until stopped. @param fd of `netfilterInNetns`; stays the caller's to close, after stopping
 * @throws Error as the kernel refuses it
 */
export function followPacketLog(fd: number, group: number, { onPackets, pauseMs }: PacketLogOptions): () => void {
  for (const request of logRequests(group)) writeSync(fd, request);
  const buffer = Buffer.allocUnsafe(readBytes);
  let nextSequence = 0;
  let timer: NodeJS.Timeout | undefined;
  let stopWatching: (() => void) | undefined;
  const arm = (): void => {
    stopWatching = whenReadable(fd, () => {
      stopWatching?.();
      drain();
      timer = setTimeout(arm, pauseMs).unref();
    });
  };
  let isShort = false;
  const drain = (): void => {
    const length = readSome(fd, buffer);
    isShort ||= length === 'overrun';
    if (typeof length !== 'number' || length === 0) return;
    const { packets, sequences } = readLogged(buffer.subarray(0, length));
    const lost = Math.max(0, (sequences[0] ?? nextSequence) - nextSequence);
    nextSequence = (sequences.at(-1) ?? nextSequence - 1) + 1;
    if (lost > 0) isShort = false;
    if (packets.length > 0 || lost > 0) onPackets(packets, lost);
  };
  arm();
  return () => {
    clearTimeout(timer);
    stopWatching?.();
    // how many were lost is told by the number of the next packet, and there is none
    if (isShort) onPackets([], 1);
  };
}

/** `overrun` when the socket's buffer ran over (ENOBUFS): what is in it comes with the next read, what is lost is gone. */
function readSome(fd: number, buffer: Buffer): number | 'overrun' {
  try {
    return readSync(fd, buffer);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // anything but "nothing there" is a read that told nothing: counted as lost, never the end of the daemon
    return code === 'EAGAIN' ? 0 : 'overrun';
  }
}
