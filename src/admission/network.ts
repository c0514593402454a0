/**
 * What a sandbox may reach, as the Grant says it: plain values in canonical spelling, so that the digest of a Grant covers
 * them. How an attempt is judged by them is decided in `egress/rules`.
 */

/** What the first bytes of a connection must be. `https` and `http` are understood request by request; `tls` is let through sealed. */
export const networkProtocols = ['https', 'http', 'tls', 'tcp'] as const;
export type NetworkProtocol = (typeof networkProtocols)[number];

export interface PortRange {
  readonly from: number;
  readonly to: number;
}

/** Most that may pass; what is absent is not bounded here. Counted over the life of the sandbox. */
export interface NetworkBudget {
  readonly connections?: number;
  /** Requests of HTTP that we can see (plain, or opened TLS). */
  readonly requests?: number;
  readonly upBytes?: number;
  readonly downBytes?: number;
}

/** Token buckets, one each way. */
export interface NetworkBandwidth {
  readonly upBytesPerSecond?: number;
  readonly downBytesPerSecond?: number;
}

export interface NetworkRule {
  /** One per class, as records and refusals name it. */
  readonly id: string;
  /** A rule that denies beats every rule that allows. */
  readonly verdict: 'allow' | 'deny';
  /** Patterns of `src/network/host-pattern.ts`; a rule has hosts or cidrs, never both. */
  readonly hosts: readonly string[];
  /** Blocks for connections to raw addresses. */
  readonly cidrs: readonly string[];
  /** These blocks may be private, loopback or the host's own; names that resolve into them may be dialled then too. Metadata addresses never. */
  readonly private: boolean;
  readonly protocol: NetworkProtocol;
  readonly ports: readonly PortRange[];
  /** Upper case; absent: any. Present: TLS is opened. */
  readonly methods?: readonly string[];
  /** Globs over the path without the query (`*` one segment, `**` any); absent: any. Present: TLS is opened. */
  readonly paths?: readonly string[];
  /** Whether TLS is opened: only where a column needs it, always, or never (hosts that pin their keys). */
  readonly inspect: 'auto' | 'always' | 'never';
  /** Let a ClientHello without a server name pass. */
  readonly noSni: boolean;
  /** Let a ClientHello with an encrypted inner one pass. */
  readonly ech: boolean;
  /** Let an HTTP connection become a WebSocket. */
  readonly websocket: boolean;
  /** Only in these phases of the sandbox; absent: in all. */
  readonly phases?: readonly string[];
  readonly budget?: NetworkBudget;
  readonly bandwidth?: NetworkBandwidth;
}

/** What the request cut off from the class; an attempt must be allowed by both. */
export interface NetworkNarrowing {
  /** Ids of the class's rules that are kept; absent: all. */
  readonly rules?: readonly string[];
  /** Patterns within those of the class's rules; absent: all. An empty list leaves no host. */
  readonly hosts?: readonly string[];
}

/** What a request leaves of its class's network. */
export type NetworkRequest = 'deny' | NetworkNarrowing;

export type NetworkGrant =
  | { readonly mode: 'deny' }
  | {
      /** `observe` lets pass what no rule allows (never forbidden addresses, never what a rule denies) and records that it would be denied. */
      readonly mode: 'allow' | 'observe';
      readonly rules: readonly NetworkRule[];
      /** In their order; switched one way, the first one is where a sandbox starts. Empty: there are none. */
      readonly phases: readonly string[];
      /** Over all rules together. */
      readonly budget?: NetworkBudget;
      readonly narrowing?: NetworkNarrowing;
    };
