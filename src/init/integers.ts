/** Integers as the wire has them: little-endian, of fixed width. What does not fit is refused, never wrapped or rounded. */
import { SallyportError } from '../errors/error.ts';

export const maxU16 = 0xffff;
export const maxU32 = 0xffff_ffff;

/** @returns the value as it is. @throws SallyportError `invalid_request` unless it is a whole number in min…max */
export function wholeNumber(value: number, what: string, min: number, max: number): number {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return value;
  throw new SallyportError('invalid_request', `Cannot use ${value} as ${what}: it is no whole number in ${min}…${max}`);
}

export function u32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32LE(value, 0);
  return bytes;
}

export function u64(value: number | bigint): Buffer {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeBigUInt64LE(BigInt(value), 0);
  return bytes;
}

export function pair32(first: number, second: number): Buffer {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeUInt32LE(first, 0);
  bytes.writeUInt32LE(second, 4);
  return bytes;
}

export function pair16(first: number, second: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt16LE(first, 0);
  bytes.writeUInt16LE(second, 2);
  return bytes;
}
