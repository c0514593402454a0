/**
 * Names for content: sha256, and canonical JSON (RFC 8785) so that a value has one digest whatever the order of its
 * keys. A value that JSON would quietly change (NaN, a Map, a Date, half a surrogate pair) is refused: two different
 * values must never share a digest by accident.
 */
import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';

/** Lower-case hex; text is hashed as UTF-8. */
export function sha256Hex(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}

/**
 * RFC 8785. A property whose value is `undefined` counts as absent, as in JSON.
 * @throws TypeError naming the place of what is not JSON
 */
export function canonicalJson(value: unknown): string {
  assertJson(value, '$', new Set());
  const text = canonicalize(value);
  if (text === undefined) throw new TypeError('Cannot digest: no value');
  return text;
}

/** sha256 of the canonical JSON. */
export function digestOf(value: unknown): string {
  return sha256Hex(canonicalJson(value));
}

function assertJson(value: unknown, path: string, above: Set<object>): void {
  if (value === null || typeof value === 'boolean') return;
  if (typeof value === 'number' && Number.isFinite(value)) return;
  if (typeof value === 'string' && !hasLoneSurrogate(value)) return;
  if (typeof value === 'string') throw new TypeError(`Cannot digest ${path}: half a surrogate pair`);
  if (typeof value !== 'object') throw new TypeError(`Cannot digest ${path}: ${String(value)} is not JSON`);
  if (above.has(value)) throw new TypeError(`Cannot digest ${path}: it contains itself`);
  above.add(value);
  if (Array.isArray(value)) assertItems(value, path, above);
  else assertProperties(value, path, above);
  above.delete(value);
}

function assertItems(items: readonly unknown[], path: string, above: Set<object>): void {
  // By index: forEach would step over the holes of a sparse array, which JSON turns into null.
  for (let index = 0; index < items.length; index += 1) assertJson(items[index], `${path}[${index}]`, above);
}

function assertProperties(value: object, path: string, above: Set<object>): void {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    throw new TypeError(`Cannot digest ${path}: not a plain object`);
  }
  for (const [key, item] of Object.entries(value)) {
    if (item === undefined) continue;
    if (hasLoneSurrogate(key)) throw new TypeError(`Cannot digest ${path}: a key with half a surrogate pair`);
    assertJson(item, `${path}.${key}`, above);
  }
}

/** RFC 8785, 3.2.2.2: a lone surrogate ends canonicalisation with an error. */
function hasLoneSurrogate(text: string): boolean {
  return /\p{Surrogate}/u.test(text);
}
