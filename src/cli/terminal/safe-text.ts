/**
 * Text of a sandbox on a terminal (HX-13): control characters can move the cursor, set the title or fill the
 * clipboard (OSC 52), and bidi overrides can make a line read as another. They are shown, not obeyed.
 */

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this is about
const unsafe = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Keeps newlines and tabs; a carriage return before a newline goes. */
export function safeText(text: string): string {
  return text.replaceAll('\r\n', '\n').replaceAll(unsafe, escaped);
}

/** For a name in a line or a table: newlines and tabs are shown too. */
export function safeName(text: string): string {
  return text.replaceAll(unsafe, escaped).replaceAll(/[\n\t]/g, escaped);
}

function escaped(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}
