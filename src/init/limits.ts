/** The bounds of the init protocol, as in docs/init-protocol.md and docs/limits.md. All in bytes unless the name says otherwise. */

export const headerBytes = 12;
/** Payload of one frame. */
export const payloadBytes = 1_048_576;
/** Payload of one STDOUT or STDERR frame. */
export const outputFrameBytes = 262_144;
/** Fields of a SPAWN or FILE: what a payload holds, less a page. */
export const fieldBytes = payloadBytes - 4_096;
/** One argument or environment entry: MAX_ARG_STRLEN (linux/binfmts.h) less its NUL. */
export const stringBytes = 131_071;
export const pathBytes = 4_095;
/** Supplementary groups of one identity. */
export const groupCount = 32;
/** stdout and stderr bytes that init may send ahead of the reader, each. */
export const creditBytes = 1_048_576;
/** Credit is given back in quarters of the window: few frames, never a stalled writer. */
export const creditStepBytes = creditBytes / 4;
/** Largest STDIN frame. */
export const stdinChunkBytes = 65_536;
/** Commands and file operations at once. */
export const openStreams = 256;
/** Output smaller than this is copied together: the queue's memory follows its bytes, not its frames. */
export const smallOutputBytes = 4_096;
/** Size of the blocks that small output is copied into. */
export const outputBlockBytes = 16_384;
/** With more than this unread by init, no stream is opened. */
export const openBacklogBytes = 16_777_216;
/** With more than this unread by init it counts as lost: above openBacklogBytes and one STDIN chunk a stream. */
export const backlogBytes = 67_108_864;
