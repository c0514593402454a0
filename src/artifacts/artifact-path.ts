/**
 * The name of an artifact: bytes from inside, checked part by part before they become a path on the host (FS-20,
 * FS-21). What was checked is what is made.
 */

/** Names this project writes into the same folder: no file and no folder of the sandbox may have one. */
const reservedNames: ReadonlySet<string> = new Set([
  'manifest.json',
  'record.json',
  'manifest.json.partial',
  'record.json.partial',
]);

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
  if (reservedNames.has(parts[0]?.toString('latin1') ?? '')) return { ok: false, reason: 'reserved-name' };
  return { ok: true, parts };
}

const dot = Buffer.from('.');
const dotDot = Buffer.from('..');

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
