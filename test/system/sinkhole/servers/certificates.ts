/**
 * A certificate authority that lives as long as a world, and leaves for any name (X.509, RFC 5280, written out here so
 * that the oracle shares nothing with what it judges). The first label of a name says what is wrong with its leaf
 * (NX-44): `expired.…`, `wrongname.…`, `selfsigned.…`; of any other, nothing is.
 */
import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { createSecureContext, type SecureContext } from 'node:tls';
import { bits, bool, explicit, integer, octets, oid, sequence, set, text, utcTime, value } from './der.ts';

export interface Authority {
  /** The root, for trust stores. */
  readonly pem: string;
  credentialsFor(name: string): Credentials;
  /** The same, ready for TLS. */
  contextFor(name: string): SecureContext;
}

interface Credentials {
  readonly key: string;
  readonly cert: string;
}

interface Certificate {
  readonly subject: string;
  readonly issuer: string;
  readonly publicKey: KeyObject;
  readonly signingKey: KeyObject;
  readonly signerPublicKey: KeyObject;
  readonly lifetime: readonly [Date, Date];
  readonly extensions: readonly Buffer[];
}

const dayMs = 86_400_000;
const mostContexts = 256;
const rootName = 'Sinkhole test root';
const curve = { namedCurve: 'P-256' };
const ecdsaWithSha256 = () => sequence(oid('1.2.840.10045.4.3.2'));

export function makeAuthority(): Authority {
  const root = generateKeyPairSync('ec', curve);
  const leaf = generateKeyPairSync('ec', curve);
  const key = leaf.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const credentialsFor = (name: string): Credentials => ({ key, cert: pemOf(leafFor(name, root, leaf)) });
  const contexts = new Map<string, SecureContext>();
  const contextFor = (name: string): SecureContext => {
    const known = contexts.get(name);
    if (known !== undefined) return known;
    if (contexts.size >= mostContexts) contexts.clear();
    const context = createSecureContext(credentialsFor(name));
    contexts.set(name, context);
    return context;
  };
  return { pem: pemOf(rootOf(root)), credentialsFor, contextFor };
}

interface KeyPair {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

function rootOf(root: KeyPair): Certificate {
  return {
    subject: rootName,
    issuer: rootName,
    publicKey: root.publicKey,
    signingKey: root.privateKey,
    signerPublicKey: root.publicKey,
    lifetime: daysFromNow(-1, 30),
    // keyUsage: keyCertSign and cRLSign
    extensions: [
      extension('2.5.29.19', sequence(bool(true)), true),
      extension('2.5.29.15', bits(1, Buffer.from([0x06])), true),
    ],
  };
}

function leafFor(name: string, root: KeyPair, leaf: KeyPair): Certificate {
  const [fault] = name.split('.');
  const isSelfSigned = fault === 'selfsigned';
  const certified = fault === 'wrongname' ? 'other.example' : name;
  const signer = isSelfSigned ? leaf : root;
  return {
    subject: 'Sinkhole leaf',
    issuer: isSelfSigned ? 'Sinkhole leaf' : rootName,
    publicKey: leaf.publicKey,
    signingKey: signer.privateKey,
    signerPublicKey: signer.publicKey,
    lifetime: fault === 'expired' ? daysFromNow(-20, -10) : daysFromNow(-1, 30),
    extensions: [
      extension('2.5.29.17', sequence(value(0x82, Buffer.from(certified)))),
      // serverAuth
      extension('2.5.29.37', sequence(oid('1.3.6.1.5.5.7.3.1'))),
    ],
  };
}

function daysFromNow(from: number, to: number): readonly [Date, Date] {
  return [new Date(Date.now() + from * dayMs), new Date(Date.now() + to * dayMs)];
}

function pemOf(certificate: Certificate): string {
  const body = toBeSigned(certificate);
  const signature = sign('sha256', body, certificate.signingKey);
  const whole = sequence(body, ecdsaWithSha256(), bits(0, signature));
  const lines = whole.toString('base64').match(/.{1,64}/g) ?? [];
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n');
}

function toBeSigned({ subject, issuer, publicKey, signerPublicKey, lifetime, extensions }: Certificate): Buffer {
  const keyIds = [
    extension('2.5.29.14', octets(keyId(publicKey))),
    extension('2.5.29.35', sequence(value(0x80, keyId(signerPublicKey)))),
  ];
  return sequence(
    explicit(0, integer(Buffer.from([2]))),
    // a positive number, and never with a leading zero
    integer(Buffer.concat([Buffer.from([0x40]), randomBytes(15)])),
    ecdsaWithSha256(),
    nameOf(issuer),
    sequence(...lifetime.map(utcTime)),
    nameOf(subject),
    spki(publicKey),
    explicit(3, sequence(...extensions, ...keyIds)),
  );
}

function nameOf(commonName: string): Buffer {
  return sequence(set(sequence(oid('2.5.4.3'), text(commonName))));
}

function extension(id: string, content: Buffer, isCritical = false): Buffer {
  return sequence(oid(id), ...(isCritical ? [bool(true)] : []), octets(content));
}

function spki(key: KeyObject): Buffer {
  return key.export({ type: 'spki', format: 'der' });
}

function keyId(key: KeyObject): Buffer {
  return createHash('sha1').update(spki(key)).digest();
}
