import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Cidr, containsAddress, coversCidr, parseCidr } from './cidr.ts';
import { type IpAddress, ofBytes, parseIpAddress } from './ip-address.ts';

const addressOf = (text: string): IpAddress => {
  const address = parseIpAddress(text);
  if (address === undefined) throw new Error(`no address: ${text}`);
  return address;
};
const blockOf = (text: string): Cidr => {
  const block = parseCidr(text);
  if (block === undefined) throw new Error(`no block: ${text}`);
  return block;
};

const byte = fc.integer({ min: 0, max: 255 });
const address = fc
  .oneof(fc.array(byte, { minLength: 4, maxLength: 4 }), fc.array(byte, { minLength: 16, maxLength: 16 }))
  .map(ofBytes);
/** A block that the address is in. */
const around = (inner: IpAddress): fc.Arbitrary<Cidr> =>
  fc.integer({ min: 0, max: inner.bytes.length * 8 }).map((bits) => {
    const bytes = inner.bytes.map(
      (value, index) => value & (0xff00 >> Math.min(8, Math.max(0, bits - index * 8))) & 0xff,
    );
    return blockOf(`${ofBytes(bytes).text}/${bits}`);
  });

describe('a block', () => {
  it.each([
    ['10.0.0.0/8', '10.0.0.0/8'],
    ['192.0.2.1', '192.0.2.1/32'],
    ['192.0.2.1/32', '192.0.2.1/32'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['2001:db8::/32', '2001:db8::/32'],
    ['::1', '::1/128'],
    ['::/0', '::/0'],
  ])('is read from %s', (text, canonical) => {
    expect(parseCidr(text)?.text).toBe(canonical);
  });

  it.each([
    ...[
      '',
      '/',
      '10.0.0.0/',
      '10.0.0.0/33',
      '10.0.0.0/08',
      '10.0.0.0/+8',
      '10.0.0.0/-1',
      '10.0.0.0/8/8',
      '10.0.0.0/8 ',
    ],
    ...[
      '10/8',
      '10.0.0/8',
      '010.0.0.0/8',
      '10.0.0.0/255.0.0.0',
      '10.0.0.0/1e1',
      'example.org/8',
      '::/129',
      '::1%lo/128',
    ],
    ...['10.0.0.1/8', '192.0.2.128/24', '2001:db8::1/32', '2001:DB8::/32', '::ffff:10.0.0.0/104', '::ffff:10.0.0.0/8'],
  ])('is not read from %j', (text) => {
    expect(parseCidr(text)).toBeUndefined();
  });

  it('holds the addresses that begin with its bits, and no others', () => {
    fc.assert(
      fc.property(
        address.chain((inner) => fc.tuple(fc.constant(inner), around(inner), fc.nat())),
        ([inner, block, seed]) => {
          expect(containsAddress(block, inner)).toBe(true);
          if (block.prefixBits === 0) return;
          const flipped = seed % block.prefixBits;
          const other = inner.bytes.map((value, index) =>
            index === flipped >> 3 ? value ^ (0x80 >> (flipped & 7)) : value,
          );
          expect(containsAddress(block, ofBytes(other))).toBe(false);
        },
      ),
    );
  });

  it('holds no address of the other family', () => {
    expect(containsAddress(blockOf('0.0.0.0/0'), addressOf('2001:db8::1'))).toBe(false);
    expect(containsAddress(blockOf('::/0'), addressOf('192.0.2.1'))).toBe(false);
    expect(containsAddress(blockOf('::/0'), addressOf('::ffff:192.0.2.1'))).toBe(false);
  });

  it('covers another when it holds everything that the other holds', () => {
    fc.assert(
      fc.property(
        address.chain((inner) => fc.tuple(around(inner), around(inner))),
        ([a, b]) => {
          expect(coversCidr(a, b)).toBe(a.prefixBits <= b.prefixBits);
        },
      ),
    );
    expect(coversCidr(blockOf('10.0.0.0/8'), blockOf('11.0.0.0/8'))).toBe(false);
    expect(coversCidr(blockOf('0.0.0.0/0'), blockOf('::/0'))).toBe(false);
  });
});
