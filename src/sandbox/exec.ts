/**
 * One command in a sandbox: its output counted against the limit, its deadline kept by the host's monotonic clock, and
 * exactly one result, whatever ends it first.
 */
import { performance } from 'node:perf_hooks';
import { SallyportError } from '../errors/error.ts';
import { errnoName } from '../init/errno.ts';
import type { Channel, ExitReport, InitStream, OutputChunk } from '../init/types.ts';
import { formatBytes } from '../units/bytes.ts';
import { formatDuration } from '../units/duration.ts';
import { signalName, signalNumber } from './signal-names.ts';
import type { Exec, ExecResult, LimitName } from './types.ts';

const defaultGraceMs = 2_000;
/** After KILL and its grace, init has so long to report the exit before the sandbox counts as lost. */
const killReportMs = 5_000;

export interface ExecOptions {
  readonly id: string;
  readonly argv: readonly string[];
  readonly timeoutMs: number;
  readonly graceMs: number | undefined;
  readonly outputBytes: number;
  readonly stream: InitStream;
  /** Sees every chunk that was handed to the reader. */
  readonly onOutput: (chunk: OutputChunk) => void;
  /** The limit that the sandbox's kernel counters blame for an abnormal exit, if any. */
  readonly blame: () => { readonly limit: LimitName; readonly detail: string } | undefined;
  /** init did not obey a KILL: the sandbox is lost. */
  readonly onStuck: () => void;
}

interface Ending {
  readonly limit: LimitName | null;
  readonly detail: string;
}

export class SandboxExec implements Exec {
  readonly id: string;
  readonly argv: readonly string[];
  readonly started: Promise<{ readonly pid: number }>;
  readonly output: AsyncIterable<OutputChunk>;
  readonly result: Promise<ExecResult>;
  readonly startedAt = new Date().toISOString();
  readonly #options: ExecOptions;
  readonly #beganMs = performance.now();
  /** What arrived within the limit, read or not: complete when the exit is known. */
  readonly #bytes = { stdout: 0, stderr: 0 };
  #deliveredBytes = 0;
  readonly #timers: NodeJS.Timeout[] = [];
  #withheldBytes = 0;
  #hasSettled = false;
  #ending: Ending | undefined;

