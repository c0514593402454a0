/**
 * What is never reached unless a rule names it with `private: true`: every block that the IANA special-purpose registries
 * do not hand out to hosts of the public Internet (RFC 6890, RFC 8190, and the registries since). An IPv6 address is what
 * it is and what it carries: one of its IPv4 addresses being special is enough (NX-06, NX-08).
 */
import { type Cidr, containsAddress, parseCidr } from './cidr.ts';
import { embeddedIpv4, type IpAddress } from './ip-address.ts';

export interface SpecialRange {
  readonly block: string;
  /** As a sentence would name an address of it: "a loopback address". */
  readonly name: string;
  /** The document that gives the block its meaning. */
  readonly source: string;
  /** Connecting to it is connecting to the host itself. */
  readonly isHost?: boolean;
}

/** The narrower block stands before the wider one: the first that holds an address names it. */
export const specialRanges: readonly SpecialRange[] = [
  { block: '0.0.0.0/32', name: 'the unspecified address', source: 'RFC 1122', isHost: true },
  { block: '0.0.0.0/8', name: 'an address of "this network"', source: 'RFC 791', isHost: true },
  { block: '10.0.0.0/8', name: 'a private address', source: 'RFC 1918' },
  { block: '100.64.0.0/10', name: 'a carrier-grade NAT address', source: 'RFC 6598' },
  { block: '127.0.0.0/8', name: 'a loopback address', source: 'RFC 1122', isHost: true },
  { block: '169.254.0.0/16', name: 'a link-local address', source: 'RFC 3927' },
  { block: '172.16.0.0/12', name: 'a private address', source: 'RFC 1918' },
  { block: '192.0.0.0/24', name: 'an address of the IETF protocol assignments', source: 'RFC 6890' },
  { block: '192.0.2.0/24', name: 'a documentation address', source: 'RFC 5737' },
  { block: '192.31.196.0/24', name: 'an AS112 address', source: 'RFC 7535' },
  { block: '192.52.193.0/24', name: 'an AMT relay address', source: 'RFC 7450' },
  { block: '192.88.99.0/24', name: 'a 6to4 relay address', source: 'RFC 7526' },
  { block: '192.168.0.0/16', name: 'a private address', source: 'RFC 1918' },
  { block: '192.175.48.0/24', name: 'an AS112 address', source: 'RFC 7534' },
  // the addresses that our own resolver gives to names are of this block
  { block: '198.18.0.0/15', name: 'a benchmarking address', source: 'RFC 2544' },
  { block: '198.51.100.0/24', name: 'a documentation address', source: 'RFC 5737' },
  { block: '203.0.113.0/24', name: 'a documentation address', source: 'RFC 5737' },
  { block: '224.0.0.0/4', name: 'a multicast address', source: 'RFC 5771' },
  { block: '255.255.255.255/32', name: 'the broadcast address', source: 'RFC 919' },
  { block: '240.0.0.0/4', name: 'a reserved address', source: 'RFC 1112' },

  { block: '::/128', name: 'the unspecified address', source: 'RFC 4291', isHost: true },
  { block: '::1/128', name: 'the loopback address', source: 'RFC 4291', isHost: true },
  { block: '::/96', name: 'an IPv4-compatible address', source: 'RFC 4291' },
  { block: '::ffff:0:0:0/96', name: 'an IPv4-translated address', source: 'RFC 2765' },
  { block: '64:ff9b:1::/48', name: 'a local-use NAT64 address', source: 'RFC 8215' },
  { block: '100::/64', name: 'a discard address', source: 'RFC 6666' },
  { block: '100:0:0:1::/64', name: 'a dummy address', source: 'RFC 9780' },
  { block: '2001::/32', name: 'a Teredo address', source: 'RFC 4380' },
  { block: '2001:2::/48', name: 'a benchmarking address', source: 'RFC 5180' },
  { block: '2001:10::/28', name: 'an ORCHID', source: 'RFC 4843' },
  { block: '2001:20::/28', name: 'an ORCHID', source: 'RFC 7343' },
  { block: '2001::/23', name: 'an address of the IETF protocol assignments', source: 'RFC 2928' },
  { block: '2001:db8::/32', name: 'a documentation address', source: 'RFC 3849' },
  { block: '2002::/16', name: 'a 6to4 address', source: 'RFC 3056' },
  { block: '2620:4f:8000::/48', name: 'an AS112 address', source: 'RFC 7534' },
  { block: '3ffe::/16', name: 'a 6bone address', source: 'RFC 3701' },
  { block: '3fff::/20', name: 'a documentation address', source: 'RFC 9637' },
  { block: '5f00::/16', name: 'a segment identifier', source: 'RFC 9602' },
  { block: 'fc00::/7', name: 'a unique local address', source: 'RFC 4193' },
  { block: 'fe80::/10', name: 'a link-local address', source: 'RFC 4291' },
  { block: 'fec0::/10', name: 'a site-local address', source: 'RFC 3879' },
  { block: 'ff00::/8', name: 'a multicast address', source: 'RFC 4291' },
  // all but 2000::/3
  { block: '::/3', name: 'an address outside of global unicast', source: 'RFC 4291' },
  { block: '4000::/2', name: 'an address outside of global unicast', source: 'RFC 4291' },
  { block: '8000::/1', name: 'an address outside of global unicast', source: 'RFC 4291' },
];

interface CompiledRange {
  readonly range: SpecialRange;
  readonly cidr: Cidr;
}

const compiled = specialRanges.map((range): CompiledRange => {
  const cidr = parseCidr(range.block);
  if (cidr === undefined) throw new Error(`no block: ${range.block}`);
  return { range, cidr };
});
const byFamily = {
  4: compiled.filter(({ cidr }) => cidr.family === 4),
  6: compiled.filter(({ cidr }) => cidr.family === 6),
} as const;

/** Where a network has no IPv4 of its own, names resolve to these: the IPv4 address inside says what one is (RFC 6052). */
const wellKnownNat64 = parseCidr('64:ff9b::/96');

/** The first block that holds the address or one that it carries; undefined for a host of the public Internet. */
export function isSpecial(address: IpAddress): SpecialRange | undefined {
  for (const face of facesOf(address)) {
    const range = rangeOf(face);
    if (range !== undefined) return range;
  }
  return undefined;
}

/** The address as it stands, without what it carries. */
export function rangeOf(address: IpAddress): SpecialRange | undefined {
  if (wellKnownNat64 !== undefined && containsAddress(wellKnownNat64, address)) return undefined;
  return byFamily[address.family].find(({ cidr }) => containsAddress(cidr, address))?.range;
}

/** The address, and every IPv4 address in it. */
export function facesOf(address: IpAddress): readonly IpAddress[] {
  return address.family === 4 ? [address] : [address, ...embeddedIpv4(address)];
}
