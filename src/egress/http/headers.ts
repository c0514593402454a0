/** Headers on their way through: what belongs to one hop stays on it (RFC 9110 §7.6.1), all else passes as it was sent. */

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
