/**
 * An in-memory stand-in for `Sandboxes`, for tests of what the server and the CLI do with one; what a sandbox does
 * itself is tested on real ones by the system suite. Programs: echo, cat, flood, sleep, exit, missing.
 */
import { SallyportError } from '../../src/errors/error.ts';
import type { OutputChunk } from '../../src/init/types.ts';
import type {
  CreateOptions,
  EndReason,
  Exec,
  ExecResult,
  ExecSpec,
  FileEntry,
  Files,
  Sandbox,
  Sandboxes,
  SandboxInfo,
  WatchEvent,
} from '../../src/sandbox/types.ts';

export const floodChunkBytes = 256 * 1024;

export class FakeExec implements Exec {
  readonly id: string;
  readonly argv: readonly string[];
  readonly spec: ExecSpec;
  readonly started: Promise<{ readonly pid: number }>;
  readonly output: AsyncIterable<OutputChunk>;
  readonly result: Promise<ExecResult>;
  readonly killed: Promise<void>;
  readonly signals: string[] = [];
  readonly sizes: string[] = [];
  takenBytes = 0;
  #settle: (result: ExecResult) => void = () => undefined;
  #settleKilled: () => void = () => undefined;
  #input: Buffer[] = [];
  #inputEnded = false;
  #wake: () => void = () => undefined;
  #isKilled = false;
  #bytes = { stdout: 0, stderr: 0 };

  constructor(id: string, spec: ExecSpec) {
    this.id = id;
    this.spec = spec;
    this.argv = spec.argv.map(String);
    this.killed = new Promise((resolve) => {
      this.#settleKilled = resolve;
    });
    const failure = new SallyportError('exec_failed', 'Cannot run "missing": no such program in the sandbox (ENOENT)');
    const fails = this.argv[0] === 'missing';
    this.started = fails ? Promise.reject(failure) : Promise.resolve({ pid: 2 });
    this.started.catch(() => undefined);
    this.result = fails
      ? Promise.reject(failure)
      : new Promise((resolve) => {
          this.#settle = resolve;
        });
    this.result.catch(() => undefined);
    this.output = this.#run(fails);
  }

  async write(data: Buffer): Promise<void> {
    if (this.#isKilled) throw new SallyportError('exec_not_found', 'ended');
    this.#input.push(data);
    this.#wake();
  }
  endStdin(): void {
    this.#inputEnded = true;
    this.#wake();
  }
  signal(signal: string): void {
    this.signals.push(signal);
  }
  kill(): void {
    this.#isKilled = true;
    this.#settleKilled();
    this.#wake();
  }
  resize(rows: number, columns: number): void {
    this.sizes.push(`${rows}x${columns}`);
  }
  discard(): void {
    this.#wake();
  }

  async *#run(fails: boolean): AsyncGenerator<OutputChunk> {
    if (fails) return;
    let exitCode = 0;
    for await (const chunk of this.#program()) {
      if (typeof chunk === 'number') exitCode = chunk;
      else yield this.#count(chunk);
    }
    this.#settle(this.#resultOf(this.#isKilled ? null : exitCode));
  }

  #count(chunk: OutputChunk): OutputChunk {
    this.#bytes[chunk.channel] += chunk.data.length;
    this.takenBytes += chunk.data.length;
    return chunk;
  }

  async *#program(): AsyncGenerator<OutputChunk | number> {
    const [name = '', ...rest] = this.argv;
    if (name === 'echo') yield { channel: 'stdout', data: Buffer.from(`${rest.join(' ')}\n`) };
    if (name === 'exit') {
      yield { channel: 'stderr', data: Buffer.from('leaving\n') };
      yield Number(rest[0]);
    }
    if (name === 'flood') yield* this.#flood(Number(rest[0]));
    if (name === 'sleep') await this.killed;
    if (name === 'cat' || name === '/bin/bash') yield* this.#cat();
  }

  async *#flood(bytes: number): AsyncGenerator<OutputChunk> {
    const data = Buffer.alloc(floodChunkBytes, 'x');
    for (let left = bytes; left > 0 && !this.#isKilled; left -= floodChunkBytes) {
      yield { channel: 'stdout', data: data.subarray(0, Math.min(left, floodChunkBytes)) };
    }
  }

  async *#cat(): AsyncGenerator<OutputChunk> {
    while (!this.#isKilled) {
      const data = this.#input.shift();
      if (data !== undefined) yield { channel: 'stdout', data };
      else if (this.#inputEnded) return;
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
  }

  #resultOf(exitCode: number | null): ExecResult {
    return {
      execId: this.id,
      exitCode,
      signal: exitCode === null ? 'SIGTERM' : null,
      limit: null,
      detail: null,
      stdoutBytes: this.#bytes.stdout,
      stderrBytes: this.#bytes.stderr,
      discardedBytes: 0,
      startedAt: '2025-01-01T00:00:00.000Z',
      durationMs: 1,
      userMicros: 0,
      systemMicros: 0,
      maxRssKib: 0,
    };
  }
}

/** Keys are paths as latin1, so that every byte has its own character. */
export class FakeFiles implements Files {
  readonly contents = new Map<string, Buffer>();
  readonly changes: object[] = [];
  watcher: ((event: WatchEvent) => void) | undefined;

