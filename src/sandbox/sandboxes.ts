/**
 * All sandboxes of one process: creation, the list, the end. What must be known after a restart is in the store; what
 * a killed predecessor left is found and removed when this is opened.
 */
import { randomBytes } from 'node:crypto';
import type { Resolver } from 'node:dns/promises';
import { grantOrThrow } from '../admission/admit.ts';
import type { Grant, StampedGrant } from '../admission/grant.ts';
import { findClass, type Policy } from '../admission/policy.ts';
import { type Egress, openEgress } from '../egress/egress.ts';
import { openResolver } from '../egress/upstream.ts';
import { asSallyportError, SallyportError } from '../errors/error.ts';
import type { HostSide, ReconcileReport } from '../host/types.ts';
import { openInitClient } from '../init/client.ts';
import type { InitClient } from '../init/types.ts';
import type { Box } from '../isolation/types.ts';
import type { SandboxRepository } from '../store/sandbox-repository.ts';
import { LiveSandbox } from './sandbox.ts';
import { installTrust, openAuthority } from './trust.ts';
import type { CreateOptions, Sandbox, Sandboxes, SandboxInfo } from './types.ts';

const readyDeadlineMs = 10_000;
/** Ended sandboxes whose info stays in memory when there is no store; see docs/limits.md. */
const endedKept = 1_000;
/** The tasks that sandboxes may have together leave the host this share of kernel.pid_max (RX-02). */
const hostTasksShare = 0.25;

export interface SandboxesOptions {
  readonly host: HostSide;
  readonly policy: Policy;
  readonly store?: SandboxRepository;
  readonly network?: {
    /** Resolvers for allowed names, `address` or `address:port`; default those of the host. */
    readonly resolvers: readonly string[];
    /** PEM certificates that upstreams of opened TLS may be signed by, besides the usual roots. */
    readonly upstreamRoots: readonly string[];
    /** Ports on which the daemon listens: no rule opens them. */
    readonly daemonPorts: ReadonlySet<number>;
  };
  /** Told of what went wrong in the background. */
  readonly onFault?: (error: SallyportError) => void;
}

export interface OpenedSandboxes extends Sandboxes {
  /** What was found and removed at the start. */
  readonly reconciled: ReconcileReport;
}

export async function openSandboxes(options: SandboxesOptions): Promise<OpenedSandboxes> {
  const reconciled = await options.host.reconcile();
  for (const id of reconciled.stuck) {
    options.onFault?.(
      new SallyportError('deadline', `Cannot remove ${id}, left by a process that is gone: it does not end yet`),
    );
  }
  options.store?.endOrphans(new Date());
  return new SandboxRegistry(options, reconciled);
}

class SandboxRegistry implements OpenedSandboxes {
  readonly reconciled: ReconcileReport;
  readonly #options: SandboxesOptions;
  readonly #live = new Map<string, LiveSandbox>();
  readonly #ended: SandboxInfo[] = [];
  readonly #taskLimit: number;
  readonly #resolver: Resolver;
  readonly #onFault: (error: SallyportError) => void;
  #policy: Policy;
  #tasksPromised = 0;
  #closing = false;

  constructor(options: SandboxesOptions, reconciled: ReconcileReport) {
    this.#options = options;
    this.reconciled = reconciled;
    this.#policy = options.policy;
    this.#onFault = options.onFault ?? (() => undefined);
    this.#resolver = openResolver(options.network?.resolvers ?? []);
    this.#taskLimit = Math.floor(options.host.pidMax() * (1 - hostTasksShare));
  }

