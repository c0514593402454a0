/** The Range header (RFC 9110 §14): one range of bytes; anything else is ignored, as the RFC allows. */

export type Range =
  | { readonly kind: 'whole' }
  | { readonly kind: 'unsatisfiable' }
  | { readonly kind: 'part'; readonly offset: number; readonly length: number };

/** @param bytes size of the file */
export function parseRange(header: string | undefined, bytes: number): Range {
  const match = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? '');
  const [, first = '', last = ''] = match ?? [];
  if (match === null || (first === '' && last === '')) return { kind: 'whole' };
  if (first === '') return suffix(Number(last), bytes);
  const offset = Number(first);
  const end = last === '' ? bytes : Math.min(Number(last) + 1, bytes);
  if (last !== '' && Number(last) < offset) return { kind: 'whole' };
  if (offset >= bytes) return { kind: 'unsatisfiable' };
  return { kind: 'part', offset, length: end - offset };
}

function suffix(wanted: number, bytes: number): Range {
  if (wanted === 0 || bytes === 0) return { kind: 'unsatisfiable' };
  const length = Math.min(wanted, bytes);
  return { kind: 'part', offset: bytes - length, length };
}
