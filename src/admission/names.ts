/**
 * The names that a policy and a request may hold, one predicate a kind. Every grammar is anchored and has no wildcard
 * but the one of {@link isEnvPattern}; nothing is trimmed or folded.
 */

/** The most bytes of one `NAME=value` with its NUL: the kernel's MAX_ARG_STRLEN. */
const variableBytes = 131_072;
/** The most bytes of a whole environment; it shares one frame of init's protocol (1 MiB) with the arguments. */
const environmentBytes = 262_144;

export function isClassName(text: string): boolean {
  return /^[a-z][a-z0-9-]{0,31}$/.test(text);
}

export const networkNameRule = 'a small letter or a digit, then at most 63 of them and "-"';

/** The id of a network rule, or the name of a phase. */
export function isNetworkName(text: string): boolean {
  return /^[a-z0-9][a-z0-9-]{0,63}$/.test(text);
}

export function isImageName(text: string): boolean {
  return /^[a-z0-9][a-z0-9._-]{0,63}$/.test(text);
}

export function isEnvName(text: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(text);
}

/** A name, or a prefix that ends in `_*` and begins with a letter: `*` and `_*` would allow everything (CX-03). */
export function isEnvPattern(text: string): boolean {
  return isEnvName(text) || /^[A-Za-z][A-Za-z0-9_]{0,126}_\*$/.test(text);
}

/** Whether one of the patterns allows the name; case counts. */
export function isEnvAllowed(name: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern));
}

/** Text that reaches execve as it is: no NUL, no half of a surrogate pair, not longer than the kernel takes. */
export function isEnvValue(text: string): boolean {
  return !text.includes('\0') && !/\p{Surrogate}/u.test(text) && Buffer.byteLength(text) < variableBytes - 130;
}

export function isEnvironmentSmall(env: Readonly<Record<string, string>>): boolean {
  const bytes = Object.entries(env).reduce((sum, [name, value]) => sum + name.length + Buffer.byteLength(value) + 2, 0);
  return bytes <= environmentBytes;
}

/** An absolute, normal path to a folder of the sandbox's own: not `/` (CX-03), not a kernel's or a read-only tree. */
export function isWorkdir(text: string): boolean {
  if (text.length > 1024 || !/^(\/[A-Za-z0-9_][A-Za-z0-9._-]*)+$/.test(text)) return false;
  return !['proc', 'sys', 'dev', 'inputs', 'usr', 'etc'].includes(text.split('/')[1] ?? '');
}
