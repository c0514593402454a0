/** What a connection is by its first bytes, as far as they have come. */
import { type ClientHello, readClientHello } from '../tls/client-hello.ts';

export type FirstBytes =
  | { readonly kind: 'more' }
  | { readonly kind: 'tls'; readonly hello: Extract<ClientHello, { kind: 'hello' }> }
  | { readonly kind: 'http' }
  | { readonly kind: 'raw' }
  /** It begins as TLS and is none. */
  | { readonly kind: 'malformed'; readonly reason: string };

const handshakeRecord = 0x16;
/** The longest registered method is UPDATEREDIRECTREF; RFC 9110 lets any token be one. */
const methodRule = /^[A-Z][A-Z-]{0,23}$/;

export function classify(bytes: Buffer): FirstBytes {
  if (bytes.length === 0) return { kind: 'more' };
  if (bytes[0] === handshakeRecord) return classifyTls(bytes);
  const start = bytes.subarray(0, 25).toString('latin1');
  const space = start.indexOf(' ');
  if (space >= 0) return { kind: methodRule.test(start.slice(0, space)) ? 'http' : 'raw' };
  const maybe = methodRule.test(start) && bytes.length < 25;
  return { kind: maybe ? 'more' : 'raw' };
}

function classifyTls(bytes: Buffer): FirstBytes {
  const hello = readClientHello(bytes);
  if (hello.kind === 'incomplete') return { kind: 'more' };
  if (hello.kind === 'hello') return { kind: 'tls', hello };
  if (hello.kind === 'malformed') return { kind: 'malformed', reason: hello.reason };
  return { kind: 'raw' };
}
