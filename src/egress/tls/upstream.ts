/**
 * The outer side of opened TLS: the real server. Its certificate is verified, chain and name, always: what is wrong out there
 * is refused, never hidden behind our own certificate (NX-44). No session is kept, so none can pass between sandboxes.
 */
import type { Duplex } from 'node:stream';
import {
  checkServerIdentity,
  connect,
  createSecureContext,
  rootCertificates,
  type SecureContext,
  type TLSSocket,
} from 'node:tls';
import type { HostName } from '../../network/host-name.ts';
import { type Failure, handshake } from './handshake.ts';
import { TlsFault } from './tls-fault.ts';

export interface SecureOptions {
  /** Sent as server name, and the one that the certificate has to be for. */
  readonly host: HostName;
  readonly alpn: readonly ('h2' | 'http/1.1')[];
  readonly timeoutMs: number;
  /** PEM certificates that are trusted beside the usual roots. */
  readonly roots?: readonly string[];
}

/**
 * Makes an open connection a TLS one.
 * @throws TlsFault; the connection is destroyed then
 */
export async function secure(plain: Duplex, options: SecureOptions): Promise<TLSSocket> {
  const { host, alpn, timeoutMs, roots = [] } = options;
  const what = `Cannot make a TLS connection to ${host}`;
  if (plain.destroyed) throw new TlsFault('closed', `${what}: it has ended`);
  const socket = connect({
    socket: plain,
    host,
    servername: host,
    ALPNProtocols: [...alpn],
    secureContext: contextOf(roots),
    // said, so that no variable of the environment (NODE_TLS_REJECT_UNAUTHORIZED) and no default decides it
    rejectUnauthorized: true,
    checkServerIdentity,
  });
  const faultOf = ({ code = '' }: NodeJS.ErrnoException): Failure | undefined =>
    socket.authorizationError ? verificationFailure(code) : undefined;
  return handshake(socket, { done: 'secureConnect', timeoutMs, below: plain, what, faultOf });
}

const expiredCodes: ReadonlySet<string> = new Set(['CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID']);

/** In words of ours: the names in a certificate are the other side's, and as many as it likes. */
function verificationFailure(code: string): Failure {
  if (expiredCodes.has(code)) return { code: 'expired', why: `its certificate is not valid at this time (${code})` };
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return { code: 'wrong_name', why: 'its certificate is for other hosts' };
  return { code: 'untrusted', why: `its certificate leads to no trusted root (${code})` };
}

/** Parsing all roots takes some 20 ms: once for whoever adds the same list of their own. */
const contexts = new WeakMap<readonly string[], SecureContext>();
const noMore: readonly string[] = [];

function contextOf(roots: readonly string[]): SecureContext {
  const key = roots.length === 0 ? noMore : roots;
  const known = contexts.get(key);
  if (known !== undefined) return known;
  // `ca` replaces the roots; without it they are Node's and those of NODE_EXTRA_CA_CERTS
  const ca = roots.length === 0 ? {} : { ca: [...rootCertificates, ...roots] };
  const context = createSecureContext({ ...ca, minVersion: 'TLSv1.2' });
  contexts.set(key, context);
  return context;
}
