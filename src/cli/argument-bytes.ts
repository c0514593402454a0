/**
 * Arguments as the bytes they were given as. Node decodes its command line as UTF-8 and puts U+FFFD where it cannot;
 * the kernel still has the bytes, so that a file name of another encoding reaches the sandbox as it is.
 */
import { readFileSync } from 'node:fs';

/** Texts of the command line, in its order; those that Node could not decode come back as bytes. */
export function argumentBytes(
  texts: readonly string[],
  readCommandLine: () => Buffer = () => readFileSync('/proc/self/cmdline'),
): (string | Buffer)[] {
  if (!texts.some((text) => text.includes('\ufffd'))) return [...texts];
  const raw = splitAtNul(readCommandLine());
  return texts.map((text) => {
    if (!text.includes('\ufffd')) return text;
    const at = raw.findIndex((bytes) => bytes.toString() === text);
    // taken out, so that two arguments which look alike get the bytes of their own
    return at === -1 ? text : (raw.splice(at, 1)[0] ?? text);
  });
}

function splitAtNul(bytes: Buffer): Buffer[] {
  const parts: Buffer[] = [];
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(0, start);
    const stop = end === -1 ? bytes.length : end;
    parts.push(bytes.subarray(start, stop));
    start = stop + 1;
  }
  return parts;
}
