/**
 * Takes the first handshake message of a connection out of its records (RFC 8446 section 5.1): however it was cut into
 * records and segments, it is one message here. While it is incomplete only the headers of its records are looked at, at
 * most 64 of them, and nothing is copied; so it costs little to ask again after each segment.
 */
export type FirstMessage =
  | { readonly kind: 'incomplete'; readonly needBytes: number }
  | { readonly kind: 'not-tls' }
  | { readonly kind: 'malformed'; readonly reason: string }
  /** The message without its type and length. */
  | { readonly kind: 'message'; readonly body: Buffer };

const handshakeRecord = 22;
const clientHello = 1;
const recordHeader = 5;
const messageHeader = 4;
const recordBytes = 2 ** 14;
const mostRecords = 64;
/** With its header. What real clients send is below 4 KiB; a post-quantum key share or a long ticket adds a few. */
const messageBytes = 64 * 1024;

/** @param bytes everything since the connection began */
export function firstMessage(bytes: Buffer): FirstMessage {
  if (bytes.length === 0) return incomplete(recordHeader);
  if (bytes[0] !== handshakeRecord) return withoutRecords(bytes);
  if (bytes.length > 1 && bytes[1] !== 3) return { kind: 'not-tls' };
  const fragments: Buffer[] = [];
  let at = 0;
  let gathered = 0;
  for (let count = 0; count < mostRecords; count++) {
    const record = recordAt(bytes, at);
    if (record.kind === 'malformed') return record;
    fragments.push(record.fragment);
    gathered += record.fragment.length;
    const message = messageOf(fragments, gathered);
    if (message !== undefined) return message;
    if (record.kind === 'incomplete') return incomplete(record.needBytes);
    at = record.end;
  }
  return malformed(`the first message is in more than ${mostRecords} records`);
}

type RecordAt =
  | { readonly kind: 'malformed'; readonly reason: string }
  /** What has come of the fragment is there already. */
  | { readonly kind: 'incomplete'; readonly needBytes: number; readonly fragment: Buffer }
  | { readonly kind: 'whole'; readonly fragment: Buffer; readonly end: number };

function recordAt(bytes: Buffer, at: number): RecordAt {
  const [type = handshakeRecord, major = 3, minor = 1] = bytes.subarray(at, at + 3);
  if (type !== handshakeRecord) return malformed(`a record of type ${type} within the first message`);
  if (major !== 3 || minor < 1 || minor > 4) return malformed(`a record of version ${major}.${minor}`);
  const start = at + recordHeader;
  if (bytes.length < start) return { ...incomplete(start), fragment: bytes.subarray(0, 0) };
  const length = bytes.readUInt16BE(at + 3);
  if (length === 0 || length > recordBytes) return malformed(`a record of ${length} bytes`);
  const end = start + length;
  const fragment = bytes.subarray(start, end);
  return bytes.length < end ? { ...incomplete(end), fragment } : { kind: 'whole', fragment, end };
}

/** @returns undefined while the message is incomplete and nothing in it is wrong */
function messageOf(fragments: readonly Buffer[], gathered: number): FirstMessage | undefined {
  const header = leading(fragments, messageHeader);
  if (header.length > 0 && header[0] !== clientHello) return malformed('the first message is no ClientHello');
  if (header.length < messageHeader) return undefined;
  const length = messageHeader + header.readUIntBE(1, 3);
  if (length > messageBytes) return malformed(`a ClientHello of ${length} bytes`);
  if (gathered < length) return undefined;
  // RFC 8446 section 5.1: a message before a change of keys ends with its record
  if (gathered > length) return malformed('more follows the ClientHello in its record');
  return { kind: 'message', body: Buffer.concat(fragments).subarray(messageHeader) };
}

function leading(fragments: readonly Buffer[], length: number): Buffer {
  const [first = Buffer.alloc(0)] = fragments;
  if (first.length >= length) return first.subarray(0, length);
  return Buffer.concat(fragments.slice(0, length)).subarray(0, length);
}

/** SSLv2 had another header and a hello of its own; a server that still takes it would take it past us. */
function withoutRecords(bytes: Buffer): FirstMessage {
  const [first = 0, , type = clientHello, major = 3] = bytes;
  const maybeOld = first >= 0x80 && type === clientHello && (major === 0 || major === 3);
  if (!maybeOld) return { kind: 'not-tls' };
  return bytes.length < 4 ? incomplete(4) : malformed('an SSLv2 hello');
}

function incomplete(needBytes: number): { readonly kind: 'incomplete'; readonly needBytes: number } {
  return { kind: 'incomplete', needBytes };
}

function malformed(reason: string): { readonly kind: 'malformed'; readonly reason: string } {
  return { kind: 'malformed', reason };
}
