/**
 * Waits until a TLS connection stands. It ends within its time; whatever fails destroys the socket and is a TlsFault. The
 * socket has listeners for its errors from then on: what happens to it later destroys it and never this process.
 */
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { TlsFault, type TlsFaultCode } from './tls-fault.ts';

export interface Failure {
  readonly code: TlsFaultCode;
  readonly why: string;
}

export interface HandshakeOptions {
  readonly done: 'secure' | 'secureConnect';
  readonly timeoutMs: number;
  /** The connection below, which may be reset where the one above says nothing. */
  readonly below: Duplex;
  /** Beginning of each message. */
  readonly what: string;
  /** Failures beyond those that every handshake may have. */
  readonly faultOf?: (error: NodeJS.ErrnoException) => Failure | undefined;
}

export function handshake(socket: TLSSocket, options: HandshakeOptions): Promise<TLSSocket> {
  const { done, timeoutMs, below, what, faultOf } = options;
  return new Promise((resolve, reject) => {
    const fail = ({ code, why }: Failure, cause?: Error): void => {
      settle();
      socket.destroy();
      below.destroy();
      reject(new TlsFault(code, `${what}: ${why}`, { cause }));
    };
    const onError = (error: Error): void => fail(faultOf?.(error) ?? failureOf(error), error);
    const onClose = (): void => fail(closed);
    const settle = (): void => {
      clearTimeout(timer);
      for (const stream of [socket, below]) stream.off('end', onClose).off('close', onClose);
    };
    const timer = setTimeout(() => fail({ code: 'timeout', why: `not done in ${timeoutMs} ms` }), timeoutMs);
    // HTTP does not use it, and an idle connection whose other side has ended would never close
    socket.allowHalfOpen = false;
    // the second: what a TLSSocket that Node's own server did not make calls its errors after the handshake
    for (const event of ['error', '_tlsError']) socket.on(event, onError);
    below.on('error', onError);
    // the end of what is below is seen there when it came before TLS was laid over it
    for (const stream of [socket, below]) stream.on('end', onClose).on('close', onClose);
    socket.once(done, () => {
      settle();
      resolve(socket);
    });
  });
}

const closed: Failure = { code: 'closed', why: 'the other side ended the connection' };
const goneCodes: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'ERR_STREAM_PREMATURE_CLOSE']);

/** `reason` are OpenSSL's own words, without its place in the source. */
function failureOf({ message, code = '', reason }: NodeJS.ErrnoException & { readonly reason?: string }): Failure {
  return goneCodes.has(code) ? closed : { code: 'handshake', why: reason ?? (code || message) };
}
