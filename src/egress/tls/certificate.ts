/**
 * The certificates of a sandbox's authority, RFC 5280: its own, and one per host. P-256 and SHA-256 throughout, as every
 * client that can verify anything can. Keys and times are the caller's; only serial numbers are drawn here.
 */
import { createHash, type KeyObject, randomBytes, sign } from 'node:crypto';
import type { HostName } from '../../network/host-name.ts';
import type { HostPattern } from '../../network/host-pattern.ts';
import { bitString, integer, octets, oid, sequence, set, tagged, time, utf8, yes } from './der.ts';
import { pemOf } from './pem-bundle.ts';

export interface CertificateParts {
  /** Common names; at most 64 characters. */
  readonly subject: string;
  readonly issuer: string;
  readonly publicKey: KeyObject;
  /** The issuer's. */
  readonly signingKey: KeyObject;
  readonly notBefore: Date;
  readonly notAfter: Date;
  readonly extensions: readonly Buffer[];
}

/** @returns PEM */
export function signCertificate(parts: CertificateParts): string {
  const tbs = sequence(
    tagged(0, 'constructed', integer(Buffer.from([2]))), // version 3
    integer(serialNumber()),
    ecdsaWithSha256,
    nameOf(parts.issuer),
    sequence(time(parts.notBefore), time(parts.notAfter)),
    nameOf(parts.subject),
    spkiOf(parts.publicKey),
    tagged(3, 'constructed', sequence(...parts.extensions)),
  );
  return pemOf(sequence(tbs, ecdsaWithSha256, bitString(sign('sha256', tbs, parts.signingKey))));
}

/** One common name. */
export function nameOf(commonName: string): Buffer {
  return sequence(set(sequence(oid('2.5.4.3'), utf8(commonName))));
}

/**
 * What the certificate of an authority says that can sign for these hosts only, however its key were lost: names below them,
 * no address, no authority below it, servers only.
 */
export function authorityExtensions(publicKey: KeyObject, hosts: readonly HostPattern[]): Buffer[] {
  return [
    extension('2.5.29.19', 'critical', sequence(yes, integer(Buffer.from([0])))), // basicConstraints: CA, pathLen 0
    extension('2.5.29.15', 'critical', bitString(Buffer.from([0b0000_0100]), 2)), // keyUsage: keyCertSign
    extension('2.5.29.30', 'critical', nameConstraints(hosts)),
    serverAuth,
    extension('2.5.29.14', 'usual', octets(keyIdOf(publicKey))), // subjectKeyIdentifier
  ];
}

/** @param issuerKey the authority's public key */
export function leafExtensions(host: HostName, issuerKey: KeyObject): Buffer[] {
  return [
    extension('2.5.29.15', 'critical', bitString(Buffer.from([0b1000_0000]), 7)), // keyUsage: digitalSignature
    extension('2.5.29.17', 'usual', sequence(dnsName(host))), // subjectAltName
    serverAuth,
    extension('2.5.29.35', 'usual', sequence(tagged(0, 'primitive', keyIdOf(issuerKey)))), // authorityKeyIdentifier
  ];
}

export function extension(id: string, weight: 'critical' | 'usual', value: Uint8Array): Buffer {
  return sequence(oid(id), ...(weight === 'critical' ? [yes] : []), octets(value));
}

/**
 * A permitted name permits those below it too (RFC 5280 section 4.2.1.10): for `*.x` that is meant, for an exact host it is
 * the closest that can be said. Without a leading dot, which that section does not know for DNS names.
 */
function nameConstraints(hosts: readonly HostPattern[]): Buffer {
  const permitted = widest(hosts.map(({ name }) => name)).map((name) => sequence(dnsName(name)));
  const anyAddress = [8, 32].map((bytes) => sequence(tagged(7, 'primitive', Buffer.alloc(bytes))));
  return sequence(tagged(0, 'constructed', ...permitted), tagged(1, 'constructed', ...anyAddress));
}

/** Without those that are below another. */
function widest(names: readonly HostName[]): HostName[] {
  const all = new Set<string>(names);
  const hasParent = (name: HostName): boolean => {
    const labels = name.split('.');
    return labels.some((_, index) => index > 0 && all.has(labels.slice(index).join('.')));
  };
  return [...new Set(names)].filter((name) => !hasParent(name));
}

const dnsName = (name: HostName): Buffer => tagged(2, 'primitive', Buffer.from(name, 'ascii'));
const ecdsaWithSha256 = sequence(oid('1.2.840.10045.4.3.2'));
const serverAuth = extension('2.5.29.37', 'usual', sequence(oid('1.3.6.1.5.5.7.3.1')));

function spkiOf(publicKey: KeyObject): Buffer {
  return publicKey.export({ format: 'der', type: 'spki' });
}

/** RFC 7093 section 2, method 4. */
function keyIdOf(publicKey: KeyObject): Buffer {
  return createHash('sha256').update(spkiOf(publicKey)).digest().subarray(0, 20);
}

/** 127 random bits below a set one: positive, of a fixed length. */
function serialNumber(): Buffer {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes;
}
