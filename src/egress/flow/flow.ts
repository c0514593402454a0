/**
 * One TCP connection out of a sandbox: where it wanted to go, what its first bytes are, what is decided, and how it ends. It is
 * recorded once, when it is over.
 */
import type { Socket } from 'node:net';
import type { NetworkRule } from '../../admission/network.ts';
import type { IpAddress } from '../../network/ip-address.ts';
import { printable } from '../records.ts';
import type { Attempt, AttemptContent, Decision, Denial, Handling, Target } from '../types.ts';
import type { TokenBucket } from './bandwidth.ts';
import { classify, type FirstBytes } from './classify.ts';
import { peek } from './peek.ts';
import { pump } from './pump.ts';
import type { FlowParts } from './types.ts';

/** A client that says nothing for so long has nothing to say; where the server speaks first a `tcp` rule dials at once. */
const firstBytesMs = 10_000;
/** So long a refused connection may take to say what it wants, for an answer it can read. */
const refusedFirstBytesMs = 1_000;

export class Flow {
  readonly inside: Socket;
  readonly target: Target;
  readonly port: number;
  readonly #parts: FlowParts;
  readonly #startedMs = performance.now();
  readonly #startedAt = new Date().toISOString();
  readonly #abort = new AbortController();
  /** What was allowed last; judged again when the policy changes. */
  #attempt: Attempt;
  readonly #requests = new Set<Attempt>();
  #decision: Decision | undefined;
  #protocol: string | null = null;
  readonly #dialled: IpAddress[] = [];
  #upBytes = 0;
  #downBytes = 0;
  #lastByteMs = performance.now();
  #isRecorded = false;
  #endedBy: Denial | undefined;

