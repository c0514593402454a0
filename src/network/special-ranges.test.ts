import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Cidr, containsAddress, parseCidr } from './cidr.ts';
import { type HostName, parseHostName } from './host-name.ts';
import { type IpAddress, ofBytes, parseIpAddress } from './ip-address.ts';
import { isMetadata, isMetadataHost } from './metadata.ts';
import { isSpecial, rangeOf, specialRanges } from './special-ranges.ts';

const addressOf = (text: string): IpAddress => {
  const address = parseIpAddress(text);
  if (address === undefined) throw new Error(`no address: ${text}`);
  return address;
};
const hostOf = (text: string): HostName => {
  const host = parseHostName(text);
  if (host === undefined) throw new Error(`no host: ${text}`);
  return host;
};
const bytes = (length: number): fc.Arbitrary<number[]> =>
  fc.array(fc.integer({ min: 0, max: 255 }), { minLength: length, maxLength: length });
const within = (block: Cidr): fc.Arbitrary<IpAddress> =>
  bytes(block.bytes.length).map((random) =>
    ofBytes(
      random.map((byte, index) => {
        const free = 0xff >> Math.min(8, Math.max(0, block.prefixBits - index * 8));
        return (block.bytes[index] ?? 0) | (byte & free);
      }),
    ),
  );

describe('the special ranges', () => {
  it('are blocks in canonical spelling, each with a name and a source', () => {
    for (const { block, name, source } of specialRanges) {
      expect(parseCidr(block)?.text).toBe(block);
      expect(name).toMatch(/^(an?|the) /);
      expect(source).toMatch(/^RFC \d+$/);
    }
  });

  it('hold every address of their blocks, and a narrower block is found before a wider one', () => {
    for (const { block } of specialRanges) {
      const cidr = parseCidr(block);
      if (cidr === undefined) throw new Error(block);
      fc.assert(
        fc.property(within(cidr), (address) => {
          if (address.family !== cidr.family) return;
          const found = rangeOf(address);
          if (found === undefined) return expect(containsAddress(nat64, address)).toBe(true);
          expect(parseCidr(found.block)?.prefixBits).toBeGreaterThanOrEqual(cidr.prefixBits);
        }),
        { numRuns: 30 },
      );
    }
  });

  it.each([
    ['0.0.0.0', 'the unspecified address'],
    ['0.1.2.3', 'an address of "this network"'],
    ['10.0.2.2', 'a private address'],
    ['100.64.0.1', 'a carrier-grade NAT address'],
    ['127.0.0.1', 'a loopback address'],
    ['127.255.255.255', 'a loopback address'],
    ['169.254.1.1', 'a link-local address'],
    ['172.31.255.255', 'a private address'],
    ['192.0.0.9', 'an address of the IETF protocol assignments'],
    ['192.0.2.1', 'a documentation address'],
    ['192.168.1.1', 'a private address'],
    ['198.19.255.255', 'a benchmarking address'],
    ['224.0.0.1', 'a multicast address'],
    ['240.0.0.1', 'a reserved address'],
    ['255.255.255.255', 'the broadcast address'],
    ['::', 'the unspecified address'],
    ['::1', 'the loopback address'],
    ['::ffff:127.0.0.1', 'a loopback address'],
    ['::127.0.0.1', 'an IPv4-compatible address'],
    ['::ffff:0:7f00:1', 'an IPv4-translated address'],
    ['64:ff9b::7f00:1', 'a loopback address'],
    ['64:ff9b:1::1', 'a local-use NAT64 address'],
    ['64:ff9b:1:a00:1::', 'a local-use NAT64 address'],
    ['2001:0:5ef5:79fb::1', 'a Teredo address'],
    ['2001:db8::1', 'a documentation address'],
    ['2002:7f00:1::', 'a 6to4 address'],
    ['2600:1f18::5efe:a00:1', 'a private address'],
    ['3fff::1', 'a documentation address'],
    ['5f00::1', 'a segment identifier'],
    ['fd12:3456::1', 'a unique local address'],
    ['fe80::1', 'a link-local address'],
    ['fec0::1', 'a site-local address'],
    ['ff02::1', 'a multicast address'],
    ['4000::1', 'an address outside of global unicast'],
    ['1fff::1', 'an address outside of global unicast'],
  ])('hold %s: %s (NX-06, NX-08)', (text, name) => {
    expect(isSpecial(addressOf(text))?.name).toBe(name);
  });

  it.each([
    ...[
      '1.1.1.1',
      '9.255.255.255',
      '11.0.0.0',
      '100.63.255.255',
      '100.128.0.0',
      '126.255.255.255',
      '128.0.0.0',
      '169.253.255.255',
    ],
    ...[
      '172.15.255.255',
      '172.32.0.0',
      '192.0.1.0',
      '192.167.255.255',
      '192.169.0.0',
      '198.17.255.255',
      '198.20.0.0',
      '223.255.255.255',
    ],
    ...[
      '2600:1f18::1',
      '2a00:1450:4001:81b::200e',
      '2001:200::1',
      '2001:4860:4860::8888',
      '2003::1',
      '64:ff9b::808:808',
    ],
  ])('leave %s alone', (text) => {
    expect(isSpecial(addressOf(text))).toBeUndefined();
  });

  it('hold every IPv6 address but global unicast and what NAT64 makes of public IPv4', () => {
    fc.assert(
      fc.property(bytes(16), (random) => {
        const address = ofBytes(random);
        const isGlobal = ((random[0] ?? 0) & 0xe0) === 0x20;
        if (address.family === 6 && !isGlobal && !containsAddress(nat64, address))
          expect(isSpecial(address)).toBeDefined();
      }),
    );
  });

  it('hold what NAT64 makes of an IPv4 address exactly when they hold that', () => {
    fc.assert(
      fc.property(bytes(4), (inner) => {
        const outer = ofBytes([0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, ...inner]);
        expect(isSpecial(outer)).toEqual(isSpecial(ofBytes(inner)));
      }),
    );
  });
});

