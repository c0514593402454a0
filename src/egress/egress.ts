/**
 * The way out of one sandbox: it serves the sockets in its namespace, and whatever leaves has been decided here. When it is
 * closed, or the daemon dies, the sockets are gone and with them the way.
 */
import type { Resolver } from 'node:dns/promises';
import { createServer, type Server, type Socket } from 'node:net';
import type { NetworkGrant } from '../admission/network.ts';
import { type IpAddress, parseIpAddress } from '../network/ip-address.ts';
import { BudgetMeter } from './budget.ts';
import type { NameAnswer, Question } from './dns/answer.ts';
import { type DnsServer, serveDns } from './dns/server.ts';
import { TokenBucket } from './flow/bandwidth.ts';
import { Flow } from './flow/flow.ts';
import { type ClosableHttpSide, openHttpSide } from './http/server.ts';
import { Judge } from './judge.ts';
import { EgressLog } from './records.ts';
import type { Explanation } from './rules/explain.ts';
import { SyntheticAddresses } from './synthetic-addresses.ts';
import type { Authority } from './tls/authority.ts';
import type { Attempt, Decision, Denial, Target } from './types.ts';
import { dial } from './upstream.ts';

export interface EgressParts {
  readonly grant: NetworkGrant;
  readonly sockets: { readonly tcp4: number; readonly tcp6: number; readonly dns4: number; readonly dns6: number };
  /** Where a connection wanted to go before it was redirected; throws when it was not. */
  readonly destinationOf: (fd: number) => { readonly address: string; readonly port: number };
  readonly resolver: Resolver;
  /** Ports that no rule can open: the daemon's own. */
  readonly daemonPorts: ReadonlySet<number>;
  readonly authority?: Authority;
  /** PEM certificates that upstreams may be signed by, besides the usual roots. */
  readonly upstreamRoots?: readonly string[];
  readonly onFault: (error: unknown) => void;
}

/** Connections of a sandbox at once; see docs/limits.md. */
const dnsPort = 53;
const mostFlows = 1_024;
const flowIdleMs = 15 * 60_000;
const sweepMs = 30_000;

export interface Egress {
  readonly log: EgressLog;
  readonly phase: string | undefined;
  readonly flows: number;
  explain(attempt: Attempt): Explanation;
  /** @throws SallyportError `invalid_request` */
  enter(phase: string): void;
  tighten(grant: NetworkGrant): void;
  /** Packets that were refused in the namespace. */
  addPackets(packets: readonly { protocol: string; address: string; port?: number }[], lost: number): void;
  close(): void;
}

export function openEgress(parts: EgressParts): Egress {
  return new SandboxEgress(parts);
}

class SandboxEgress implements Egress {
  readonly log = new EgressLog();
  readonly #parts: EgressParts;
  readonly #judge: Judge;
  readonly #meter: BudgetMeter;
  readonly #names = new SyntheticAddresses();
  readonly #flows = new Set<Flow>();
  readonly #buckets = new Map<string, TokenBucket>();
  readonly #dns: DnsServer;
  readonly #http: ClosableHttpSide;
  readonly #servers: readonly Server[];
  readonly #sweeper: NodeJS.Timeout;
  #isClosed = false;