  constructor(parts: FlowParts, inside: Socket, target: Target, port: number) {
    this.#parts = parts;
    this.inside = inside;
    this.target = target;
    this.port = port;
    this.#attempt = { target, port };
    inside.on('error', () => inside.destroy());
    inside.once('close', () => this.#abort.abort());
  }

  /** Never rejects: whatever goes wrong ends the connection and is recorded. */
  async run(): Promise<void> {
    try {
      await this.#run();
    } catch (error) {
      this.#parts.onFault(error);
      this.finish('an internal error');
    }
  }

  get attempt(): Attempt {
    return this.#attempt;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Milliseconds without a byte either way. */
  idleMs(): number {
    return performance.now() - this.#lastByteMs;
  }

  /** The rules have changed: what they forbid now is over at once (NX-34), and so is what they no longer let pass unseen. */
  judgeAgain(): void {
    const { judge } = this.#parts;
    const denials = [
      ...[this.#attempt, ...this.#requests].map((attempt) => this.#nowDenied(attempt)),
      ...this.#dialled.map((address) => judge.judgeAddress(address, this.port)),
    ];
    const denial = denials.find(Boolean);
    if (denial !== undefined) this.end(denial);
  }

  /** A request that is under way is judged again with the connection. @returns the way to say that it is over */
  hold(attempt: Attempt): () => void {
    this.#requests.add(attempt);
    return () => this.#requests.delete(attempt);
  }

  end(denial: Denial): void {
    this.#endedBy ??= denial;
    this.inside.resetAndDestroy();
    this.finish(null);
  }

  /** Counts bytes and holds them to budget and bandwidth. */
  onBytes(direction: 'up' | 'down', bytes: number): number | 'stop' {
    this.#lastByteMs = performance.now();
    const over = this.charge(direction, bytes);
    if (over !== undefined) {
      this.#endedBy ??= over;
      return 'stop';
    }
    return this.#bucket(direction)?.take(bytes, this.#lastByteMs) ?? 0;
  }

  /** Counts bytes that are about to pass; a denial when they are more than is left. */
  charge(direction: 'up' | 'down', bytes: number): Denial | undefined {
    const over = this.#parts.meter.charge(this.rule(), direction === 'up' ? 'upBytes' : 'downBytes', bytes);
    if (over !== undefined) return over;
    if (direction === 'up') this.#upBytes += bytes;
    else this.#downBytes += bytes;
    return undefined;
  }

  rule(): NetworkRule | undefined {
    return this.#parts.judge.rule(this.#decision?.rule ?? null);
  }

  /** Dials the target and makes the two one. @param head what was looked at, for a refusal that fits it */
  async splice(head: Buffer): Promise<void> {
    const dialled = await this.#parts.dial(this.target, this.port, this.signal);
    if (dialled.kind === 'denied') return this.#refuse(dialled.denial, head);
    if (dialled.kind === 'failed') return this.fail(dialled.fault);
    this.addDialled(dialled.address);
    const { inside } = this;
    pump({
      inside,
      outside: dialled.socket,
      onBytes: (direction, bytes) => this.onBytes(direction, bytes),
      onClosed: (fault) => this.finish(fault),
    });
    inside.resume();
  }

  /** An address that this connection has gone to; judged again when the rules change. */
  addDialled(address: IpAddress): void {
    this.#dialled.push(address);
  }

  fail(fault: string): void {
    this.inside.resetAndDestroy();
    this.finish(fault);
  }

  /** Records the connection, once. */
  finish(fault: string | null): void {
    if (!this.inside.destroyed) this.inside.destroy();
    if (this.#isRecorded) return;
    this.#isRecorded = true;
    this.#parts.onEnd(this);
    const decision = this.#decision;
    const denial = this.#endedBy ?? (decision?.verdict === 'deny' ? decision : decision?.wouldDeny);
    const isDenied = this.#endedBy !== undefined || decision?.verdict !== 'allow';
    this.#parts.log.add({
      kind: 'connection',
      at: this.#startedAt,
      verdict: isDenied ? 'deny' : denial === undefined ? 'allow' : 'would-deny',
      rule: denial?.rule ?? decision?.rule ?? null,
      code: denial?.code ?? null,
      reason: denial?.reason ?? (decision === undefined ? 'It ended before anything was decided.' : null),
      host: this.target.kind === 'host' ? this.target.host : null,
      address: this.#dialled.at(-1)?.text ?? (this.target.kind === 'address' ? this.target.address.text : null),
      port: this.port,
      protocol: this.#protocol,
      upBytes: this.#upBytes,
      downBytes: this.#downBytes,
      durationMs: Math.round(performance.now() - this.#startedMs),
      fault,
    });
  }

  async #run(): Promise<void> {
    const { judge } = this.#parts;
    // a rule for raw bytes lets anything pass, so nothing is waited for: the server may be the one to speak first
    const raw = this.#judge({ protocol: 'raw' });
    if (raw.verdict === 'allow' && raw.wouldDeny === undefined) return this.#allowed(raw, 'raw', Buffer.alloc(0));
    const open = judge.decide({ target: this.target, port: this.port });
    if (open.verdict === 'deny') return this.#refuse(open, undefined);
    const { bytes, why } = await peek(this.inside, (sofar) => classify(sofar).kind !== 'more', firstBytesMs);
    if (bytes.length === 0) return this.#silent(open, why);
    const first = classify(bytes);
    this.#lastByteMs = performance.now();
    return this.#classified(first, bytes);
  }

  async #classified(first: FirstBytes, head: Buffer): Promise<void> {
    if (first.kind === 'http') return this.#http(head);
    if (first.kind === 'tls') return this.#tls(first.hello, head);
    if (first.kind === 'malformed' || first.kind === 'more') {
      const reason = first.kind === 'more' ? 'The first bytes do not say what they are.' : `Not TLS: ${first.reason}.`;
      return this.#refuse({ code: 'malformed', rule: null, reason }, head);
    }
    return this.#allowed(this.#judge({ protocol: 'raw' }), 'raw', head);
  }

  async #tls(hello: Extract<FirstBytes, { kind: 'tls' }>['hello'], head: Buffer): Promise<void> {
    const { serverName, serverNameText, encryptedHello } = hello;
    if (serverName === undefined && serverNameText !== undefined) {
      const reason = `The server name ${printable(serverNameText)} is no host name.`;
      return this.#refuse({ code: 'server_name_mismatch', rule: null, reason }, head);
    }
    const content = { protocol: 'tls', encryptedHello, ...(serverName === undefined ? {} : { serverName }) } as const;
    return this.#allowed(this.#judge(content), 'tls', head);
  }