  async *read(path: Buffer, { offset = 0, length }: { offset?: number; length?: number } = {}): AsyncGenerator<Buffer> {
    const content = this.#content(path);
    const part = content.subarray(offset, length === undefined ? undefined : offset + length);
    for (let at = 0; at < part.length; at += 65536) yield part.subarray(at, at + 65536);
  }
  async write(path: Buffer, content: AsyncIterable<Buffer>): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of content) chunks.push(chunk);
    this.contents.set(path.toString('latin1'), Buffer.concat(chunks));
  }
  async list(path: Buffer): Promise<{ entries: FileEntry[]; truncated: boolean }> {
    const prefix = `${path.toString('latin1').replace(/\/$/, '')}/`;
    const names = [...this.contents.keys()].filter((name) => name.startsWith(prefix));
    const entries = names.map((name) => this.#entry(name, Buffer.from(name.slice(prefix.length), 'latin1')));
    return { entries, truncated: false };
  }
  async stat(path: Buffer): Promise<FileEntry> {
    this.#content(path);
    return this.#entry(path.toString('latin1'), path);
  }
  async change(operation: object): Promise<void> {
    this.changes.push(operation);
  }
  async *watch(_path: Buffer, { signal }: { recursive: boolean; signal: AbortSignal }): AsyncGenerator<WatchEvent> {
    while (!signal.aborted) {
      const event = await new Promise<WatchEvent | undefined>((resolve) => {
        this.watcher = resolve;
        signal.addEventListener('abort', () => resolve(undefined), { once: true });
      });
      if (event !== undefined) yield event;
    }
    this.watcher = undefined;
  }
  #content(path: Buffer): Buffer {
    const content = this.contents.get(path.toString('latin1'));
    if (content === undefined)
      throw new SallyportError('file_not_found', `Cannot read ${JSON.stringify(path.toString())}`);
    return content;
  }
  #entry(name: string, path: Buffer): FileEntry {
    const bytes = this.contents.get(name)?.length ?? 0;
    const owner = { uid: 1000, gid: 1000, links: 1, bytes, allocatedBytes: bytes };
    return { path, kind: 'file', mode: 0o644, ...owner, modifiedAt: '2025-01-01T00:00:00.000Z' };
  }
}

export class FakeSandbox implements Sandbox {
  readonly id: string;
  readonly inputs = [];
  readonly files = new FakeFiles();
  readonly execsMade: FakeExec[] = [];
  readonly ended: Promise<SandboxInfo>;
  readonly #options: CreateOptions;
  #ending: EndReason | undefined;
  #settle: (info: SandboxInfo) => void = () => undefined;

  constructor(id: string, options: CreateOptions) {
    this.id = id;
    this.#options = options;
    this.ended = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }
  get stamped(): never {
    throw new Error('the fake has no Grant');
  }
  get egress(): never {
    throw new Error('the fake has no way out');
  }
  explain(): never {
    throw new Error('the fake has no rules');
  }
  tighten(): never {
    throw new Error('the fake has no rules');
  }
  info(): SandboxInfo {
    return {
      id: this.id,
      state: this.#ending === undefined ? 'running' : 'ended',
      class: this.#options.request.class,
      grantDigest: '0'.repeat(64),
      tier: 'container',
      image: { name: 'base', digest: 'sha256:0' },
      runtime: { name: 'crun', version: '1' },
      createdAt: '2025-01-01T00:00:00.000Z',
      deadlineAt: '2025-01-01T01:00:00.000Z',
      ...(this.#ending === undefined ? {} : { endedAt: '2025-01-01T00:30:00.000Z', endReason: this.#ending }),
      metadata: this.#options.metadata ?? {},
    };
  }
  exec(spec: ExecSpec): FakeExec {
    const exec = new FakeExec(`ex-${this.execsMade.length}`, spec);
    this.execsMade.push(exec);
    return exec;
  }
  execById(id: string): FakeExec {
    const exec = this.execsMade.find((made) => made.id === id);
    if (exec === undefined) throw new SallyportError('exec_not_found', `Cannot find exec ${id}`);
    return exec;
  }
  execs() {
    return this.execsMade.map(({ id, argv }) => ({ id, argv, startedAt: '2025-01-01T00:00:00.000Z' }));
  }
  stats() {
    const cpu = { cpuMicros: 3, throttledPeriods: 0, pids: 1, pidsRefused: 0, oomKills: 0 };
    return { memoryBytes: 1, memoryPeakBytes: 2, ...cpu };
  }
  log() {
    return { chunks: [{ channel: 'stdout' as const, data: Buffer.from('hello\n') }], omittedBytes: 7 };
  }
  async end(reason: EndReason): Promise<void> {
    this.#ending ??= reason;
    for (const exec of this.execsMade) exec.kill();
    this.#settle(this.info());
  }
}

export class FakeSandboxes implements Sandboxes {
  readonly made: FakeSandbox[] = [];

  async create(options: CreateOptions): Promise<FakeSandbox> {
    if (options.request.class === 'broken') {
      throw new SallyportError('start_failed', 'Cannot start: /var/lib/sallyport/boxes/x/config.json is not there');
    }
    if (options.request.class === 'bug') throw new TypeError('undefined is not a function in /opt/secret/place.js');
    const sandbox = new FakeSandbox(`sb-${this.made.length}`, options);
    this.made.push(sandbox);
    return sandbox;
  }
  get(id: string): FakeSandbox {
    const sandbox = this.made.find((made) => made.id === id && made.info().state === 'running');
    if (sandbox === undefined) throw new SallyportError('sandbox_not_found', `Cannot find sandbox ${id}`);
    return sandbox;
  }
  list({ ended = false }: { ended?: boolean } = {}): SandboxInfo[] {
    const infos = this.made.map((sandbox) => sandbox.info());
    return infos.filter(({ state }) => ended || state !== 'ended');
  }
  get policy(): never {
    throw new Error('the fake has no policy');
  }
  adopt(): number {
    return this.made.length;
  }
  stagedInputs(): undefined {
    return undefined;
  }
  async close(): Promise<void> {
    for (const sandbox of this.made) await sandbox.end('daemon-stop');
  }
}
