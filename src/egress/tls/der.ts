/**
 * Writes ASN.1 in DER (X.690), as far as a certificate needs it. It only writes, from values of ours: nothing that came from
 * outside is ever parsed here.
 */

const tags = {
  boolean: 0x01,
  integer: 0x02,
  bits: 0x03,
  octets: 0x04,
  oid: 0x06,
  utf8: 0x0c,
  sequence: 0x30,
  set: 0x31,
};

/** One element; the contents one after the other. */
export function element(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(contents);
  return Buffer.concat([Buffer.from([tag, ...lengthOf(content.length)]), content]);
}

export const sequence = (...items: readonly Uint8Array[]): Buffer => element(tags.sequence, ...items);
export const set = (...items: readonly Uint8Array[]): Buffer => element(tags.set, ...items);
export const octets = (content: Uint8Array): Buffer => element(tags.octets, content);
export const utf8 = (text: string): Buffer => element(tags.utf8, Buffer.from(text, 'utf8'));
export const yes = element(tags.boolean, Buffer.from([0xff]));

/** [tag] that stands in place of the type's own. @param kind primitive for strings, constructed for sequences */
export function tagged(tag: number, kind: 'primitive' | 'constructed', ...contents: readonly Uint8Array[]): Buffer {
  return element(tag | (kind === 'primitive' ? 0x80 : 0xa0), ...contents);
}

/** @param magnitude of a number that is not negative, most significant byte first */
export function integer(magnitude: Uint8Array): Buffer {
  const isHigh = ((magnitude[0] ?? 0) & 0x80) !== 0;
  return element(tags.integer, isHigh ? Buffer.from([0]) : Buffer.alloc(0), magnitude);
}

/** @param bits whole bytes unless `unused` says how many of the last one do not count */
export function bitString(bits: Uint8Array, unused = 0): Buffer {
  return element(tags.bits, Buffer.from([unused]), bits);
}

/** @param dotted as "2.5.29.17" */
export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  return element(tags.oid, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]));
}

/** RFC 5280 section 4.1.2.5: two digits of the year until 2049, four from then on. */
export function time(date: Date): Buffer {
  const digits = date.toISOString().replace(/\.\d+Z$|[-T:]/g, '');
  const isShort = date.getUTCFullYear() < 2050;
  return element(isShort ? 0x17 : 0x18, Buffer.from(`${isShort ? digits.slice(2) : digits}Z`));
}

function base128(value: number): number[] {
  const groups = [value & 0x7f];
  for (let rest = value >> 7; rest > 0; rest >>= 7) groups.unshift((rest & 0x7f) | 0x80);
  return groups;
}

function lengthOf(length: number): number[] {
  if (length < 0x80) return [length];
  const bytes: number[] = [];
  for (let rest = length; rest > 0; rest >>>= 8) bytes.unshift(rest & 0xff);
  return [0x80 | bytes.length, ...bytes];
}
