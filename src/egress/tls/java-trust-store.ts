/**
 * The roots of Java, which reads no PEM: a keystore in the JKS format, which every JDK takes whatever its default type is
 * (`keystore.type.compat`). It replaces `lib/security/cacerts`; on Debian and its kin that leads to /etc/ssl/certs/java/cacerts.
 */
import { createHash } from 'node:crypto';
import { certificatesOf } from './pem-bundle.ts';

const magic = 0xfeedfeed;
const version = 2;
const trustedCertificate = 2;
/** What every JDK's cacerts has. The digest below it is no secret: it tells a broken file from a whole one. */
const password = 'changeit';
const digestSalt = 'Mighty Aphrodite';

/**
 * @param bundlePem the merged bundle
 * @throws SallyportError `start_failed` when it is none
 */
export function javaTrustStore(bundlePem: string, madeAt: Date): Buffer {
  const certificates = certificatesOf(bundlePem);
  const entries = certificates.map((der, index) => entry(`root-${index}`, der, madeAt));
  const content = Buffer.concat([u32(magic), u32(version), u32(certificates.length), ...entries]);
  const salt = Buffer.concat([Buffer.from(password, 'utf16le').swap16(), Buffer.from(digestSalt, 'utf8')]);
  return Buffer.concat([content, createHash('sha1').update(salt).update(content).digest()]);
}

function entry(alias: string, der: Buffer, madeAt: Date): Buffer {
  const time = Buffer.alloc(8);
  time.writeBigInt64BE(BigInt(madeAt.getTime()));
  return Buffer.concat([u32(trustedCertificate), text(alias), time, text('X.509'), u32(der.length), der]);
}

/** As DataOutputStream.writeUTF writes ASCII. */
function text(ascii: string): Buffer {
  const bytes = Buffer.from(ascii, 'ascii');
  const length = Buffer.alloc(2);
  length.writeUInt16BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
