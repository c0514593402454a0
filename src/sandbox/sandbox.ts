/**
 * One living sandbox: the box of the host side, the conversation with its init, its deadlines and its limits.
 * However it ends, it ends once, with one reason, and `end` settles when nothing of it is left on the host.
 */
import { randomBytes } from 'node:crypto';
import { posix } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { StampedGrant } from '../admission/grant.ts';
import { narrowNetwork } from '../admission/narrow-network.ts';
import type { NetworkRequest } from '../admission/network.ts';
import type { Egress } from '../egress/egress.ts';
import { attemptOfUrl, type Explanation } from '../egress/rules/explain.ts';
import { asSallyportError, SallyportError } from '../errors/error.ts';
import type { Identity, InitClient, OutputChunk } from '../init/types.ts';
import type { Box, BoxLimit } from '../isolation/types.ts';
import type { CgroupUsage } from '../linux/types.ts';
import type { InputFile } from '../workspace/types.ts';
import { endSentence } from './end-sentences.ts';
import { SandboxExec } from './exec.ts';
import { openFiles } from './files.ts';
import { OutputLog } from './output-log.ts';
import type { EndReason, Exec, ExecSpec, Files, LimitName, Sandbox, SandboxInfo, SandboxState } from './types.ts';

export interface SandboxParts {
  readonly id: string;
  readonly stamped: StampedGrant;
  readonly box: Box;
  readonly client: InitClient;
  readonly egress: Egress;
  /** Added to every command's environment, below the Grant's: where the trust in opened TLS is kept. */
  readonly trustEnv: Readonly<Record<string, string>>;
  readonly user: { readonly uid: number; readonly gid: number; readonly home: string };
  readonly metadata: Readonly<Record<string, string>>;
  readonly createdAt: Date;
  /** Told of an end that did not succeed at once. */
  readonly onFault: (error: SallyportError) => void;
}

const endAttempts = 30;
const endRetryMs = 1_000;

export class LiveSandbox implements Sandbox {
  readonly id: string;
  readonly stamped: StampedGrant;
  readonly inputs: readonly InputFile[];
  readonly files: Files;
  readonly egress: Egress;
  readonly ended: Promise<SandboxInfo>;
  readonly #parts: SandboxParts;
  readonly #execs = new Map<string, SandboxExec>();
  readonly #log = new OutputLog();
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #settleEnded: (info: SandboxInfo) => void;
  #state: SandboxState = 'running';
  #lastUseMs = performance.now();
  #idleTimer: NodeJS.Timeout | undefined;
  #end: { readonly reason: EndReason; readonly detail: string; readonly at: Date } | undefined;
  #ending: Promise<void> | undefined;

  constructor(parts: SandboxParts) {
    this.#parts = parts;
    this.id = parts.id;
    this.stamped = parts.stamped;
    this.inputs = parts.box.inputs;
    this.egress = parts.egress;
    let settle: (info: SandboxInfo) => void = () => undefined;
    this.ended = new Promise((resolve) => {
      settle = resolve;
    });
    this.#settleEnded = settle;
    this.files = openFiles({
      client: parts.client,
      identity: this.#identity('user'),
      workdir: parts.stamped.grant.files.workdir,
      onUse: () => this.#use(),
      endedError: () => this.#endedError(),
    });
    this.#watch();
  }

