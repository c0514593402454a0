/** The bounds of the init protocol, as in docs/init-protocol.md and docs/limits.md. */

export const headerBytes = 12;
/** Payload of one frame. */
export const payloadBytes = 1_048_576;
/** Fields of a SPAWN or FILE: what a payload holds, less a page. */
export const fieldBytes = payloadBytes - 4_096;
/** One argument or environment entry: MAX_ARG_STRLEN (linux/binfmts.h) less its NUL. */
export const stringBytes = 131_071;
/** stdout and stderr bytes that init may send ahead of the reader, each. */
export const creditBytes = 1_048_576;
/** Largest STDIN frame. */
export const stdinChunkBytes = 65_536;
export const openStreams = 256;
export const pathBytes = 4_095;
