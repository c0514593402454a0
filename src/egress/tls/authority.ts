/**
 * The certificate authority of one sandbox: it can sign for the hosts of that sandbox's rules and is trusted nowhere else.
 * Its keys live in this object, in the contexts that it hands out, and nowhere else (NX-43); they end with the sandbox.
 */
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { createSecureContext, type SecureContext } from 'node:tls';
import { SallyportError } from '../../errors/error.ts';
import type { HostName } from '../../network/host-name.ts';
import { type HostPattern, matchesHost } from '../../network/host-pattern.ts';
import { authorityExtensions, leafExtensions, signCertificate } from './certificate.ts';

export interface Authority {
  /** What the sandbox has to trust. */
  readonly certificatePem: string;
  /** Whether it signs for this host. */
  covers(host: HostName): boolean;
  /**
   * What serves this host; kept for the next connection.
   * @throws SallyportError `internal` for a host that is not covered, `sandbox_ended` after {@link dispose}
   */
  secureContextFor(host: HostName): SecureContext;
  /** Forgets keys and contexts. Connections that are open stay open. */
  dispose(): void;
}

export interface AuthorityParts {
  readonly sandboxId: string;
  /** At least one. */
  readonly hosts: readonly HostPattern[];
  /** When the sandbox ends at the latest. */
  readonly notAfter: Date;
  readonly now: Date;
}

/** Clocks inside and outside are one, but for a client that compares with a time of its own. */
const skewMs = 60 * 60_000;
const mostContexts = 256;
const nameLength = 64;
/** For whoever looks. The name that counts is the alternative one. */
const leafName = 'Opened by Sallyport';

/** @throws SallyportError `internal` without a host to sign for */
export function createAuthority(parts: AuthorityParts): Authority {
  if (parts.hosts.length === 0) {
    const message = `Cannot make a certificate authority for sandbox ${parts.sandboxId}: it has no host to sign for`;
    throw new SallyportError('internal', message);
  }
  return new SandboxAuthority(parts);
}

interface Keys {
  readonly authority: { readonly publicKey: KeyObject; readonly privateKey: KeyObject };
  /** One for all hosts: one process holds them all, so whoever got one would have got each of many. */
  readonly leaf: { readonly publicKey: KeyObject; readonly privateKeyPem: string };
}

class SandboxAuthority implements Authority {
  readonly certificatePem: string;
  readonly #hosts: readonly HostPattern[];
  readonly #subject: string;
  /** Of leaves too: neither they nor the authority are of use to anybody once the sandbox has ended. */
  readonly #validity: { readonly notBefore: Date; readonly notAfter: Date };
  #keys: Keys | undefined;
  /** The one used last stands last. */
  readonly #contexts = new Map<HostName, SecureContext>();

  constructor({ sandboxId, hosts, notAfter, now }: AuthorityParts) {
    this.#hosts = hosts;
    this.#subject = `Sallyport sandbox ${sandboxId}`.slice(0, nameLength);
    this.#validity = { notBefore: new Date(now.getTime() - skewMs), notAfter: new Date(notAfter.getTime() + skewMs) };
    const keys = makeKeys();
    this.#keys = keys;
    const { publicKey } = keys.authority;
    this.certificatePem = this.#sign(keys, this.#subject, publicKey, authorityExtensions(publicKey, hosts));
  }

  covers(host: HostName): boolean {
    return this.#hosts.some((pattern) => matchesHost(pattern, host));
  }

  secureContextFor(host: HostName): SecureContext {
    const context = this.#contexts.get(host) ?? this.#makeContext(host);
    this.#contexts.delete(host);
    this.#contexts.set(host, context);
    const [oldest] = this.#contexts.keys();
    if (this.#contexts.size > mostContexts && oldest !== undefined) this.#contexts.delete(oldest);
    return context;
  }

  dispose(): void {
    this.#keys = undefined;
    this.#contexts.clear();
  }

  #makeContext(host: HostName): SecureContext {
    const keys = this.#keys;
    if (keys === undefined) throw new SallyportError('sandbox_ended', `Cannot sign for ${host}: the sandbox has ended`);
    if (!this.covers(host))
      throw new SallyportError('internal', `Cannot sign for ${host}: no rule of the sandbox has it`);
    const { publicKey, privateKeyPem } = keys.leaf;
    const cert = this.#sign(keys, leafName, publicKey, leafExtensions(host, keys.authority.publicKey));
    // `ca`: nobody's certificate is verified here, so the public roots are not loaded
    return createSecureContext({ cert, key: privateKeyPem, ca: [], minVersion: 'TLSv1.2' });
  }

  #sign(keys: Keys, subject: string, publicKey: KeyObject, extensions: readonly Buffer[]): string {
    const { privateKey } = keys.authority;
    return signCertificate({
      subject,
      issuer: this.#subject,
      publicKey,
      signingKey: privateKey,
      extensions,
      ...this.#validity,
    });
  }
}

function makeKeys(): Keys {
  const authority = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const leaf = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const privateKeyPem = leaf.privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
  return { authority, leaf: { publicKey: leaf.publicKey, privateKeyPem } };
}