  info(): SandboxInfo {
    const { box, createdAt, metadata, stamped } = this.#parts;
    const { grant, digest } = stamped;
    return {
      id: this.id,
      state: this.#state,
      class: grant.class,
      grantDigest: digest,
      tier: grant.isolation.tier,
      image: grant.image,
      runtime: box.runtime,
      createdAt: createdAt.toISOString(),
      deadlineAt: new Date(createdAt.getTime() + grant.lifetime.wallMs).toISOString(),
      ...(this.#end === undefined
        ? {}
        : { endedAt: this.#end.at.toISOString(), endReason: this.#end.reason, endDetail: this.#end.detail }),
      metadata,
    };
  }

  exec(spec: ExecSpec): Exec {
    this.#use();
    const { grant } = this.stamped;
    if (spec.user === 'root' && !grant.isolation.root) {
      throw new SallyportError('request_widens', `Cannot run as root: class ${grant.class} has no root`);
    }
    const stream = this.#parts.client.spawn({
      identity: this.#identity(spec.user ?? 'user'),
      argv: spec.argv,
      env: {
        ...this.#parts.trustEnv,
        ...grant.env,
        ...(spec.pty === undefined ? {} : { TERM: 'xterm-256color' }),
        ...spec.env,
      },
      cwd: posix.resolve(grant.files.workdir, spec.cwd ?? '.'),
      ...(spec.pty === undefined ? {} : { pty: spec.pty }),
      stdin: spec.stdin ?? false,
      killTreeOnExit: spec.killTreeOnExit ?? false,
      root: grant.isolation.root,
      openFiles: grant.limits.openFiles,
    });
    const exec = new SandboxExec({
      id: `ex-${randomBytes(8).toString('hex')}`,
      argv: spec.argv.map((argument) => argument.toString()),
      timeoutMs: Math.min(spec.timeoutMs ?? grant.limits.execMs, grant.limits.execMs),
      graceMs: spec.graceMs,
      outputBytes: grant.limits.outputBytes,
      stream,
      onOutput: (chunk) => this.#log.add(chunk),
      blame: () => {
        const limit = this.#blame();
        return limit === undefined ? undefined : { limit, detail: this.#sentence(limit) };
      },
      onStuck: () => void this.end('init-lost', 'The sandbox did not end a command that was killed.'),
    });
    this.#execs.set(exec.id, exec);
    void exec.result.catch(() => undefined).finally(() => this.#forget(exec));
    return exec;
  }

  explain(url: string, method?: string): Explanation {
    const attempt = attemptOfUrl(url, method);
    if ('problem' in attempt)
      throw new SallyportError('invalid_request', `Cannot explain ${JSON.stringify(url)}: ${attempt.problem}`);
    return this.egress.explain(attempt);
  }

  tighten(network: NetworkRequest): void {
    this.#use();
    this.egress.tighten(narrowNetwork(this.stamped.grant.network, network));
  }

  execById(id: string): Exec {
    const exec = this.#execs.get(id);
    if (exec !== undefined) return exec;
    throw new SallyportError('exec_not_found', `Cannot find exec ${JSON.stringify(id)} in sandbox ${this.id}`);
  }

  execs(): readonly { id: string; argv: readonly string[]; startedAt: string }[] {
    return [...this.#execs.values()].map(({ id, argv, startedAt }) => ({ id, argv, startedAt }));
  }

  stats(): CgroupUsage {
    return this.#parts.box.stats();
  }

  log(): { readonly chunks: readonly OutputChunk[]; readonly omittedBytes: number } {
    return this.#log.read();
  }

  end(reason: EndReason, detail = this.#sentence(reason)): Promise<void> {
    this.#ending ??= this.#finish(reason, detail);
    return this.#ending;
  }

  async #finish(reason: EndReason, detail: string): Promise<void> {
    this.#state = 'ending';
    this.#end = { reason, detail, at: new Date() };
    for (const timer of this.#timers) clearTimeout(timer);
    clearTimeout(this.#idleTimer);
    this.egress.close();
    const limit = reason in limitOfReason ? (limitOfReason[reason] ?? null) : null;
    // init-lost is no result: those execs fail with that error (PX-31)
    if (reason !== 'init-lost') for (const exec of this.#execs.values()) exec.condemn(limit, detail);
    this.#parts.client.close();
    await this.#endBox();
    this.#state = 'ended';
    this.#settleEnded(this.info());
  }

  /**
   * Never rejects, as most ends have nobody who waits for them. A box that does not end (its disk is slow to let go) stays
   * `ending` and is tried again; what is left after that is found by the next start.
   */
  async #endBox(): Promise<void> {
    for (let attempt = 1; attempt <= endAttempts; attempt++) {
      try {
        await this.#parts.box.end();
        return;
      } catch (error) {
        this.#parts.onFault(asSallyportError(error));
      }
      await sleep(endRetryMs);
    }
  }

  #watch(): void {
    const { box, client, stamped, createdAt } = this.#parts;
    const { wallMs } = stamped.grant.lifetime;
    const leftMs = Math.max(0, createdAt.getTime() + wallMs - Date.now());
    box.onRefusedPackets((packets, lost) => this.egress.addPackets(packets, lost));
    box.onLimit((limit) => this.#onKernelLimit(limit));
    this.#timers.push(setTimeout(() => void this.end('wall'), leftMs));
    this.#armIdle();
    client.onDisk(({ freeBytes, freeInodes }) => this.#onDiskFull(freeBytes, freeInodes));
    void client.lost.then(({ detail }) => this.#onLost(detail));
  }

  /** PID 1 or its channel is gone: an OOM kill explains it, else it was lost. */
  #onLost(detail: string): void {
    if (this.#ending !== undefined) return;
    const limit = this.#blame();
    if (limit !== undefined) void this.end(limit);
    else void this.end('init-lost', `The sandbox's init is gone: ${detail}`);
  }

  #onKernelLimit(limit: BoxLimit): void {
    void this.end(limit);
  }

  /** The commands are ended, the sandbox stays: what they made can still be read or removed. */
  #onDiskFull(freeBytes: number, freeInodes: number): void {
    const { diskBytes, inodes } = this.stamped.grant.limits;
    const what = freeInodes === 0 ? `all ${inodes} inodes` : `all ${diskBytes} bytes`;
    for (const exec of this.#execs.values())
      exec.stop('disk', `The workspace is full: ${what} are used (${freeBytes} bytes free).`);
  }

  #sentence(reason: EndReason): string {
    return endSentence(reason, this.stamped.grant);
  }

  #blame(): BoxLimit | undefined {
    const { oomKills, pidsRefused } = this.#parts.box.stats();
    if (oomKills > 0) return 'oom';
    return pidsRefused > 0 ? 'pids' : undefined;
  }

  #identity(user: 'user' | 'root'): Identity {
    const { uid, gid } = this.#parts.user;
    return user === 'root' ? { uid: 0, gid: 0, groups: [] } : { uid, gid, groups: [] };
  }

  /** Every call counts as use. @throws SallyportError `sandbox_ended` */
  #use(): void {
    this.#lastUseMs = performance.now();
    const ended = this.#endedError();
    if (ended !== undefined) throw ended;
  }

  #endedError(): SallyportError | undefined {
    if (this.#end === undefined) return undefined;
    const { reason, detail } = this.#end;
    return new SallyportError('sandbox_ended', `Cannot use sandbox ${this.id}: it ended (${reason}). ${detail}`);
  }

  #forget(exec: SandboxExec): void {
    this.#execs.delete(exec.id);
    this.#lastUseMs = performance.now();
  }

  /** One timer, armed again when it fires too early: use costs nothing but a clock read. */
  #armIdle(): void {
    if (this.#ending !== undefined) return;
    const { idleMs } = this.stamped.grant.lifetime;
    const idleForMs = this.#execs.size > 0 ? 0 : performance.now() - this.#lastUseMs;
    if (idleForMs >= idleMs) {
      void this.end('idle');
      return;
    }
    this.#idleTimer = setTimeout(() => this.#armIdle(), idleMs - idleForMs);
  }
}

const limitOfReason: Readonly<Partial<Record<EndReason, LimitName>>> = {
  wall: 'wall',
  idle: 'idle',
  oom: 'oom',
  disk: 'disk',
  output: 'output',
  pids: 'pids',
};
