import { isIPv4, isIPv6 } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { embeddedIpv4, ofBytes, parseIpAddress } from './ip-address.ts';

const ipv4 = fc.ipV4();
const bytes16 = fc.array(fc.integer({ min: 0, max: 255 }), { minLength: 16, maxLength: 16 });

describe('an IP address', () => {
  it('is read in its canonical spelling and keeps it', () => {
    for (const text of ['192.0.2.1', '0.0.0.0', '255.255.255.255', '::', '::1', '2001:db8::1', 'fe80::1:0:0:1']) {
      expect(parseIpAddress(text)?.text, text).toBe(text);
    }
  });

  it.each([
    ...['2130706433', '0x7f000001', '0x7f.0.0.1', '0177.0.0.1', '0177.0.0.01', '127.1', '127.0.1', '0', '017700000001'],
    ...['127.0.0.01', '127.0.0.001', '127.0.0.1.', '.127.0.0.1', '127..0.1', '127.0.0.256', '127.0.0.1 ', ' 127.0.0.1'],
    ...[
      '127.0.0.1\n',
      '127.0.0.1\0',
      '127.0.0.１',
      '１２７.0.0.1',
      '127。0。0。1',
      '+127.0.0.1',
      '127.0.0.-1',
      '1e2.0.0.1',
    ],
    ...['', ':', ':::', '::1%lo', 'fe80::1%eth0', 'fe80::1%25eth0', '[::1]', '::1/128', '1:2:3:4:5:6:7', '::g'],
    ...[
      '2001:DB8::1',
      '2001:0db8::1',
      '2001:db8:0:0:0:0:0:1',
      '0:0:0:0:0:0:0:1',
      '::0',
      '::01',
      '0::1',
      '2001:db8::0:1',
    ],
    ...[
      '::ffff:127.1',
      '::ffff:0177.0.0.1',
      '::ffff:0x7f.0.0.1',
      '::ffff:127.0.0.01',
      '::ffff:2130706433',
      '::FFFF:127.0.0.1',
    ],
    ...['0:0:0:0:0:ffff:127.0.0.1', '::127.0.0.1.', '::127.0.0.1:1', '::0.0.0.5'],
  ])('is not read from %j (NX-05)', (text) => {
    expect(parseIpAddress(text)).toBeUndefined();
  });

  it('that is IPv4-mapped is the IPv4 address it carries', () => {
    for (const text of ['::ffff:192.0.2.1', '::ffff:c000:201']) expect(parseIpAddress(text)?.text).toBe('192.0.2.1');
    expect(parseIpAddress('::ffff:192.0.2.1')?.family).toBe(4);
  });

  it('may have its last 32 bits as a dotted quad, as the system writes some', () => {
    expect(parseIpAddress('::192.0.2.1')?.text).toBe('::c000:201');
    expect(parseIpAddress('64:ff9b::192.0.2.1')?.text).toBe('64:ff9b::c000:201');
  });

  it('has one text: it is read from its text and from its bytes alike', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          bytes16,
          bytes16.map((bytes) => bytes.slice(12)),
        ),
        (bytes) => {
          const address = ofBytes(bytes);
          expect(parseIpAddress(address.text)).toEqual(address);
        },
      ),
    );
  });

  it('is written as the URL standard writes it', () => {
    fc.assert(
      fc.property(bytes16, (bytes) => {
        const address = ofBytes(bytes);
        if (address.family === 6) expect(new URL(`http://[${address.text}]`).hostname).toBe(`[${address.text}]`);
      }),
    );
  });

  it('is never read from what Node reads as no address', () => {
    const text = fc.oneof(fc.string({ maxLength: 20 }), fc.stringMatching(/^[0-9a-fx.:%]{1,24}$/));
    fc.assert(
      fc.property(text, (candidate) => {
        const address = parseIpAddress(candidate);
        if (address !== undefined) expect(isIPv4(candidate) || isIPv6(candidate)).toBe(true);
      }),
    );
  });
});

describe('the IPv4 addresses in an IPv6 address', () => {
  const hex = (text: string): string => {
    const [a = 0, b = 0, c = 0, d = 0] = text.split('.').map(Number);
    return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
  };
  const inverted = (text: string): string =>
    text
      .split('.')
      .map((byte) => 255 - Number(byte))
      .join('.');

  it.each([
    ['IPv4-compatible', (inner: string) => `::${hex(inner)}`],
    ['IPv4-translated', (inner: string) => `::ffff:0:${hex(inner)}`],
    ['NAT64', (inner: string) => `64:ff9b::${hex(inner)}`],
    ['local-use NAT64', (inner: string) => `64:ff9b:1::${hex(inner)}`],
    ['6to4', (inner: string) => `2002:${hex(inner)}::1`],
    ['Teredo client', (inner: string) => `2001:0:1:2:3:4:${hex(inverted(inner))}`],
    ['Teredo server', (inner: string) => `2001:0:${hex(inner)}::1`],
    ['ISATAP', (inner: string) => `2001:db8::5efe:${hex(inner)}`],
    ['ISATAP of a global address', (inner: string) => `2001:db8::200:5efe:${hex(inner)}`],
  ])('are found: %s (NX-06)', (_name, wrap) => {
    fc.assert(
      fc.property(ipv4, (inner) => {
        const outer = parseIpAddress(new URL(`http://[${wrap(inner)}]`).hostname.slice(1, -1));
        expect(outer).toBeDefined();
        if (outer !== undefined) expect(embeddedIpv4(outer).map(({ text }) => text)).toContain(inner);
      }),
    );
  });

  it('are none in an IPv4 address and in a usual IPv6 one', () => {
    for (const text of ['192.0.2.1', '2600:1f18::1', '2a00:1450:4001:81b::200e']) {
      const address = parseIpAddress(text);
      expect(address === undefined ? undefined : embeddedIpv4(address), text).toEqual([]);
    }
  });
});
