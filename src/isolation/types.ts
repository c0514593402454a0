/** The driver interface every tier fulfils. Only values, sockets and streams cross it (the privilege seam). */
import type { Duplex } from 'node:stream';
import type { Grant, Tier } from '../admission/grant.ts';
import type { LoggedPacket } from '../linux/netfilter-log.ts';
import type { CgroupUsage } from '../linux/types.ts';
import type { Image, InputFile } from '../workspace/types.ts';
import type { TrapSockets } from './trap/netns.ts';

/** What a tier can do on this host, found out by really starting a sandbox in it. */
export type Capability =
  | {
      readonly tier: Tier;
      readonly available: true;
      readonly runtime: string;
      readonly version: string;
      readonly startMs: number;
    }
  | { readonly tier: Tier; readonly available: false; readonly reason: string };

export interface BoxSpec {
  readonly id: string;
  readonly grant: Grant;
  readonly image: Image;
  /** Host paths that the operator named; copied, hashed and shown read-only at /inputs. */
  readonly inputs: readonly string[];
}

export type BoxLimit = 'oom' | 'pids';

/** A started sandbox: PID 1 runs and its channel is open. */
export interface Box {
  readonly id: string;
  readonly inputs: readonly InputFile[];
  /** The frames of `docs/init-protocol.md`. */
  readonly channel: Duplex;
  readonly runtime: { readonly name: string; readonly version: string };
  /** The sockets at which all its connections and DNS questions end; once, and then the caller's to serve and close. */
  takeTrap(): TrapSockets;
  /** Where a connection to one of these sockets wanted to go. @throws Error when it went to the socket itself */
  destinationOf(fd: number): { readonly address: string; readonly port: number };
  /** Told of packets that were refused without a socket (UDP, ICMP, …), and how many more there were that could not be told. */
  onRefusedPackets(listener: (packets: readonly LoggedPacket[], lost: number) => void): void;
  /** Called at most once per limit. */
  onLimit(listener: (limit: BoxLimit) => void): void;
  /** Settles when PID 1 is gone, whoever ended it. */
  readonly exited: Promise<void>;
  stats(): CgroupUsage;
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  /** Ends it and takes back everything it held; safe to call twice. Settles when nothing is left on the host. */
  end(): Promise<void>;
}

export interface Driver {
  readonly tier: Tier;
  /** @param image an image this tier can start */
  exercise(image: Image): Promise<Capability>;
  /** @throws SallyportError `start_failed`, `runtime_missing`, `host_disk_full`, `deadline` */
  start(spec: BoxSpec): Promise<Box>;
}