  constructor(options: ExecOptions) {
    this.#options = options;
    this.id = options.id;
    this.argv = options.argv;
    this.started = options.stream.started.catch(async () => {
      await this.result;
      throw new SallyportError(
        'exec_failed',
        `Cannot run ${JSON.stringify(options.argv[0])}: it was ended before it began`,
      );
    });
    this.started.catch(() => undefined);
    options.stream.onArrival((channel, bytes) => this.#count(channel, bytes));
    this.output = { [Symbol.asyncIterator]: () => this.#read() };
    this.#timers.push(setTimeout(() => this.#expire(), options.timeoutMs));
    this.result = this.#settle();
    this.result.catch(() => undefined);
  }

  write(data: Buffer): Promise<void> {
    return this.#options.stream.write(data);
  }

  endStdin(): void {
    this.#options.stream.endStdin();
  }

  signal(signal: string): void {
    this.#options.stream.signal(signalNumber(signal), 'main');
  }

  /** After the end it does nothing: a client that leaves late must not arm the watch below. */
  kill(graceMs = this.#options.graceMs ?? defaultGraceMs): void {
    if (this.#hasSettled) return;
    this.#options.stream.kill(graceMs);
    // a process that waits for a reader must not keep the kill waiting
    this.#options.stream.discard();
    this.#timers.push(setTimeout(this.#options.onStuck, graceMs + killReportMs));
  }

  resize(rows: number, columns: number): void {
    this.#options.stream.resize(rows, columns);
  }

  discard(): void {
    this.#options.stream.discard();
  }

  /** Ends it for a reason; the first reason stays (RX-21). */
  stop(limit: LimitName | null, detail: string, graceMs?: number): void {
    this.#ending ??= { limit, detail };
    this.kill(graceMs);
  }

  /** Names why it is about to end without killing it: the sandbox dies under it. */
  condemn(limit: LimitName | null, detail: string): void {
    this.#ending ??= { limit, detail };
  }

  #expire(): void {
    this.stop('time', `The command ran longer than ${formatDuration(this.#options.timeoutMs)}.`);
  }

  /** A sandbox that ends under its reader ends the output; why is in the result. */
  async *#read(): AsyncGenerator<OutputChunk> {
    try {
      yield* this.#readCounted();
    } catch (error) {
      if (this.#ending === undefined) throw error;
    }
  }

  async *#readCounted(): AsyncGenerator<OutputChunk> {
    for await (const { channel, data } of this.#options.stream.output) {
      const allowed = data.subarray(0, this.#options.outputBytes - this.#deliveredBytes);
      if (allowed.length === 0) return;
      this.#deliveredBytes += allowed.length;
      this.#options.onOutput({ channel, data: allowed });
      yield { channel, data: allowed };
    }
  }

  /** At arrival, not at reading: a command that ends before its reader has caught up is judged all the same. */
  #count(channel: Channel, bytes: number): void {
    const limit = this.#options.outputBytes;
    const allowed = Math.min(bytes, limit - this.#bytes.stdout - this.#bytes.stderr);
    this.#bytes[channel] += allowed;
    this.#withheldBytes += bytes - allowed;
    if (allowed === bytes || this.#ending !== undefined) return;
    this.stop('output', `The command wrote more than ${formatBytes(limit)} to stdout and stderr.`);
  }

  async #settle(): Promise<ExecResult> {
    try {
      const report = await this.#options.stream.exit;
      const { outcome } = report;
      if (outcome.kind === 'failed') throw this.#failure(outcome);
      if (outcome.kind === 'lost') throw new SallyportError('init_lost', 'The supervisor of the command was killed.');
      this.#blame(report);
      return this.#resultOf(report);
    } catch (error) {
      if (this.#ending === undefined) throw error;
      return this.#resultOf(undefined);
    } finally {
      this.#hasSettled = true;
      for (const timer of this.#timers) clearTimeout(timer);
    }
  }

  /** An OOM kill looks like any SIGKILL: the kernel's counters tell them apart (RX-03). */
  #blame({ outcome }: ExitReport): void {
    if (outcome.kind === 'exited' && outcome.code === 0) return;
    const blamed = this.#ending === undefined ? this.#options.blame() : undefined;
    if (blamed !== undefined) this.condemn(blamed.limit, blamed.detail);
  }

  #resultOf(report: ExitReport | undefined): ExecResult {
    const ending = this.#ending;
    const discarded = report === undefined ? 0 : report.discarded.stdout + report.discarded.stderr;
    return {
      execId: this.id,
      exitCode: ending?.limit == null && report?.outcome.kind === 'exited' ? report.outcome.code : null,
      signal: signalOf(report, ending),
      limit: ending?.limit ?? null,
      detail: ending?.detail ?? null,
      stdoutBytes: this.#bytes.stdout,
      stderrBytes: this.#bytes.stderr,
      discardedBytes: this.#withheldBytes + discarded,
      startedAt: this.startedAt,
      durationMs: Math.round((performance.now() - this.#beganMs) * 1000) / 1000,
      userMicros: report?.userMicros ?? 0,
      systemMicros: report?.systemMicros ?? 0,
      maxRssKib: report?.maxRssKib ?? 0,
    };
  }

  #failure({ errno, stage }: { readonly errno: number; readonly stage: string }): SallyportError {
    const name = errnoName(errno);
    const program = JSON.stringify(this.argv[0] ?? '');
    if (name === 'EAGAIN' && stage === 'none') {
      return new SallyportError('too_many_streams', `Cannot run ${program}: too many commands at once in this sandbox`);
    }
    return new SallyportError('exec_failed', `Cannot run ${program}: ${explain(name, stage)}`);
  }
}

function explain(errno: string, stage: string): string {
  if (stage === 'exec' && errno === 'ENOENT') return 'no such program in the sandbox (ENOENT)';
  if (stage === 'exec' && errno === 'EACCES') return 'the file is not executable for the sandbox user (EACCES)';
  if (stage === 'exec' && errno === 'ENOEXEC') return 'the file is not a program of this machine (ENOEXEC)';
  if (stage === 'cwd') return `the working folder cannot be entered (${errno})`;
  return `${stage} failed with ${errno}`;
}

function signalOf(report: ExitReport | undefined, ending: Ending | undefined): string | null {
  if (report?.outcome.kind === 'signalled') return signalName(report.outcome.signal);
  return report === undefined && ending !== undefined ? 'SIGKILL' : null;
}
