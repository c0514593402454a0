/** `--resolver` and `--upstream-ca`: where names that rules allow are asked for, and who may vouch for the hosts. */
import { X509Certificate } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { parseIpAddress } from '../network/ip-address.ts';
import type { Options } from './options.ts';
import { UsageError } from './usage-error.ts';

export interface Upstreams {
  readonly resolvers: readonly string[];
  readonly upstreamRoots: readonly string[];
}

/** @throws UsageError */
export function upstreamsOf(options: Options): Upstreams {
  const resolvers = options.list('resolver');
  for (const text of resolvers) {
    if (!isServer(text)) throw new UsageError(`--resolver: ${JSON.stringify(text)} is no address`);
  }
  return { resolvers, upstreamRoots: [...hostRoots(), ...options.list('upstreamCa').map(readRoots)] };
}

/** What the host itself trusts beside Node's own list: its bundle, and what the operator gave Node. */
function hostRoots(): string[] {
  const files = ['/etc/ssl/certs/ca-certificates.crt', process.env['NODE_EXTRA_CA_CERTS'] ?? ''];
  return files.filter((file) => file !== '' && existsSync(file)).map((file) => readFileSync(file, 'utf8'));
}

/** Read now: a file that is missing or broken is told at the start, not at the first connection. */
function readRoots(file: string): string {
  try {
    const pem = readFileSync(file, 'utf8');
    new X509Certificate(pem);
    return pem;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UsageError(`--upstream-ca: ${file} holds no PEM certificate: ${reason}`);
  }
}

/** `192.0.2.1`, `192.0.2.1:53`, `2001:db8::1`, `[2001:db8::1]:53`: what the resolver takes. */
function isServer(text: string): boolean {
  if (parseIpAddress(text) !== undefined) return true;
  const [, bracketed, plain, port = ''] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? [];
  const address = parseIpAddress(bracketed ?? plain ?? '');
  return address !== undefined && Number(port) > 0 && Number(port) <= 65_535;
}
