/** Why a TLS connection did not come to be: one word to decide and count by, one sentence for the record. */
export type TlsFaultCode =
  /** Upstream's certificate, or one above it, is not valid at this time. */
  | 'expired'
  /** It is for other hosts. */
  | 'wrong_name'
  /** It leads to no root that is trusted: self-signed, an unknown authority, an incomplete or broken chain. */
  | 'untrusted'
  /** The two sides did not agree: no common version, cipher or protocol, or no TLS at all. */
  | 'handshake'
  /** The other side took too long. */
  | 'timeout'
  /** The other side ended the connection. */
  | 'closed';

export class TlsFault extends Error {
  readonly code: TlsFaultCode;

  constructor(code: TlsFaultCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'TlsFault';
    this.code = code;
  }
}
