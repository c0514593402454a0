import { expect, it } from 'vitest';
import { checkOnly, contactsOf, textOf } from './contacts.ts';
import type { Packet } from './recorder.ts';

const from = { family: 4, source: '198.18.0.2', bytes: 60 } as const;
const datagram: Packet = { ...from, protocol: 'udp', address: '192.0.2.7', sourcePort: 4000, port: 53 };
const unreachable: Packet = { ...from, protocol: 'icmp', address: '192.0.2.7', icmpType: 3 };

it('a target is one contact, however often and from whichever port', () => {
  const contacts = contactsOf([datagram, { ...datagram, sourcePort: 4001 }, { ...datagram, port: 54 }]);
  expect(contacts.map((contact) => [textOf(contact), contact.count])).toEqual([
    ['udp 192.0.2.7:53', 2],
    ['udp 192.0.2.7:54', 1],
  ]);
});

it('"unreachable" to an address that was asked is no contact; to any other, and any other message, it is', () => {
  expect(contactsOf([datagram, unreachable]).map(textOf)).toEqual(['udp 192.0.2.7:53']);
  expect(contactsOf([unreachable, datagram]).map(textOf)).toEqual(['icmp 192.0.2.7', 'udp 192.0.2.7:53']);
  expect(contactsOf([datagram, { ...unreachable, icmpType: 8 }]).map(textOf)).toContain('icmp 192.0.2.7');
});

it('an IPv6 address is written in brackets before a port', () => {
  expect(textOf({ protocol: 'tcp', address: '2001:db8::1', port: 443 })).toBe('tcp [2001:db8::1]:443');
  expect(textOf({ protocol: 'icmp6', address: '2001:db8::1' })).toBe('icmp6 2001:db8::1');
});

it('only means all of these and nothing else', () => {
  const contacts = contactsOf([datagram]);
  checkOnly(contacts, ['udp 192.0.2.7:53']);
  expect(() => checkOnly(contacts, [])).toThrow('contacted but not allowed: udp 192.0.2.7:53;');
  expect(() => checkOnly([], ['udp 192.0.2.7:53'])).toThrow('allowed but not contacted: udp 192.0.2.7:53');
});
