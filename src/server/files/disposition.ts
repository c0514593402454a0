/** Content-Disposition for names that a hostile sandbox chose (HX-14): always a download, never a page, never a header of its own. */

/** @param path of the file in the sandbox; only its last name is shown */
export function attachment(path: Buffer): string {
  const name = path.subarray(path.lastIndexOf(0x2f) + 1).toString('utf8');
  const plain = name.replaceAll(/[^A-Za-z0-9._ -]/g, '_') || 'file';
  return `attachment; filename="${plain}"; filename*=UTF-8''${encodeExtended(name || 'file')}`;
}

/** RFC 5987 value characters; encodeURIComponent leaves these four, which the grammar does not allow. */
function encodeExtended(name: string): string {
  const percent = (character: string): string => `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
  return encodeURIComponent(name).replaceAll(/['()*]/g, percent);
}
