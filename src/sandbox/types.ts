/** The Sandbox as everything above sees it: server, artifacts, run and CLI know no more than this. */
import type { SandboxRequest, StampedGrant } from '../admission/grant.ts';
import type { NetworkRequest } from '../admission/network.ts';
import type { Policy } from '../admission/policy.ts';
import type { Egress } from '../egress/egress.ts';
import type { Explanation } from '../egress/rules/explain.ts';
import type { EntryRecord, WatchRecord } from '../init/records.ts';
import type { FileOperation, OutputChunk } from '../init/types.ts';
import type { CgroupUsage } from '../linux/types.ts';
import type { InputFile } from '../workspace/types.ts';

/** Why a sandbox ended. */
export const endReasons = [
  'finished',
  'killed',
  'wall',
  'idle',
  'oom',
  'disk',
  'output',
  'pids',
  'init-lost',
  'daemon-stop',
  'platform',
] as const;
export type EndReason = (typeof endReasons)[number];

/** Limits that end an exec or a sandbox. `time` is the exec's own deadline (`execMs` or a shorter timeout). */
export const limitNames = ['time', 'wall', 'idle', 'oom', 'disk', 'output', 'pids'] as const;
export type LimitName = (typeof limitNames)[number];

export type SandboxState = 'starting' | 'running' | 'ending' | 'ended';

export interface SandboxInfo {
  readonly id: string;
  readonly state: SandboxState;
  readonly class: string;
  readonly grantDigest: string;
  readonly tier: string;
  readonly image: { readonly name: string; readonly digest: string };
  readonly runtime: { readonly name: string; readonly version: string };
  /** ISO 8601. */
  readonly createdAt: string;
  readonly deadlineAt: string;
  readonly endedAt?: string;
  readonly endReason?: EndReason;
  /** One sentence about the end: which limit, which value. */
  readonly endDetail?: string;
  readonly metadata: Readonly<Record<string, string>>;
}

export interface ExecSpec {
  readonly argv: readonly (string | Buffer)[];
  /** Relative to the Grant's workdir; default the workdir. */
  readonly cwd?: string;
  /** Added to the Grant's env. */
  readonly env?: Readonly<Record<string, string>>;
  /** Default `user`; `root` only where the Grant has root. */
  readonly user?: 'user' | 'root';
  readonly pty?: { readonly rows: number; readonly columns: number };
  /** Keep stdin open for `write`; default false: the command reads /dev/null. */
  readonly stdin?: boolean;
  /** Narrows `limits.execMs`. */
  readonly timeoutMs?: number;
  /** SIGTERM first, SIGKILL after so long; default 2000. */
  readonly graceMs?: number;
  /** Kill what is left of the process tree when the main process exits; default false. */
  readonly killTreeOnExit?: boolean;
}

export interface ExecResult {
  readonly execId: string;
  /** Exit status, or null when a signal or a limit ended it. */
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** The limit that ended it, if one did. */
  readonly limit: LimitName | null;
  /** One sentence for people when a limit or the platform ended it. */
  readonly detail: string | null;
  /** Bytes that arrived within the output limit, whether or not somebody read them. */
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  /** Bytes the command wrote beyond these: past the limit, or after its reader had gone. */
  readonly discardedBytes: number;
  readonly startedAt: string;
  readonly durationMs: number;
  readonly userMicros: number;
  readonly systemMicros: number;
  readonly maxRssKib: number;
}

/** A running command. Its output must be taken (or discarded), or the command waits: flow control reaches it. */
export interface Exec {
  readonly id: string;
  readonly argv: readonly string[];
  /** Pid inside the sandbox; rejects with SallyportError `exec_failed` when it could not start. */
  readonly started: Promise<{ readonly pid: number }>;
  readonly output: AsyncIterable<OutputChunk>;
  readonly result: Promise<ExecResult>;
  write(data: Buffer): Promise<void>;
  endStdin(): void;
  /** @param signal a name such as `SIGINT` */
  signal(signal: string): void;
  kill(graceMs?: number): void;
  resize(rows: number, columns: number): void;
  discard(): void;
}

