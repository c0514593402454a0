import dnsPacket, { type Packet } from 'dns-packet';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseIpAddress } from '../../network/ip-address.ts';
import { answerDns, type DnsAnswer, type NameAnswer } from './answer.ts';

const address = parseIpAddress('198.18.0.1');
if (address === undefined) throw new Error('no address');
const given: NameAnswer = { kind: 'address', address };

function ask(name: string, type = 'A', changes: Partial<Packet> = {}): Buffer {
  const question = { name, type, class: 'IN' } as NonNullable<Packet['questions']>[number];
  return dnsPacket.encode({
    type: 'query',
    id: 0x1234,
    flags: dnsPacket.RECURSION_DESIRED,
    questions: [question],
    ...changes,
  });
}

function read(answer: DnsAnswer) {
  if (answer.kind === 'none') throw new Error('no answer');
  const packet = dnsPacket.decode(answer.bytes);
  return { rcode: (packet.flags ?? 0) & 15, answers: packet.answers ?? [], packet };
}

describe('an answer', () => {
  it('to a name that may be reached has its address, for a short time', () => {
    const { rcode, answers, packet } = read(answerDns(ask('a.example'), () => given));
    expect(rcode).toBe(0);
    expect(answers).toMatchObject([{ name: 'a.example', type: 'A', data: '198.18.0.1', ttl: 30 }]);
    expect(packet.id).toBe(0x1234);
  });

  it.each(['AAAA', 'TXT', 'NULL', 'MX', 'SRV', 'HTTPS', 'CNAME', 'ANY', 'NS', 'SOA', 'CAA'])(
    'to a question of type %s about such a name is empty, not "no such name"',
    (type) => {
      const { rcode, answers } = read(answerDns(ask('a.example', type), () => given));
      expect({ rcode, answers }).toEqual({ rcode: 0, answers: [] });
    },
  );

  it.each(['A', 'AAAA', 'TXT', 'ANY'])('of type %s to a name that may not be reached is "no such name"', (type) => {
    const { rcode, answers } = read(answerDns(ask('secret.evil.example', type), () => ({ kind: 'refused' })));
    expect({ rcode, answers }).toEqual({ rcode: 3, answers: [] });
  });

  it('says that it failed when no address is left', () => {
    expect(read(answerDns(ask('a.example'), () => ({ kind: 'full' }))).rcode).toBe(2);
  });

  it('repeats the letters of the question as they were sent', () => {
    expect(read(answerDns(ask('A.eXaMpLe'), () => given)).packet.questions?.[0]?.name).toBe('A.eXaMpLe');
  });

  it.each(['127.1', '2130706433', '0x7f000001', '-x.example', 'a..example'])(
    'NX-05, NX-27: %j is no name, and nobody is asked about it',
    (name) => {
      const asked = answerDns(ask(name), () => {
        throw new Error('asked');
      });
      expect([1, 3]).toContain(read(asked).rcode);
    },
  );

  it('to localhost is the sandbox itself, and recorded by nobody', () => {
    const answer = answerDns(ask('localhost'), () => ({ kind: 'refused' }));
    expect(read(answer).answers).toMatchObject([{ data: '127.0.0.1' }]);
    expect(answer).not.toHaveProperty('question');
  });

  it('to another class than IN is "no such name"', () => {
    const chaos = { name: 'version.bind', type: 'TXT', class: 'CH' } as NonNullable<Packet['questions']>[number];
    expect(read(answerDns(ask('x', 'TXT', { questions: [chaos] }), () => given)).rcode).toBe(3);
  });

  it('is none to an answer, so that no two resolvers talk for ever', () => {
    expect(answerDns(dnsPacket.encode({ type: 'response', id: 1, questions: [] }), () => given).kind).toBe('none');
  });

  it('to two questions, or none, is a format error', () => {
    const question = { name: 'a.example', type: 'A', class: 'IN' } as const;
    for (const questions of [[], [question, question]])
      expect(read(answerDns(ask('a.example', 'A', { questions }), () => given)).rcode).toBe(1);
  });

  it('comes to any bytes without an error, and never longer than the question allows', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 600 }), (bytes) => {
        const answer = answerDns(Buffer.from(bytes), () => given);
        if (answer.kind === 'answer') expect(answer.bytes.length).toBeLessThanOrEqual(bytes.length + 300);
      }),
      { numRuns: 2_000 },
    );
  });

  it('comes to a question that was damaged anywhere', () => {
    const whole = ask('some.long.name.example', 'TXT');
    fc.assert(
      fc.property(fc.nat(whole.length - 1), fc.nat(255), fc.nat(whole.length), (at, byte, length) => {
        const damaged = Buffer.from(whole.subarray(0, length));
        if (at < length) damaged[at] = byte;
        expect(() => answerDns(damaged, () => given)).not.toThrow();
      }),
      { numRuns: 2_000 },
    );
  });
});
