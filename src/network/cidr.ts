/** A block of addresses, in the spelling whose host bits are zero. */
import { type IpAddress, ofBytes, parseIpAddress } from './ip-address.ts';

export interface Cidr {
  readonly text: string;
  readonly family: 4 | 6;
  readonly bytes: readonly number[];
  readonly prefixBits: number;
}

/** @returns undefined for what is no block; a single address is a block of one. Host bits that are not zero are refused. */
export function parseCidr(text: string): Cidr | undefined {
  const [addressText = '', bitsText, ...rest] = text.split('/');
  const address = parseIpAddress(addressText);
  if (address === undefined || rest.length > 0) return undefined;
  const most = address.family === 4 ? 32 : 128;
  if (bitsText !== undefined && !/^(0|[1-9]\d{0,2})$/.test(bitsText)) return undefined;
  // ::ffff:192.0.2.0/24 would count its bits in one family and its bytes in the other
  if (bitsText !== undefined && addressText.includes(':') && address.family === 4) return undefined;
  const prefixBits = bitsText === undefined ? most : Number(bitsText);
  if (prefixBits > most || !hasZeroHostBits(address, prefixBits)) return undefined;
  return { text: `${address.text}/${prefixBits}`, family: address.family, bytes: address.bytes, prefixBits };
}

export function containsAddress(block: Cidr, address: IpAddress): boolean {
  if (block.family !== address.family) return false;
  return samePrefix(block.bytes, address.bytes, block.prefixBits);
}

/** Whether every address of `inner` is in `outer`. */
export function coversCidr(outer: Cidr, inner: Cidr): boolean {
  return inner.prefixBits >= outer.prefixBits && containsAddress(outer, ofBytes(inner.bytes));
}

function samePrefix(a: readonly number[], b: readonly number[], bits: number): boolean {
  const whole = bits >> 3;
  for (let index = 0; index < whole; index++) if (a[index] !== b[index]) return false;
  const rest = bits & 7;
  if (rest === 0) return true;
  const mask = (0xff << (8 - rest)) & 0xff;
  return ((a[whole] ?? 0) & mask) === ((b[whole] ?? 0) & mask);
}

function hasZeroHostBits(address: IpAddress, prefixBits: number): boolean {
  return address.bytes.every((byte, index) => {
    const kept = Math.min(8, Math.max(0, prefixBits - index * 8));
    return (byte & (0xff >> kept)) === 0;
  });
}
