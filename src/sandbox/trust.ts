/**
 * Where a Grant has TLS opened, the sandbox gets an authority of its own and is made to trust it: the image's bundle with one
 * more certificate in it, before the first command runs. The authority's key never leaves this process (NX-43).
 */
import type { Grant } from '../admission/grant.ts';
import { sightOf } from '../egress/rules/compile.ts';
import { type Authority, createAuthority } from '../egress/tls/authority.ts';
import { javaTrustStore } from '../egress/tls/java-trust-store.ts';
import { mergeBundles, trustEnvironment } from '../egress/tls/trust-bundle.ts';
import { SallyportError } from '../errors/error.ts';
import type { InitClient } from '../init/types.ts';
import { parseHostPattern } from '../network/host-pattern.ts';
import { openFiles } from './files.ts';
import type { Files } from './types.ts';

const root = { uid: 0, gid: 0, groups: [] };
/** The system's bundle, where OpenSSL, Go and most others look; its place on Debian and its kin. */
const bundlePath = '/etc/ssl/certs/ca-certificates.crt';
const ownPath = '/etc/ssl/certs/sallyport-sandbox.pem';
/** Where Debian's JDKs look, if there is one. */
const javaPath = '/etc/ssl/certs/java/cacerts';
const bundleBytes = 4 * 1024 * 1024;

/** @returns undefined where nothing is opened */
export async function openAuthority(sandboxId: string, grant: Grant): Promise<Authority | undefined> {
  const hosts = openedHosts(grant);
  if (hosts.length === 0) return undefined;
  const now = new Date();
  return createAuthority({ sandboxId, hosts, now, notAfter: new Date(now.getTime() + grant.lifetime.wallMs) });
}

function openedHosts({ network }: Grant) {
  if (network.mode === 'deny') return [];
  const opened = network.rules.filter((rule) => rule.protocol === 'https' && sightOf(rule) === 'seen');
  const texts = opened.flatMap(({ hosts }) => hosts);
  return [...new Set(texts)].map((text) => parseHostPattern(text)).filter((pattern) => pattern !== undefined);
}

/** @returns the environment variables that make programs look there */
export async function installTrust(
  client: InitClient,
  certificatePem: string,
): Promise<Readonly<Record<string, string>>> {
  const files = openFiles({
    client,
    identity: root,
    workdir: '/',
    onUse: () => undefined,
    endedError: () => undefined,
  });
  const system = await readBundle(files.read(Buffer.from(bundlePath)));
  const write = (path: string, text: string | Buffer): Promise<void> =>
    files.write(
      Buffer.from(path),
      (async function* () {
        yield Buffer.from(text);
      })(),
      { mode: 0o644, makeParents: true },
    );
  const merged = mergeBundles(system, certificatePem);
  await write(bundlePath, merged);
  await write(ownPath, certificatePem);
  if (await exists(files, javaPath)) await write(javaPath, javaTrustStore(merged, new Date()));
  return trustEnvironment({ bundlePath, certificatePath: ownPath });
}

async function exists(files: Files, path: string): Promise<boolean> {
  try {
    await files.stat(Buffer.from(path));
    return true;
  } catch (error) {
    if (error instanceof SallyportError && error.code === 'file_not_found') return false;
    throw error;
  }
}

/** An image without one has no public root to keep. */
async function readBundle(content: AsyncIterable<Buffer>): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const piece of content) {
      bytes += piece.length;
      if (bytes > bundleBytes) throw new SallyportError('start_failed', `Cannot read ${bundlePath}: larger than 4MiB`);
      pieces.push(piece);
    }
  } catch (error) {
    if (error instanceof SallyportError && error.code === 'file_not_found') return '';
    throw error;
  }
  return Buffer.concat(pieces).toString();
}