const nat64 = parseCidr('64:ff9b::/96') as Cidr;

describe('metadata services', () => {
  it.each([
    ...[
      '169.254.169.254',
      'fd00:ec2::254',
      '100.100.100.200',
      '168.63.129.16',
      '192.0.0.192',
      'fd20:ce::254',
      '169.254.170.2',
    ],
    ...[
      '169.254.170.23',
      'fd00:ec2::23',
      '169.254.0.23',
      '169.254.42.42',
      'fd00:42::42',
      'fe80::a9fe:a9fe',
      'fd00:c1::a9fe:a9fe',
    ],
    ...[
      '::ffff:169.254.169.254',
      '::169.254.169.254',
      '64:ff9b::a9fe:a9fe',
      '64:ff9b:1::a9fe:a9fe',
      '2002:a9fe:a9fe::',
    ],
    ...['64:ff9b::a83f:8110', '2600:1f18::5efe:a9fe:a9fe', '2001:0:a9fe:a9fe::1'],
  ])('are known at %s (NX-07)', (text) => {
    expect(isMetadata(addressOf(text))).toBe(true);
  });

  it('are not their neighbours', () => {
    for (const text of ['169.254.169.255', '168.63.129.17', '100.100.100.201', 'fd00:ec2::255', '8.8.8.8']) {
      expect(isMetadata(addressOf(text)), text).toBe(false);
    }
  });

  it.each([
    ...[
      'metadata.google.internal',
      'METADATA.Google.Internal.',
      'metadata',
      'instance-data',
      'instance-data.ec2.internal',
    ],
    ...[
      'metadata.tencentyun.com',
      'api.metadata.cloud.ibm.com',
      'metadata.goog',
      'a.metadata.google.internal',
      'v1.metadata.goog',
    ],
  ])('are known by the name %s', (text) => {
    expect(isMetadataHost(hostOf(text))).toBe(true);
  });

  it('are not names that only look alike', () => {
    for (const text of ['google.internal', 'xmetadata.goog', 'metadata.goog.example', 'metadata.example', 'goog']) {
      expect(isMetadataHost(hostOf(text)), text).toBe(false);
    }
  });
});