  async create(options: CreateOptions): Promise<Sandbox> {
    if (this.#closing) throw new SallyportError('unavailable', 'Cannot create a sandbox: the daemon is stopping');
    const policy = this.#policy;
    const stamped = grantOrThrow(policy, options.request, { images: await this.#options.host.images() });
    const { pids } = stamped.grant.limits;
    this.#promiseTasks(pids);
    try {
      const sandbox = await this.#start(stamped, options);
      // one that was read meanwhile found no sandbox to lay itself over
      if (policy !== this.#policy) this.#layOver(sandbox);
      void sandbox.ended.then((info) => this.#onEnded(info, pids));
      return sandbox;
    } catch (error) {
      this.#tasksPromised -= pids;
      throw error;
    }
  }

  get(id: string): Sandbox {
    const sandbox = this.#live.get(id);
    if (sandbox !== undefined) return sandbox;
    throw new SallyportError('sandbox_not_found', `Cannot find sandbox ${JSON.stringify(id)}`);
  }

  list(filter: { ended?: boolean } = {}): SandboxInfo[] {
    const live = [...this.#live.values()].map((sandbox) => sandbox.info()).reverse();
    return filter.ended === true ? [...live, ...this.#ended] : live;
  }

  get policy(): Policy {
    return this.#policy;
  }

  adopt(policy: Policy): number {
    this.#policy = policy;
    for (const sandbox of this.#live.values()) this.#layOver(sandbox);
    return this.#live.size;
  }

  #layOver(sandbox: LiveSandbox): void {
    const job = findClass(this.#policy, sandbox.stamped.grant.class);
    sandbox.egress.tighten(job?.network ?? { mode: 'deny' });
  }

  async close(): Promise<void> {
    this.#closing = true;
    await Promise.allSettled([...this.#live.values()].map((sandbox) => sandbox.end('daemon-stop')));
    await this.#options.host.close();
  }

  async #start(stamped: StampedGrant, { inputs = [], metadata = {} }: CreateOptions): Promise<LiveSandbox> {
    const id = `sb-${randomBytes(10).toString('hex')}`;
    const createdAt = new Date();
    const { grant } = stamped;
    const { box, user } = await this.#options.host.start({ id, grant, inputs });
    let opened: Egress | undefined;
    try {
      const client = openInitClient(box.channel, { lifetimeMs: grant.lifetime.wallMs, readyDeadlineMs });
      await client.ready;
      const { egress, trustEnv } = await this.#openEgress(id, grant, box, client);
      opened = egress;
      const onFault = this.#onFault;
      const parts = { id, stamped, box, client, egress, trustEnv, user, metadata, createdAt, onFault };
      const sandbox = new LiveSandbox(parts);
      this.#live.set(id, sandbox);
      this.#options.store?.insert(sandbox.info());
      if (this.#closing) await sandbox.end('daemon-stop');
      return sandbox;
    } catch (error) {
      this.#live.delete(id);
      opened?.close();
      await box.end();
      throw error;
    }
  }

  async #openEgress(
    id: string,
    grant: Grant,
    box: Box,
    client: InitClient,
  ): Promise<{ egress: Egress; trustEnv: Readonly<Record<string, string>> }> {
    const authority = await openAuthority(id, grant);
    const trustEnv = authority === undefined ? {} : await installTrust(client, authority.certificatePem);
    const egress = openEgress({
      grant: grant.network,
      sockets: box.takeTrap(),
      destinationOf: (fd) => box.destinationOf(fd),
      resolver: this.#resolver,
      daemonPorts: this.#options.network?.daemonPorts ?? new Set(),
      upstreamRoots: this.#options.network?.upstreamRoots ?? [],
      ...(authority === undefined ? {} : { authority }),
      onFault: (error) => this.#onFault(asSallyportError(error)),
    });
    return { egress, trustEnv };
  }

  /** RX-02: what all sandboxes may fork together stays below what the host can hold. */
  #promiseTasks(pids: number): void {
    if (this.#tasksPromised + pids > this.#taskLimit) {
      const message = `Cannot create a sandbox: its ${pids} tasks and the ${this.#tasksPromised} promised to others are more than the ${this.#taskLimit} that this host gives away`;
      throw new SallyportError('too_many_sandboxes', message);
    }
    this.#tasksPromised += pids;
  }

  /** A store that cannot write (a full disk) must not end the daemon; the next start marks the row. */
  #remember(write: () => void): void {
    try {
      write();
    } catch (error) {
      this.#onFault(asSallyportError(error));
    }
  }

  #onEnded(info: SandboxInfo, pids: number): void {
    this.#live.delete(info.id);
    this.#tasksPromised -= pids;
    this.#ended.unshift(info);
    this.#ended.splice(endedKept);
    this.#remember(() => this.#options.store?.markEnded(info));
  }
}
