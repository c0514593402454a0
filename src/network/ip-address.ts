/**
 * IP addresses as values. Text is taken in the canonical spelling only: what one library reads as octal and another as
 * decimal is refused, not interpreted (NX-05). An IPv4-mapped address is the IPv4 address it carries.
 */
import ipaddr from 'ipaddr.js';

export interface IpAddress {
  readonly family: 4 | 6;
  /** Canonical text: dotted quad, or RFC 5952. */
  readonly text: string;
  /** 4 or 16, most significant first. */
  readonly bytes: readonly number[];
}

/** @returns undefined for what is no address, has a zone, or is spelt in another way than the usual one */
export function parseIpAddress(text: string): IpAddress | undefined {
  if (!text.includes(':')) return parseIpv4(text);
  const hexText = hexTail(text);
  if (hexText === undefined || text.includes('%') || !ipaddr.IPv6.isValid(hexText)) return undefined;
  const address = ipaddr.IPv6.parse(hexText);
  return address.toRFC5952String() === hexText ? ofBytes(address.toByteArray()) : undefined;
}

function parseIpv4(text: string): IpAddress | undefined {
  if (!ipaddr.IPv4.isValidFourPartDecimal(text)) return undefined;
  const address = ipaddr.IPv4.parse(text);
  // 01.2.3.4 is octal to some
  return address.toString() === text ? ofBytes(address.toByteArray()) : undefined;
}

/** `::ffff:192.0.2.1`, as the system writes mapped and compatible addresses, with its last 32 bits in hexadecimal. */
function hexTail(text: string): string | undefined {
  const at = text.lastIndexOf(':') + 1;
  if (!text.includes('.')) return text;
  const inner = parseIpv4(text.slice(at));
  if (inner === undefined) return undefined;
  const [a = 0, b = 0, c = 0, d = 0] = inner.bytes;
  return `${text.slice(0, at)}${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
}

/** @param bytes 4 or 16 of them */
export function ofBytes(bytes: readonly number[]): IpAddress {
  const address = ipaddr.fromByteArray([...bytes]);
  if (address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress()) return ofBytes(bytes.slice(12));
  const text = address instanceof ipaddr.IPv6 ? address.toRFC5952String() : address.toString();
  return { family: address.kind() === 'ipv4' ? 4 : 6, text, bytes };
}

/**
 * The IPv4 addresses that an IPv6 address carries for somebody on the way: IPv4-compatible, SIIT (RFC 2765), NAT64 (RFC
 * 6052, RFC 8215), 6to4 (RFC 3056), Teredo (RFC 4380), ISATAP (RFC 5214). A gate that looks at the outer one only is passed
 * (NX-06).
 */
export function embeddedIpv4(address: IpAddress): IpAddress[] {
  if (address.family === 4) return [];
  return embeddings.flatMap(({ prefix, at, from = 0, invert = false }) => {
    if (!prefix.every((byte, index) => address.bytes[from + index] === byte)) return [];
    const inner = address.bytes.slice(at, at + 4);
    return [ofBytes(invert ? inner.map((byte) => byte ^ 0xff) : inner)];
  });
}

interface Embedding {
  readonly prefix: readonly number[];
  /** Where the prefix stands. */
  readonly from?: number;
  readonly at: number;
  readonly invert?: boolean;
}

const zeros = (count: number): number[] => Array.from({ length: count }, () => 0);

const embeddings: readonly Embedding[] = [
  { prefix: zeros(12), at: 12 },
  { prefix: [...zeros(8), 0xff, 0xff, 0, 0], at: 12 },
  { prefix: [0, 0x64, 0xff, 0x9b, ...zeros(8)], at: 12 },
  // a local-use prefix may be shorter than /96 and carry its address elsewhere: special-ranges refuses it as a whole
  { prefix: [0, 0x64, 0xff, 0x9b, 0, 1], at: 12 },
  { prefix: [0x20, 0x02], at: 2 },
  { prefix: [0x20, 0x01, 0, 0], at: 12, invert: true },
  { prefix: [0x20, 0x01, 0, 0], at: 4 },
  { prefix: [0, 0, 0x5e, 0xfe], from: 8, at: 12 },
  { prefix: [2, 0, 0x5e, 0xfe], from: 8, at: 12 },
];
