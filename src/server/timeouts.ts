/** How long a peer may take, and how many there may be (HX-06). One place, so that tests can shorten them. */

export interface Timeouts {
  /** From the first byte of a request to the end of its headers. */
  readonly headersMs: number;
  /** From the end of the headers to the end of a body that is read whole. */
  readonly bodyMs: number;
  /** Between two chunks of a body that is streamed into a file. */
  readonly uploadIdleMs: number;
  /** A connection without a request. */
  readonly keepAliveMs: number;
  /** Between two pings of a WebSocket; a peer that misses one is cut off. */
  readonly pingMs: number;
  /** A client that does not read the rest of an output after the exec has ended. */
  readonly drainMs: number;
}

export const defaultTimeouts: Timeouts = {
  headersMs: 10_000,
  bodyMs: 30_000,
  uploadIdleMs: 60_000,
  keepAliveMs: 72_000,
  pingMs: 30_000,
  drainMs: 30_000,
};

/** Connections at once; more are closed on arrival. */
export const maxConnections = 1_024;
/** Bytes of a JSON body. */
export const jsonBodyLimitBytes = 1024 * 1024;
/** Bytes of the JSON body of an exec: it may carry standard input. */
export const execBodyLimitBytes = 8 * 1024 * 1024;
