/**
 * The answer to one DNS message of the sandbox's, as a pure function. Names that may be reached get their synthetic address,
 * others do not exist; no record type carries anything else, so no question or answer can smuggle bytes past us.
 */
import dnsPacket from 'dns-packet';
import { type HostName, parseHostName } from '../../network/host-name.ts';
import type { IpAddress } from '../../network/ip-address.ts';
import { printable } from '../records.ts';

export interface Question {
  /** Absent when what was asked for is no host name. */
  readonly host?: HostName;
  /** The name as it was sent, printable. */
  readonly name: string;
  readonly type: string;
}

/** `address`: it may be reached. `refused`: for this sandbox it does not exist. `full`: it may, but no address is left. */
export type NameAnswer =
  | { readonly kind: 'address'; readonly address: IpAddress }
  | { readonly kind: 'refused' }
  | { readonly kind: 'full' };

export type DnsAnswer =
  | { readonly kind: 'answer'; readonly bytes: Buffer; readonly question?: Question }
  /** Not even an identifier to answer to. */
  | { readonly kind: 'none' };

/** A connection ends soon after; there is no gain in asking often, and none in keeping it past a change of phase. */
const ttlSeconds = 30;
const headerBytes = 12;
const rcode = { ok: 0, formError: 1, serverFailure: 2, noName: 3, notImplemented: 4 } as const;

const loopback: ReadonlySet<string> = new Set(['localhost']);

/** @param judge asked once, for a question of class IN about a host name */
export function answerDns(message: Buffer, judge: (question: Question & { host: HostName }) => NameAnswer): DnsAnswer {
  if (message.length < headerBytes) return { kind: 'none' };
  const flags = message.readUInt16BE(2);
  // an answer is not answered: two resolvers would talk for ever
  if ((flags & 0x8000) !== 0) return { kind: 'none' };
  if (((flags >> 11) & 15) !== 0) return { kind: 'answer', bytes: failure(message, rcode.notImplemented) };
  const asked = readQuestion(message);
  if (asked === undefined) return { kind: 'answer', bytes: failure(message, rcode.formError) };
  const question = questionOf(asked);
  // its own affair, like connections to it
  if (loopback.has(question.host ?? '')) {
    return { kind: 'answer', bytes: encode(message, asked, rcode.ok, loopbackAnswers(asked, question.type)) };
  }
  return { kind: 'answer', question, bytes: answerTo(message, asked, question, judge) };
}

type Asked = { readonly name: string; readonly type: string; readonly class?: string };

function answerTo(
  message: Buffer,
  asked: Asked,
  question: Question,
  judge: (question: Question & { host: HostName }) => NameAnswer,
): Buffer {
  const { host, type } = question;
  if (host === undefined || asked.class !== 'IN') return encode(message, asked, rcode.noName, []);
  const answer = judge({ ...question, host });
  if (answer.kind === 'refused') return encode(message, asked, rcode.noName, []);
  if (answer.kind === 'full') return encode(message, asked, rcode.serverFailure, []);
  if (type !== 'A') return encode(message, asked, rcode.ok, []);
  return encode(message, asked, rcode.ok, [{ name: asked.name, type, ttl: ttlSeconds, data: answer.address.text }]);
}

function loopbackAnswers({ name }: Asked, type: string): DnsRecord[] {
  if (type === 'A') return [{ name, type, ttl: ttlSeconds, data: '127.0.0.1' }];
  return type === 'AAAA' ? [{ name, type, ttl: ttlSeconds, data: '::1' }] : [];
}

/** Exactly one, and nothing unreadable in it. */
function readQuestion(message: Buffer): Asked | undefined {
  if (message.readUInt16BE(4) !== 1) return undefined;
  try {
    // the library reads all sections; only the question is of interest, and the rest may hold anything
    const alone = Buffer.from(message);
    alone.fill(0, 6, headerBytes);
    const [question] = dnsPacket.decode(alone).questions ?? [];
    return question === undefined ? undefined : (question as Asked);
  } catch {
    return undefined;
  }
}

function questionOf({ name, type }: Asked): Question {
  const host = parseHostName(name);
  return { name: printable(name), type: printable(type), ...(host === undefined ? {} : { host }) };
}

interface DnsRecord {
  readonly name: string;
  readonly type: 'A' | 'AAAA';
  readonly ttl: number;
  readonly data: string;
}

/** The question goes back as its own bytes: clients compare them, case included (0x20 hardening). */
function encode(message: Buffer, asked: Asked, code: number, answers: readonly DnsRecord[]): Buffer {
  try {
    return dnsPacket.encode({
      type: 'response',
      id: message.readUInt16BE(0),
      flags: flagsOf(message, code),
      questions: [asked as dnsPacket.Question],
      answers: answers as dnsPacket.Answer[],
    });
  } catch {
    // a name that could be read and not written, such as a label with a dot in it
    return failure(message, rcode.formError);
  }
}

/** Recursion is "available", and desired if it was. */
function flagsOf(message: Buffer, code: number): number {
  return (message.readUInt16BE(2) & 0x0100) | 0x0080 | code;
}

function failure(message: Buffer, code: number): Buffer {
  const header = Buffer.alloc(headerBytes);
  header.writeUInt16BE(message.readUInt16BE(0), 0);
  header.writeUInt16BE(0x8000 | flagsOf(message, code), 2);
  return header;
}
