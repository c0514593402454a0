/**
 * From a name to a connection: resolved once, on the host; each address judged; and the very address that was judged is
 * dialled (NX-10).
 */
import { Resolver } from 'node:dns/promises';
import { connect, type Socket } from 'node:net';
import { type IpAddress, parseIpAddress } from '../network/ip-address.ts';
import type { Denial, Target } from './types.ts';

export interface UpstreamParts {
  readonly resolver: Resolver;
  readonly judgeAddress: (address: IpAddress, port: number) => Denial | undefined;
}

export type Dialled =
  | { readonly kind: 'connected'; readonly socket: Socket; readonly address: IpAddress }
  | { readonly kind: 'denied'; readonly denial: Denial; readonly address: IpAddress }
  | { readonly kind: 'failed'; readonly fault: string };

const resolveTimeoutMs = 3_000;
const connectTimeoutMs = 10_000;
/** A name may have any number of addresses; so many are tried. */
const mostTried = 4;

/** @param servers `address` or `address:port`; empty: those of the host */
export function openResolver(servers: readonly string[]): Resolver {
  const resolver = new Resolver({ timeout: resolveTimeoutMs, tries: 2 });
  if (servers.length > 0) resolver.setServers(servers);
  return resolver;
}

export async function dial(parts: UpstreamParts, target: Target, port: number, signal: AbortSignal): Promise<Dialled> {
  const addresses = target.kind === 'address' ? [target.address] : await resolve(parts.resolver, target.host);
  if (addresses.length === 0) return { kind: 'failed', fault: 'the name has no address' };
  const judged = addresses.map((address) => ({
    address,
    denial: parts.judgeAddress(address, port),
  }));
  // one forbidden address among others is the mark of rebinding: none of them is gone to
  for (const { address, denial } of judged) if (denial !== undefined) return { kind: 'denied', denial, address };
  return dialFirst(addresses.slice(0, mostTried), port, signal);
}

/** IPv4 first, as most hosts have it; in the order of the resolver, in one spelling, each once. */
async function resolve(resolver: Resolver, host: string): Promise<IpAddress[]> {
  const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  const texts = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  const parsed = texts.map((text) => parseIpAddress(text.toLowerCase())).filter((address) => address !== undefined);
  return [...new Map(parsed.map((address) => [address.text, address])).values()];
}

async function dialFirst(addresses: readonly IpAddress[], port: number, signal: AbortSignal): Promise<Dialled> {
  let fault = 'no address could be reached';
  for (const address of addresses) {
    const attempt = await dialOne(address, port, signal);
    if (attempt.kind === 'connected') return attempt;
    fault = attempt.fault;
    if (signal.aborted) break;
  }
  return { kind: 'failed', fault };
}

function dialOne(
  address: IpAddress,
  port: number,
  signal: AbortSignal,
): Promise<Extract<Dialled, { kind: 'connected' | 'failed' }>> {
  return new Promise((done) => {
    const socket = connect({ host: address.text, port, allowHalfOpen: true, noDelay: true });
    const fail = (fault: string): void => {
      socket.destroy();
      settle({ kind: 'failed', fault });
    };
    const onAbort = (): void => fail('the connection inside ended');
    const settle = (result: Extract<Dialled, { kind: 'connected' | 'failed' }>): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      done(result);
    };
    const timer = setTimeout(() => fail(`no connection in ${connectTimeoutMs} ms`), connectTimeoutMs);
    socket.once('error', (error: NodeJS.ErrnoException) => fail(error.code ?? error.message));
    socket.once('connect', () => settle({ kind: 'connected', socket, address }));
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
  });
}
