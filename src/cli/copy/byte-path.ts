/** Paths as bytes: Linux names need not be UTF-8, and text would change them (FS-20). */

const slash = Buffer.from('/');

export function joinPath(folder: Buffer, name: Buffer): Buffer {
  return folder.at(-1) === 0x2f ? Buffer.concat([folder, name]) : Buffer.concat([folder, slash, name]);
}

/** The last name of a path, whatever slashes it ends in. */
export function baseName(path: Buffer): Buffer {
  let end = path.length;
  while (end > 0 && path[end - 1] === 0x2f) end--;
  return path.subarray(path.lastIndexOf(0x2f, end - 1) + 1, end);
}

export function endsInSlash(path: Buffer): boolean {
  return path.at(-1) === 0x2f;
}

/**
 * True for a relative path that stays below where it is joined to. What a sandbox calls its files is not trusted:
 * `..` in a list would write beside the target.
 */
export function isBeneath(path: Buffer): boolean {
  if (path.length === 0 || path.includes(0)) return false;
  const names = path.toString('latin1').split('/');
  return names.every((name) => name !== '' && name !== '.' && name !== '..');
}
