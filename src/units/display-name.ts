/**
 * A file name as text that loses nothing and obeys nothing: valid UTF-8 stays, every other byte becomes `%XX`, and so
 * do `%` itself, control characters, and format characters such as bidi overrides (FS-20, HX-13). Two different names never look alike.
 */

export function displayName(name: Buffer): string {
  const text = name.toString('utf8');
  const isUtf8 = Buffer.from(text, 'utf8').equals(name);
  if (!isUtf8)
    return [...name]
      .map((byte) => (byte > 0x20 && byte < 0x7f && byte !== 0x25 ? String.fromCharCode(byte) : percent(byte)))
      .join('');
  return [...text]
    .map((character) => (isPlain(character) ? character : [...Buffer.from(character)].map(percent).join('')))
    .join('');
}

function isPlain(character: string): boolean {
  return character !== '%' && !/\p{C}/u.test(character);
}

function percent(byte: number): string {
  return `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
}
