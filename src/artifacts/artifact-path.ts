/**
 * The name of an artifact: bytes from inside, checked part by part before they become a path on the host (FS-20,
 * FS-21). What was checked is what is made.
 */

/** Names this project writes into the same folder. */
const reservedNames: ReadonlySet<string> = new Set(['manifest.json', 'record.json']);

export type CheckedPath =
  | { readonly ok: true; readonly parts: readonly Buffer[] }
  | { readonly ok: false; readonly reason: string };

/** @param path relative to the workdir, as init listed it */
export function checkArtifactPath(path: Buffer): CheckedPath {
  if (path.length === 0 || path.length > 4095) return { ok: false, reason: 'path-length' };
  if (path.includes(0)) return { ok: false, reason: 'nul-in-name' };
  const parts = splitPath(path);
  if (parts.some((part) => part.length === 0 || part.equals(dot) || part.equals(dotDot)))
    return { ok: false, reason: 'unsafe-path' };
  if (parts.some((part) => part.length > 255)) return { ok: false, reason: 'name-length' };
  if (parts.length === 1 && reservedNames.has(path.toString('latin1'))) return { ok: false, reason: 'reserved-name' };
  return { ok: true, parts };
}

/**
 * A name as text that loses nothing: UTF-8 stays, every byte that is not part of valid UTF-8 becomes `%XX`, and so
 * do `%` itself and control characters.
 */
export function displayPath(path: Buffer): string {
  const text = path.toString('utf8');
  const isUtf8 = Buffer.from(text, 'utf8').equals(path);
  if (!isUtf8)
    return [...path]
      .map((byte) => (byte > 0x20 && byte < 0x7f && byte !== 0x25 ? String.fromCharCode(byte) : percent(byte)))
      .join('');
  return [...text]
    .map((character) => (isPlain(character) ? character : [...Buffer.from(character)].map(percent).join('')))
    .join('');
}

const dot = Buffer.from('.');
const dotDot = Buffer.from('..');

function isPlain(character: string): boolean {
  // category C: controls, bidi and zero-width formats, unassigned (HX-13, HX-21)
  return character !== '%' && !/\p{C}/u.test(character);
}

function percent(byte: number): string {
  return `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
}

function splitPath(path: Buffer): Buffer[] {
  const parts: Buffer[] = [];
  let start = 0;
  for (let end = path.indexOf(0x2f); end !== -1; end = path.indexOf(0x2f, start)) {
    parts.push(path.subarray(start, end));
    start = end + 1;
  }
  parts.push(path.subarray(start));
  return parts;
}