  /** Each request will be judged; the connection as such may be one of some rule's. */
  async #http(head: Buffer): Promise<void> {
    this.#protocol = 'http';
    const decision = this.#parts.judge.decide({ target: this.target, port: this.port });
    return this.#allowed(decision.verdict === 'allow' ? { ...decision, handling: 'http' } : decision, 'http', head);
  }

  #judge(content: AttemptContent): Decision {
    const attempt = { target: this.target, port: this.port, content };
    const decision = this.#parts.judge.decide(attempt);
    // what it turned out to be is what is judged again; the question about raw bytes is asked of every connection
    if (decision.verdict === 'allow' && decision.wouldDeny === undefined) this.#attempt = attempt;
    return decision;
  }

  async #allowed(decision: Decision, protocol: string, head: Buffer): Promise<void> {
    this.#protocol = protocol;
    if (decision.verdict === 'deny') return this.#refuse(decision, head);
    this.#decision = decision;
    const { meter } = this.#parts;
    const over = meter.charge(this.rule(), 'connections', 1) ?? meter.exhausted(this.rule());
    if (over !== undefined) return this.#refuse(over, head);
    await this.#handle(decision.handling, head);
  }

  async #handle(handling: Handling, head: Buffer): Promise<void> {
    if (handling === 'splice') return this.splice(head);
    if (handling === 'http') return this.#parts.http.servePlain(this);
    return this.#parts.http.serveOpened(this);
  }

  /** HTTP gets an answer that a model can read, anything else a reset. */
  async #refuse(denial: Denial, head: Buffer | undefined): Promise<void> {
    this.#decision = undefined;
    this.#endedBy = denial;
    const first =
      head ?? (await peek(this.inside, (bytes) => classify(bytes).kind !== 'more', refusedFirstBytesMs)).bytes;
    const kind = classify(first).kind;
    if (this.#protocol === null && kind !== 'more') this.#protocol = kind === 'malformed' ? 'raw' : kind;
    if (await this.#parts.http.refuse(this, denial, kind)) return;
    this.inside.resetAndDestroy();
    this.finish(null);
  }

  #nowDenied(attempt: Attempt): Denial | undefined {
    const decision = this.#parts.judge.decide(attempt);
    if (decision.verdict === 'deny') return decision;
    const wasSpliced = this.#decision?.verdict === 'allow' && this.#decision.handling === 'splice';
    if (!wasSpliced || decision.handling === 'splice') return undefined;
    const reason = 'The rules that bind now have its requests seen; connect again.';
    return { code: 'wrong_protocol', rule: decision.rule, reason };
  }

  #silent(open: Decision, why: string): void {
    if (why === 'ended') {
      this.#decision = open;
      this.finish(null);
      return;
    }
    this.end({ code: 'malformed', rule: open.rule, reason: `Nothing was sent in ${firstBytesMs / 1000} s.` });
  }

  #bucket(direction: 'up' | 'down'): TokenBucket | undefined {
    const rule = this.rule();
    const rate = rule?.bandwidth?.[direction === 'up' ? 'upBytesPerSecond' : 'downBytesPerSecond'];
    return rule === undefined || rate === undefined ? undefined : this.#parts.bucketOf(rule.id, direction, rate);
  }
}