export type FileEntry = EntryRecord;

export interface WatchEvent {
  readonly kind: Exclude<WatchRecord['kind'], 'ready'>;
  readonly path: Buffer;
}

/** File operations as the sandbox's user. Paths are absolute bytes, or relative to the Grant's workdir. */
export interface Files {
  /** @throws SallyportError `file_not_found`, `file_denied`, `file_conflict` */
  read(path: Buffer, range?: { offset?: number; length?: number }): AsyncIterable<Buffer>;
  write(
    path: Buffer,
    content: AsyncIterable<Buffer>,
    options?: { mode?: number; makeParents?: boolean },
  ): Promise<void>;
  list(path: Buffer, options?: { depth?: number; max?: number }): Promise<{ entries: FileEntry[]; truncated: boolean }>;
  stat(path: Buffer): Promise<FileEntry>;
  /** mkdir, rename, remove, chmod, chown. */
  change(operation: Extract<FileOperation, { op: 'mkdir' | 'rename' | 'remove' | 'chmod' | 'chown' }>): Promise<void>;
  watch(path: Buffer, options: { recursive: boolean; signal: AbortSignal }): AsyncIterable<WatchEvent>;
}

export interface Sandbox {
  readonly id: string;
  readonly stamped: StampedGrant;
  /** What lies at /inputs, as hashed on the way in. */
  readonly inputs: readonly InputFile[];
  readonly files: Files;
  /** Its way out: what binds it, what passed, what was refused. */
  readonly egress: Egress;
  /** What its rules say to a URL. @throws SallyportError `invalid_request` */
  explain(url: string, method?: string): Explanation;
  /** Cuts off more of what it may reach. @throws SallyportError `request_widens` */
  tighten(network: NetworkRequest): void;
  info(): SandboxInfo;
  /** @throws SallyportError `sandbox_ended`, `argv_too_large`, `request_widens`, `too_many_streams` */
  exec(spec: ExecSpec): Exec;
  /** A running exec. @throws SallyportError `exec_not_found` */
  execById(id: string): Exec;
  execs(): readonly { id: string; argv: readonly string[]; startedAt: string }[];
  stats(): CgroupUsage;
  /** Captured head of all output so far (bounded, see docs/limits.md), and how many bytes were left out. */
  log(): { readonly chunks: readonly OutputChunk[]; readonly omittedBytes: number };
  /** Ends it; safe to call twice: the first reason stays. Settles when nothing is left on the host. */
  end(reason: EndReason, detail?: string): Promise<void>;
  readonly ended: Promise<SandboxInfo>;
}

export interface CreateOptions {
  readonly request: SandboxRequest;
  /** Host paths to show at /inputs (CLI and in-process callers only; the HTTP API uploads instead). */
  readonly inputs?: readonly string[];
  readonly metadata?: Readonly<Record<string, string>>;
}

/** All sandboxes of one daemon (or of one `sallyport run`). */
export interface Sandboxes {
  /** @throws SallyportError of admission, workspace and isolation */
  create(options: CreateOptions): Promise<Sandbox>;
  /** @throws SallyportError `sandbox_not_found` */
  get(id: string): Sandbox;
  /** Running ones, and with `ended` those that ended, newest first. */
  list(filter?: { ended?: boolean }): SandboxInfo[];
  /** What decides about new sandboxes. */
  readonly policy: Policy;
  /**
   * Decides by it from now on, and lays its networks over those of running sandboxes: what it no longer allows is closed at once,
   * what it allows more is for new sandboxes (a Grant never widens). @returns how many sandboxes run
   */
  adopt(policy: Policy): number;
  /** Ends all with `daemon-stop`. */
  close(): Promise<void>;
}
