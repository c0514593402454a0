/**
 * Globs over the path of a request: `*` stands for one segment, or for a run of characters within one; `**`, alone in its
 * segment, for any number of segments, none among them. Every other character means itself. Matched in time proportional
 * to glob and path: paths are chosen by who is to be kept in.
 */
import { normalPath } from './request-path.ts';

export interface PathGlob {
  readonly text: string;
  /** Between the slashes. */
  readonly segments: readonly Segment[];
}

/** The pieces between the stars of one segment, or any number of segments. */
type Segment = readonly string[] | 'any';

/** @returns undefined for what is no glob, or could match only paths that are refused before it is asked (NX-24) */
export function parsePathGlob(text: string): PathGlob | undefined {
  if (!text.startsWith('/') || text.includes('?')) return undefined;
  const segments: Segment[] = [];
  for (const segment of text.slice(1).split('/')) {
    if (segment !== '**' && segment.includes('**')) return undefined;
    const pieces = segment === '**' ? 'any' : piecesOf(segment);
    if (pieces === undefined) return undefined;
    segments.push(pieces);
  }
  const isPlain = 'path' in normalPath(text.replaceAll('*', 'x'));
  return isPlain ? { text, segments } : undefined;
}

/** The pieces in the spelling that paths are compared in. */
function piecesOf(segment: string): string[] | undefined {
  const pieces: string[] = [];
  for (const piece of segment.split('*')) {
    // between two characters, so that "." at an end is not taken for a segment of its own
    const normal = normalPath(`/x${piece}x`);
    if ('ambiguous' in normal) return undefined;
    pieces.push(normal.path.slice(2, -1));
  }
  return pieces;
}

/** Whether the glob matches every path. */
export function matchesAll({ segments }: PathGlob): boolean {
  return segments.every((segment) => segment === 'any');
}

/** @param path in the spelling of `normalPath` */
export function matchesPath({ segments }: PathGlob, path: string): boolean {
  const names = path.slice(1).split('/');
  let [at, from] = [0, 0];
  // where the last "**" stands, and the first name that it has not swallowed
  let [anyAt, swallowed] = [-1, 0];
  while (from < names.length) {
    const segment = segments[at];
    if (segment === 'any') {
      anyAt = at++;
      swallowed = from;
    } else if (segment !== undefined && matchesSegment(segment, names[from] ?? '')) {
      at++;
      from++;
    } else if (anyAt >= 0) {
      at = anyAt + 1;
      from = ++swallowed;
    } else return false;
  }
  return segments.slice(at).every((segment) => segment === 'any');
}

/** A star alone stands for a whole segment, which is not empty. */
function matchesSegment(pieces: readonly string[], name: string): boolean {
  const [first = '', ...others] = pieces;
  const last = others.pop();
  if (last === undefined) return name === first;
  if (name.length === 0 || name.length < first.length + last.length) return false;
  if (!name.startsWith(first) || !name.endsWith(last)) return false;
  let from = first.length;
  for (const piece of others) {
    const found = name.indexOf(piece, from);
    if (found < 0) return false;
    from = found + piece.length;
  }
  return from + last.length <= name.length;
}

/** A glob that matches this path and no other. */
export function globOfPath(path: string): string | undefined {
  const normal = normalPath(path);
  return 'path' in normal ? normal.path : undefined;
}
