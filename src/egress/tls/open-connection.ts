/**
 * The sandbox's side of opened TLS: its connection ends here, under a certificate of its own authority. What was read of it
 * before is in the socket again (`unshift`) and is read once more, by OpenSSL.
 */
import type { Socket } from 'node:net';
import { type SecureContext, TLSSocket } from 'node:tls';
import type { HostName } from '../../network/host-name.ts';
import type { Authority } from './authority.ts';
import { handshake } from './handshake.ts';
import { TlsFault } from './tls-fault.ts';

export interface OpenContext {
  readonly authority: Pick<Authority, 'secureContextFor'>;
  /** Where the connection goes; the certificate is for this name, whatever the client said. */
  readonly host: HostName;
  /** In our order of preference. */
  readonly alpn: readonly ('h2' | 'http/1.1')[];
  readonly handshakeTimeoutMs: number;
}

/**
 * @returns the opened connection, with `alpnProtocol` false where the client named none
 * @throws TlsFault `handshake`, `timeout` or `closed`, or what the authority throws; the socket is destroyed then
 */
export async function terminateTls(socket: Socket, context: OpenContext): Promise<TLSSocket> {
  const { host, alpn, handshakeTimeoutMs } = context;
  const what = `Cannot open the connection to ${host}`;
  // without its handle a socket is not what Node would wrap
  if (socket.destroyed) throw new TlsFault('closed', `${what}: it has ended`);
  const opened = new TLSSocket(socket, {
    isServer: true,
    secureContext: contextOf(socket, context),
    ALPNProtocols: [...alpn],
  });
  opened.disableRenegotiation();
  await handshake(opened, { done: 'secure', timeoutMs: handshakeTimeoutMs, below: socket, what });
  // Node's own TLS server says so after the handshake; an HTTP/2 session waits for it
  return Object.assign(opened, { secureConnecting: false });
}

function contextOf(socket: Socket, { authority, host }: OpenContext): SecureContext {
  try {
    return authority.secureContextFor(host);
  } catch (error) {
    socket.destroy();
    throw error;
  }
}
