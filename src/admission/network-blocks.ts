/** What a block of addresses is, seen as a whole: private, or a metadata service's. Single addresses are judged again when they are dialled. */
import { type Cidr, coversCidr, parseCidr } from '../network/cidr.ts';
import { type IpAddress, ofBytes } from '../network/ip-address.ts';
import { isMetadata } from '../network/metadata.ts';
import { isSpecial, rangeOf, type SpecialRange, specialRanges } from '../network/special-ranges.ts';

/** The special range that the whole block lies in, or that every address in it carries one of (NX-06). */
export function specialRangeOf(block: Cidr): SpecialRange | undefined {
  const [first, last] = [ofBytes(block.bytes), lastOf(block)];
  const outer = rangeOf(first) === undefined ? undefined : specialRanges.find((range) => isWithin(block, range));
  if (outer !== undefined) return outer;
  const [ofFirst, ofLast] = [isSpecial(first), isSpecial(last)];
  return ofFirst?.block === ofLast?.block ? ofFirst : undefined;
}

function isWithin(block: Cidr, range: SpecialRange): boolean {
  const outer = parseCidr(range.block);
  return outer !== undefined && coversCidr(outer, block);
}

/** Of at most so many addresses, a metadata service's is what is meant. */
const fewAddressBits = 4;

/** Whether the block is small and has the address of a metadata service. In a wider one that address stays shut. */
export function isMetadataBlock(block: Cidr): boolean {
  const hostBits = block.bytes.length * 8 - block.prefixBits;
  if (hostBits > fewAddressBits) return false;
  return Array.from({ length: 1 << hostBits }, (_, offset) => addressAt(block, offset)).some(isMetadata);
}

function addressAt({ bytes }: Cidr, offset: number): IpAddress {
  return ofBytes(bytes.map((byte, index) => (index === bytes.length - 1 ? byte + offset : byte)));
}

function lastOf({ bytes, prefixBits }: Cidr): IpAddress {
  return ofBytes(
    bytes.map((byte, index) => {
      const kept = Math.min(8, Math.max(0, prefixBits - index * 8));
      return byte | (0xff >> kept);
    }),
  );
}
