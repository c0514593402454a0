/** The words of egress: what something inside attempts, what is decided, what is recorded. */
import type { HostName } from '../network/host-name.ts';
import type { IpAddress } from '../network/ip-address.ts';

/** A name that the sandbox asked for, or an address that it went to without one. */
export type Target =
  | { readonly kind: 'host'; readonly host: HostName }
  | { readonly kind: 'address'; readonly address: IpAddress };

/**
 * What something inside wants to do, as far as it is known by now: a question to the resolver has a target only, a
 * connection has a port too, its first bytes say the protocol, and where it is opened each request is judged.
 */
export interface Attempt {
  readonly target: Target;
  readonly port?: number;
  readonly content?: AttemptContent;
}

export type AttemptContent =
  | { readonly protocol: 'raw' }
  | {
      readonly protocol: 'tls';
      /** Absent: the ClientHello named none, or one that is no host name. */
      readonly serverName?: HostName;
      readonly encryptedHello: boolean;
      /** What was sealed, once it is opened. */
      readonly request?: HttpRequest;
    }
  | { readonly protocol: 'http'; readonly request: HttpRequest };

export interface HttpRequest {
  /** The Host header or the :authority, parsed; absent when it is none or not a host name. */
  readonly host?: HostName;
  readonly port?: number;
  readonly method: string;
  /** Of the target, without the query; percent-encoding as it was sent. */
  readonly path: string;
  readonly websocket: boolean;
}

/** Why something was refused; one per line of `docs/egress.md`. Codes are never reused. */
export const denialCodes = [
  'mode_deny',
  'no_rule',
  'rule_denies',
  'forbidden_address',
  'wrong_phase',
  'wrong_port',
  'wrong_protocol',
  'server_name_missing',
  'server_name_mismatch',
  'server_name_encrypted',
  'host_mismatch',
  'method_not_allowed',
  'path_not_allowed',
  'websocket_not_allowed',
  'ambiguous_request',
  'budget_used_up',
  'narrowed_away',
  'malformed',
  'too_many',
  'not_carried',
] as const;
export type DenialCode = (typeof denialCodes)[number];

/** How an allowed connection is handled: bytes as they are, plain HTTP understood, or TLS opened and HTTP understood. */
export type Handling = 'splice' | 'http' | 'open';

export type Decision =
  | {
      readonly verdict: 'allow';
      /** Id of the rule that allows; null in mode `observe` where no rule does. */
      readonly rule: string | null;
      readonly handling: Handling;
      /** Mode `observe`: what mode `allow` would have said. */
      readonly wouldDeny?: Denial;
    }
  | ({ readonly verdict: 'deny' } & Denial);

export interface Denial {
  readonly code: DenialCode;
  /** Id of the rule that denies or comes nearest; null when none is near. */
  readonly rule: string | null;
  /** One sentence for people and models. */
  readonly reason: string;
}
