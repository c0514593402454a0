/** What the host can ask of a sandbox's init. The wire is described in `docs/init-protocol.md`. */

export interface Identity {
  readonly uid: number;
  readonly gid: number;
  readonly groups: readonly number[];
}

export interface SpawnSpec {
  readonly identity: Identity;
  /** argv as bytes or text (text goes as UTF-8); argv[0] is looked up in PATH of `env`. */
  readonly argv: readonly (string | Buffer)[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string | Buffer;
  readonly pty?: { readonly rows: number; readonly columns: number };
  /** False: the command reads /dev/null. */
  readonly stdin: boolean;
  /** Kill what is left of the process tree when the main process exits. */
  readonly killTreeOnExit: boolean;
  /** Keep root's capabilities and allow setuid: only for a Grant with root. */
  readonly root: boolean;
  readonly openFiles: number;
}

export type FileOperation =
  | { readonly op: 'read'; readonly path: Buffer; readonly offset?: number; readonly length?: number }
  | { readonly op: 'write'; readonly path: Buffer; readonly mode?: number; readonly makeParents?: boolean }
  | { readonly op: 'list'; readonly path: Buffer; readonly depth: number; readonly max: number }
  | { readonly op: 'stat'; readonly path: Buffer; readonly followLink: boolean }
  | { readonly op: 'mkdir'; readonly path: Buffer; readonly mode?: number; readonly makeParents?: boolean }
  | { readonly op: 'rename'; readonly path: Buffer; readonly to: Buffer }
  | { readonly op: 'remove'; readonly path: Buffer; readonly recursive: boolean }
  | { readonly op: 'chmod'; readonly path: Buffer; readonly mode: number }
  | { readonly op: 'chown'; readonly path: Buffer; readonly uid: number; readonly gid: number }
  | { readonly op: 'watch'; readonly path: Buffer; readonly recursive: boolean };

export type Channel = 'stdout' | 'stderr';
export interface OutputChunk {
  readonly channel: Channel;
  readonly data: Buffer;
}

export const stages = [
  'none',
  'decode',
  'pipes',
  'fork',
  'identity',
  'capabilities',
  'cwd',
  'pty',
  'exec',
  'open',
  'read',
  'write',
  'rename',
  'list',
  'stat',
  'mkdir',
  'remove',
  'chmod',
  'chown',
  'watch',
  'limits',
] as const;
export type Stage = (typeof stages)[number];

/** How a stream's main process ended. */
export interface ExitReport {
  readonly outcome:
    | { readonly kind: 'exited'; readonly code: number }
    | { readonly kind: 'signalled'; readonly signal: number }
    | { readonly kind: 'failed'; readonly errno: number; readonly stage: Stage }
    | { readonly kind: 'lost' };
  /** True when a KILL was under way. */
  readonly killed: boolean;
  /** Bytes that init read from the process and did not send, because of `discard()`. */
  readonly discarded: { readonly stdout: number; readonly stderr: number };
  readonly userMicros: number;
  readonly systemMicros: number;
  readonly maxRssKib: number;
}

export interface DiskState {
  readonly freeBytes: number;
  readonly totalBytes: number;
  readonly freeInodes: number;
  readonly totalInodes: number;
}

/** One spawned command or file operation. */
export interface InitStream {
  readonly id: number;
  /** Output in the order it was sent. Credit flows back as chunks are taken, so a reader that stops stops the writer. Ends at `exit`. One reader only. */
  readonly output: AsyncIterable<OutputChunk>;
  /** Told of output as it arrives, in its order, read or not: all of it before `exit` settles. One listener. */
  onArrival(listener: (channel: Channel, bytes: number) => void): void;
  /** Settles with the pid inside when execve succeeded; rejects (with the same error as `exit` reports) when it failed. */
  readonly started: Promise<{ readonly pid: number }>;
  /** Settles after the last output chunk was handed over to `output`'s queue. Rejects only with SallyportError `init_lost`/`init_protocol`. */
  readonly exit: Promise<ExitReport>;
  /** Settles when no process of the tree is left. */
  readonly closed: Promise<void>;
  /** Waits for credit; resolves when the bytes are on their way. Rejects when the stream ended. */
  write(data: Buffer): Promise<void>;
  endStdin(): void;
  signal(signal: number, scope: 'main' | 'tree'): void;
  kill(graceMs: number): void;
  resize(rows: number, columns: number): void;
  /** Nobody will read `output` any more: init counts instead of sending. */
  discard(): void;
}

/** The host's end of one sandbox's channel. */
export interface InitClient {
  /** Settles when init said READY. @throws SallyportError `deadline`, `init_lost`, `init_protocol` */
  readonly ready: Promise<void>;
  /** Settles, with the reason, when the channel is gone; never rejects. */
  readonly lost: Promise<{ readonly code: 'init_lost' | 'init_protocol'; readonly detail: string }>;
  spawn(spec: SpawnSpec): InitStream;
  file(identity: Identity, operation: FileOperation): InitStream;
  /** Round trip in ms. @throws SallyportError `deadline` */
  ping(deadlineMs: number): Promise<number>;
  onDisk(listener: (state: DiskState) => void): void;
  /** Ends the conversation; every open stream rejects with `init_lost`. */
  close(): void;
}
