/** Headers on their way through: what belongs to one hop stays on it (RFC 9110 §7.6.1), all else passes as it was sent. */
import type { RequestHead } from './request.ts';

const hopByHop: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** @param rawHeaders name, value, name, value, … @returns pairs that may go on; pseudo headers of HTTP/2 are not among them */
export function forwardable(rawHeaders: readonly string[]): [string, string][] {
  const pairs = pairsOf(rawHeaders);
  const named = new Set(
    pairs
      .filter(([name]) => name.toLowerCase() === 'connection')
      .flatMap(([, value]) => value.split(','))
      .map((token) => token.trim().toLowerCase()),
  );
  return pairs.filter(([name]) => {
    const lower = name.toLowerCase();
    return !lower.startsWith(':') && !hopByHop.has(lower) && !named.has(lower);
  });
}

/**
 * The headers that go upstream. Host and framing are written anew from what was judged and read: the Host that was judged is the
 * one that is sent, and a body is announced exactly when there is one, whatever the method (NX-21).
 */
export function requestHeaders(
  { rawHeaders }: Pick<RequestHead, 'rawHeaders'>,
  authority: string,
  hasBody: boolean,
): [string, string][] {
  const pairs = forwardable(rawHeaders);
  const length = pairs.find(([name]) => name.toLowerCase() === 'content-length')?.[1];
  const kept = pairs.filter(([name]) => !ours.has(name.toLowerCase()));
  const cookies = pairs.filter(([name]) => name.toLowerCase() === 'cookie').map(([, value]) => value);
  return [
    ['Host', authority],
    ...kept,
    // HTTP/2 may send each cookie alone; HTTP/1.1 has one line for them (RFC 9113 §8.2.3)
    ...(cookies.length === 0 ? [] : [['Cookie', cookies.join('; ')] as [string, string]]),
    ...(hasBody ? [framing(length)] : []),
    ['Connection', 'keep-alive'],
  ];
}

const ours: ReadonlySet<string> = new Set(['host', 'content-length', 'cookie']);

function framing(length: string | undefined): [string, string] {
  return length === undefined ? ['Transfer-Encoding', 'chunked'] : ['Content-Length', length];
}

export function pairsOf(rawHeaders: readonly string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2)
    pairs.push([rawHeaders[index] ?? '', rawHeaders[index + 1] ?? '']);
  return pairs;
}

/** Bytes of a head on the wire, near enough to charge them. */
export function headBytes(rawHeaders: readonly string[]): number {
  return rawHeaders.reduce((sum, text) => sum + text.length + 2, 32);
}
