/** Who was contacted, out of what was seen: the form in which a case says what policy allows. */
import { isIPv6 } from 'node:net';
import type { Packet } from './recorder.ts';

export interface Contact {
  readonly protocol: string;
  readonly address: string;
  /** Absent for protocols without ports. */
  readonly port?: number;
  /** Of TCP, requests to connect, with those that were repeated; otherwise packets. */
  readonly count: number;
}

/** `tcp 192.0.2.1:443`, `udp [2001:db8::1]:53`, `icmp 192.0.2.1`. */
export function textOf({ protocol, address, port }: Omit<Contact, 'count'>): string {
  if (port === undefined) return `${protocol} ${address}`;
  return `${protocol} ${isIPv6(address) ? `[${address}]` : address}:${port}`;
}

/**
 * Each once, in the order in which they were first contacted. When our answer finds its socket closed, the kernel there
 * says so by ICMP: from an address that was contacted before, that is no contact of its own.
 */
export function contactsOf(packets: readonly Packet[]): Contact[] {
  const contacts = new Map<string, Contact>();
  const asked = new Set<string>();
  for (const packet of packets) {
    const { protocol, address, port } = packet;
    if (isUnreachable(packet) && asked.has(address)) continue;
    if (protocol === 'udp') asked.add(address);
    const target = { protocol, address, ...(port === undefined ? {} : { port }) };
    const key = textOf(target);
    contacts.set(key, { ...target, count: (contacts.get(key)?.count ?? 0) + 1 });
  }
  return [...contacts.values()];
}

/** Destination unreachable, RFC 792 and RFC 4443. */
function isUnreachable({ protocol, icmpType }: Packet): boolean {
  return (protocol === 'icmp' && icmpType === 3) || (protocol === 'icmp6' && icmpType === 1);
}

/** @throws Error naming what was contacted and not allowed, and what was allowed and not contacted */
export function checkOnly(contacts: readonly Contact[], allowed: readonly string[]): void {
  const seen = new Set(contacts.map(textOf));
  const strange = [...seen].filter((contact) => !allowed.includes(contact));
  const missing = allowed.filter((contact) => !seen.has(contact));
  if (strange.length === 0 && missing.length === 0) return;
  throw new Error(`O2: contacted but not allowed: ${listed(strange)}; allowed but not contacted: ${listed(missing)}`);
}

function listed(texts: readonly string[]): string {
  return texts.length === 0 ? 'nothing' : texts.join(', ');
}
