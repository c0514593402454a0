/**
 * The name of a host as one value: parsed once, here, and then used to decide *and* to dial. What is no plain DNS name
 * (a NUL, an empty label, a number that some resolvers take for an address) is no HostName at all (NX-05, NX-27).
 */
import { domainToASCII } from 'node:url';

declare const hostName: unique symbol;
/** Lower-case ASCII, punycode, no trailing dot, 1…253 bytes, labels of 1…63 letters, digits, "-" and "_". */
export type HostName = string & { readonly [hostName]: true };

const nameBytes = 253;
const labelRule = /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/;

/** @returns undefined for what is no host name, IP literals in every spelling among it */
export function parseHostName(text: string): HostName | undefined {
  const ascii = toAscii(text);
  const name = ascii?.endsWith('.') ? ascii.slice(0, -1) : ascii;
  if (name === undefined || name.length === 0 || name.length > nameBytes) return undefined;
  const labels = name.split('.');
  if (!labels.every((label) => labelRule.test(label))) return undefined;
  return endsInNumber(labels) ? undefined : (name as HostName);
}

/** The labels from left to right. */
export function labelsOf(name: HostName): string[] {
  return name.split('.');
}

/** IDNA only where it is needed: `domainToASCII` also maps what is ASCII already, full-width dots and escapes among it. */
function toAscii(text: string): string | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: every byte of ASCII is meant
  if (/^[\x00-\x7f]*$/.test(text)) return text.toLowerCase();
  if (text.length > 4 * nameBytes || /[%/\\@:?#\s[\]]/.test(text)) return undefined;
  const ascii = domainToASCII(text);
  return ascii === '' ? undefined : ascii;
}

/** The URL standard's "ends in a number": such a host is an IPv4 address to somebody (0x7f000001, 127.1). */
function endsInNumber(labels: readonly string[]): boolean {
  const last = labels.at(-1) ?? '';
  return /^\d+$/.test(last) || /^0x[0-9a-f]*$/.test(last);
}