  constructor(parts: EgressParts) {
    const { grant, sockets } = parts;
    this.#parts = parts;
    this.#judge = new Judge(grant, parts.daemonPorts);
    this.#meter = new BudgetMeter(grant.mode === 'deny' ? undefined : grant.budget);
    this.#dns = serveDns(sockets, {
      judge: (question) => this.#answer(question),
      onQuestion: (question, isAnswered) => this.#recordQuestion(question, isAnswered),
      onDropped: (count) => this.log.addLost(count),
    });
    this.#http = openHttpSide({
      judge: this.#judge,
      meter: this.#meter,
      log: this.log,
      dial: (target, port, signal) => this.#dial(target, port, signal),
      onFault: parts.onFault,
      upstreamRoots: parts.upstreamRoots ?? [],
      ...(parts.authority === undefined ? {} : { authority: parts.authority }),
    });
    this.#servers = [this.#listen(sockets.tcp4), this.#listen(sockets.tcp6)];
    this.#sweeper = setInterval(() => this.#sweep(), sweepMs).unref();
  }

  get phase(): string | undefined {
    return this.#judge.phase;
  }

  get flows(): number {
    return this.#flows.size;
  }

  explain(attempt: Attempt): Explanation {
    return this.#judge.explain(attempt);
  }

  enter(phase: string): void {
    this.#judge.enter(phase);
    this.#judgeAgain();
  }

  tighten(grant: NetworkGrant): void {
    this.#judge.tighten(grant);
    this.#meter.tighten(grant.mode === 'deny' ? undefined : grant.budget);
    // made anew, at the rate of now
    this.#buckets.clear();
    this.#judgeAgain();
  }

  addPackets(packets: readonly { protocol: string; address: string; port?: number }[], lost: number): void {
    this.log.addLost(lost);
    const counts = new Map<string, { packet: (typeof packets)[number]; count: number }>();
    for (const packet of packets) {
      const key = `${packet.protocol} ${packet.address} ${packet.port}`;
      counts.set(key, { packet, count: (counts.get(key)?.count ?? 0) + 1 });
    }
    for (const { packet, count } of counts.values()) this.#recordPacket(packet, count);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearInterval(this.#sweeper);
    for (const server of this.#servers) server.close();
    this.#dns.close();
    for (const flow of [...this.#flows]) flow.fail('the sandbox ended');
    this.#parts.authority?.dispose();
  }

  #listen(fd: number): Server {
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true }, (socket) =>
      this.#accept(socket),
    );
    server.on('error', (error) => this.#parts.onFault(error));
    return server.listen({ fd });
  }

  #accept(socket: Socket): void {
    const destination = this.#destinationOf(socket);
    if (destination === undefined) {
      socket.destroy();
      return;
    }
    if (destination.port === dnsPort) {
      this.#dns.serve(socket);
      return;
    }
    const target = this.#targetOf(destination.address);
    if (target === undefined || this.#flows.size >= mostFlows) {
      this.#turnAway(socket, destination, target);
      return;
    }
    const flow = new Flow(
      {
        judge: this.#judge,
        meter: this.#meter,
        log: this.log,
        http: this.#http,
        dial: (to, port, signal) => this.#dial(to, port, signal),
        bucketOf: (rule, direction, rate) => this.#bucketOf(rule, direction, rate),
        onEnd: (ended) => this.#flows.delete(ended),
        onFault: (error) => this.#parts.onFault(error),
      },
      socket,
      target,
      destination.port,
    );
    this.#flows.add(flow);
    void flow.run();
  }

  /** Undefined for a connection made to our own port: there is no other end to it. */
  #destinationOf(socket: Socket): { readonly address: IpAddress; readonly port: number } | undefined {
    try {
      const { address, port } = this.#parts.destinationOf(fdOf(socket));
      const parsed = parseIpAddress(address);
      if (parsed === undefined || (port !== dnsPort && isLoopback(parsed))) return undefined;
      return { address: parsed, port };
    } catch {
      return undefined;
    }
  }

  #targetOf(address: IpAddress): Target | undefined {
    if (!SyntheticAddresses.isSynthetic(address)) return { kind: 'address', address };
    const host = this.#names.hostOf(address);
    return host === undefined ? undefined : { kind: 'host', host };
  }

  #turnAway(socket: Socket, { address, port }: { address: IpAddress; port: number }, target: Target | undefined): void {
    socket.on('error', () => undefined).resetAndDestroy();
    const reason =
      target === undefined
        ? 'The address is of the range for names, and stands for none.'
        : `More than ${mostFlows} connections at once.`;
    const code = target === undefined ? 'no_rule' : 'too_many';
    const host = target?.kind === 'host' ? target.host : null;
    this.log.add({ kind: 'connection', verdict: 'deny', code, reason, host, address: address.text, port });
  }

  #dial(target: Target, port: number, signal: AbortSignal): ReturnType<typeof dial> {
    const judgeAddress = (address: IpAddress, to: number): Denial | undefined => this.#judge.judgeAddress(address, to);
    return dial({ resolver: this.#parts.resolver, judgeAddress }, target, port, signal);
  }

  #bucketOf(rule: string, direction: 'up' | 'down', rate: number): TokenBucket {
    const key = `${direction} ${rule}`;
    const known = this.#buckets.get(key) ?? new TokenBucket(rate, performance.now());
    this.#buckets.set(key, known);
    return known;
  }

  #answer({ host }: { readonly host: NonNullable<Question['host']> }): NameAnswer {
    if (this.#judge.decide({ target: { kind: 'host', host } }).verdict === 'deny') return { kind: 'refused' };
    const address = this.#names.addressOf(host);
    return address === undefined ? { kind: 'full' } : { kind: 'address', address };
  }

  #recordQuestion({ host, name, type }: Question, isAnswered: boolean): void {
    const decision = host === undefined ? notAName : this.#judge.decide({ target: { kind: 'host', host } });
    const denial = decision.verdict === 'deny' ? decision : decision.wouldDeny;
    this.log.add({
      kind: 'dns',
      verdict: decision.verdict === 'deny' ? 'deny' : denial === undefined ? 'allow' : 'would-deny',
      rule: decision.rule,
      code: denial?.code ?? null,
      reason: denial?.reason ?? null,
      host: host ?? name,
      protocol: type,
      port: dnsPort,
      fault: decision.verdict === 'allow' && !isAnswered ? 'no address is left for another name' : null,
    });
  }

  #recordPacket(
    { protocol, address, port }: { protocol: string; address: string; port?: number },
    count: number,
  ): void {
    const reason = `${protocol.toUpperCase()} is not carried: TCP and DNS are.`;
    this.log.add({
      kind: 'packet',
      verdict: 'deny',
      code: 'not_carried',
      reason,
      protocol,
      address,
      port: port ?? null,
      count,
    });
  }

  #judgeAgain(): void {
    this.#http.flush();
    for (const flow of [...this.#flows]) flow.judgeAgain();
  }

  #sweep(): void {
    for (const flow of [...this.#flows]) if (flow.idleMs() > flowIdleMs) flow.fail('nothing passed for a long time');
  }
}

const notAName: Decision = { verdict: 'deny', code: 'no_rule', rule: null, reason: 'This is no host name.' };

/** The namespace redirects none of these but questions: a connection that arrives was made to our socket itself. */
function isLoopback({ text, bytes }: IpAddress): boolean {
  return bytes.length === 4 ? bytes[0] === 127 : text === '::1';
}

/** Node has no public way to the fd of an accepted connection. */
function fdOf(socket: Socket): number {
  return (socket as unknown as { readonly _handle: { readonly fd: number } })._handle.fd;
}
