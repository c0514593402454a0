import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { logRequests, readLogged } from './netfilter-log.ts';

function attribute(type: number, data: Buffer): Buffer {
  const header = Buffer.alloc(4);
  header.writeUInt16LE(4 + data.length, 0);
  header.writeUInt16LE(type, 2);
  return Buffer.concat([header, data, Buffer.alloc(-data.length & 3)]);
}

/** As the kernel sends it: header, family and group, the payload, the sequence number. */
function logged(payload: Buffer, sequence: number): Buffer {
  const number = Buffer.alloc(4);
  number.writeUInt32BE(sequence);
  const body = Buffer.concat([Buffer.from([2, 0, 0, 7]), attribute(9, payload), attribute(12, number)]);
  const header = Buffer.alloc(16);
  header.writeUInt32LE(16 + body.length, 0);
  header.writeUInt16LE(4 << 8, 4);
  return Buffer.concat([header, body]);
}

function ipv4(protocol: number, to: readonly number[], transport: readonly number[], fragment = 0): Buffer {
  const head = Buffer.alloc(20);
  head[0] = 0x45;
  head.writeUInt16BE(fragment, 6);
  head[9] = protocol;
  Buffer.from(to).copy(head, 16);
  return Buffer.concat([head, Buffer.from(transport)]);
}

function ipv6(next: number, to: readonly number[], rest: readonly number[]): Buffer {
  const head = Buffer.alloc(40);
  head[0] = 0x60;
  head[6] = next;
  Buffer.from(to).copy(head, 24);
  return Buffer.concat([head, Buffer.from(rest)]);
}

const documentation = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

describe('a logged packet', () => {
  it.each([
    ['UDP', ipv4(17, [192, 0, 2, 1], [0, 1, 1, 187]), { protocol: 'udp', address: '192.0.2.1', port: 443 }],
    [
      'a later fragment, which has no ports',
      ipv4(17, [192, 0, 2, 1], [9, 9, 9, 9], 185),
      { protocol: 'udp', address: '192.0.2.1' },
    ],
    ['ICMP', ipv4(1, [192, 0, 2, 1], [8, 0]), { protocol: 'icmp', address: '192.0.2.1' }],
    ['a protocol without a name', ipv4(47, [192, 0, 2, 1], []), { protocol: '47', address: '192.0.2.1' }],
    ['UDP over IPv6', ipv6(17, documentation, [0, 1, 0, 53]), { protocol: 'udp', address: '2001:db8::1', port: 53 }],
    [
      'UDP behind a hop-by-hop header',
      ipv6(0, documentation, [17, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 9]),
      { protocol: 'udp', address: '2001:db8::1', port: 9 },
    ],
    [
      'a fragment over IPv6',
      ipv6(44, documentation, [17, 0, 0, 8, 0, 0, 0, 1]),
      { protocol: 'udp', address: '2001:db8::1' },
    ],
  ])('of %s says where it wanted to go', (_name, payload, expected) => {
    expect(readLogged(logged(payload, 5))).toEqual({ packets: [expected], sequences: [5] });
  });

  it('comes with others in one read', () => {
    const one = logged(ipv4(17, [192, 0, 2, 1], [0, 1, 0, 9]), 1);
    const two = logged(ipv4(17, [192, 0, 2, 2], [0, 1, 0, 9]), 2);
    expect(readLogged(Buffer.concat([one, two])).sequences).toEqual([1, 2]);
  });

  it('that cannot be understood still counts', () => {
    expect(readLogged(logged(Buffer.from([0x10]), 3))).toEqual({ packets: [], sequences: [3] });
  });

  it('of any bytes is no error', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        readLogged(Buffer.from(bytes));
        readLogged(logged(Buffer.from(bytes), 1));
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('the requests for a log', () => {
  it('name the group, and are whole netlink messages', () => {
    for (const request of logRequests(7)) {
      expect(request.readUInt32LE(0)).toBe(request.length);
      expect(request.subarray(18, 20)).toEqual(Buffer.from([0, 7]));
    }
  });
});
