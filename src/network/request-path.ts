/**
 * The path of an HTTP request in its one spelling, or refused: where two servers could read a path in two ways, a rule about
 * paths has nothing to hold on to (NX-24). Nothing is resolved or repaired; what a client sends without need is refused.
 */

/** The path as globs are matched against it, or why it has more than one reading. */
export type NormalPath = { readonly path: string } | { readonly ambiguous: string };

/** RFC 3986 unreserved: never needs an escape, so an escaped one is a second spelling. */
const unreserved = /[A-Za-z0-9\-._~]/;
/** May stand as they are or escaped, and servers decode both alike: compared unescaped. */
const eitherWay = new Set("!$&'()+,=:@[]");
/** Most paths: nothing to normalise and nothing to refuse but dots and empty segments. */
const plainPath = /^\/[A-Za-z0-9\-._~!$&'()+,=:@[\]/]*$/;
const dotSegment = /(?:^|\/)\.{1,2}(?:\/|$)/;

/** @returns why the path (without its query) has more than one reading; undefined for one that has not */
export function ambiguousTarget(path: string): string | undefined {
  const normal = normalPath(path);
  return 'ambiguous' in normal ? normal.ambiguous : undefined;
}

export function normalPath(path: string): NormalPath {
  const shape = shapeProblem(path);
  if (shape !== undefined) return { ambiguous: shape };
  return plainPath.test(path) ? { path } : normalCharacters(path);
}

function shapeProblem(path: string): string | undefined {
  if (!path.startsWith('/')) return 'it does not begin with "/"';
  if (path.includes('//')) return 'it has an empty segment, which some servers leave out';
  return dotSegment.test(path) ? 'it has a "." or ".." segment' : undefined;
}

function normalCharacters(path: string): NormalPath {
  if (!isUtf8(path)) return { ambiguous: 'it has an escape that is none, or that is not UTF-8' };
  let normal = '';
  for (let index = 0; index < path.length; index++) {
    const character = path.charAt(index);
    const read = character === '%' ? readEscape(path, index) : readCharacter(character);
    if ('ambiguous' in read) return read;
    normal += read.path;
    if (character === '%') index += 2;
  }
  return { path: normal };
}

/** Every "%" begins an escape, and the escaped bytes are UTF-8 in its shortest form: `%c0%ae` is a dot to some. */
function isUtf8(path: string): boolean {
  try {
    decodeURIComponent(path);
    return true;
  } catch {
    return false;
  }
}

function readCharacter(character: string): NormalPath {
  // a star of the path's own is not the star of a glob
  if (character === '*') return { path: '%2A' };
  if (character === '/' || unreserved.test(character) || eitherWay.has(character)) return { path: character };
  if (character === ';') return { ambiguous: 'it has ";", which begins a parameter to some servers' };
  return { ambiguous: `it has ${named(character.charCodeAt(0))}, which belongs in no path` };
}

function readEscape(path: string, at: number): NormalPath {
  const escaped = path.slice(at, at + 3).toUpperCase();
  const code = Number.parseInt(escaped.slice(1), 16);
  const character = String.fromCharCode(code);
  if (code < 0x20 || code === 0x7f) return { ambiguous: `it has the control byte ${escaped}` };
  if ('/\\;'.includes(character)) return { ambiguous: `it has ${escaped}, which some servers read as "${character}"` };
  if (unreserved.test(character)) return { ambiguous: `it has ${escaped}, a second spelling of "${character}"` };
  if (character === '%' && /^[0-9a-fA-F]{2}/.test(path.slice(at + 3))) {
    return { ambiguous: `it has ${path.slice(at, at + 5)}, which is decoded twice by some` };
  }
  return { path: eitherWay.has(character) ? character : escaped };
}

function named(code: number): string {
  if (code > 0x7e) return 'a character outside of ASCII';
  return code < 0x20 ? 'a control character' : `"${String.fromCharCode(code)}"`;
}
