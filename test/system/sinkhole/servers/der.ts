/** The few DER forms (X.690) that a certificate is made of. */

export function value(tag: number, ...contents: readonly Buffer[]): Buffer {
  const content = Buffer.concat(contents);
  return Buffer.concat([Buffer.from([tag, ...lengthOf(content.length)]), content]);
}

function lengthOf(length: number): number[] {
  if (length < 0x80) return [length];
  return length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
}

export const sequence = (...contents: readonly Buffer[]): Buffer => value(0x30, ...contents);
export const set = (...contents: readonly Buffer[]): Buffer => value(0x31, ...contents);
export const explicit = (number: number, content: Buffer): Buffer => value(0xa0 | number, content);
export const integer = (content: Buffer): Buffer => value(0x02, content);
export const octets = (content: Buffer): Buffer => value(0x04, content);
export const bool = (isTrue: boolean): Buffer => value(0x01, Buffer.from([isTrue ? 0xff : 0]));
export const text = (content: string): Buffer => value(0x0c, Buffer.from(content));
/** @param unused bits of the last byte that are none */
export const bits = (unused: number, content: Buffer): Buffer => value(0x03, Buffer.from([unused]), content);

/** To the second, as `YYMMDDHHMMSSZ`. */
export function utcTime(time: Date): Buffer {
  const digits = time.toISOString().replace(/\D/g, '').slice(2, 14);
  return value(0x17, Buffer.from(`${digits}Z`));
}

export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  return value(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]));
}

function base128(number: number): number[] {
  const bytes = [number & 0x7f];
  for (let rest = number >> 7; rest > 0; rest >>= 7) bytes.unshift((rest & 0x7f) | 0x80);
  return bytes;
}
