/**
 * The certificates in a PEM bundle (RFC 7468): text around them is skipped, anything else in it is refused. It may be an image's, so
 * it is bounded and only taken apart, not interpreted; whoever trusts it does that.
 */
import { SallyportError } from '../../errors/error.ts';

const bundleBytes = 4 * 1024 * 1024;
const blockRule = /^-----BEGIN ([A-Z0-9 ]{1,64})-----\s([^-]*)^-----END \1-----\s*?$/gm;
const edgeRule = /-----(BEGIN|END) /;
const lineLength = 64;

/**
 * @returns DER of each, in their order
 * @throws SallyportError `start_failed` for what is no bundle of certificates
 */
export function certificatesOf(bundlePem: string): Buffer[] {
  if (bundlePem.length > bundleBytes) fail('it is larger than 4 MiB');
  if (edgeRule.test(bundlePem.replace(blockRule, ''))) fail('a part of it is cut off or within another');
  return Array.from(bundlePem.matchAll(blockRule), ([, label = '', content = ''], index) => {
    if (label !== 'CERTIFICATE') fail(`it has a ${label}`);
    return decode(content.replace(/\s/g, ''), index + 1);
  });
}

export function pemOf(certificate: Buffer): string {
  const base64 = certificate.toString('base64');
  const lines = Array.from({ length: Math.ceil(base64.length / lineLength) }, (_, index) =>
    base64.slice(index * lineLength, (index + 1) * lineLength),
  );
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}

function decode(base64: string, position: number): Buffer {
  const der = Buffer.from(base64, 'base64');
  // Buffer skips what is no base64, so that only the way back tells
  if (der.toString('base64') !== base64) fail(`certificate ${position} is not base64`);
  if (!isOneSequence(der)) fail(`certificate ${position} is none`);
  return der;
}

/** A certificate is an ASN.1 sequence, the whole of it: 0x30, and two or three bytes of length. */
function isOneSequence(der: Buffer): boolean {
  const [tag, form] = der;
  const lengthBytes = form === 0x81 ? 1 : form === 0x82 ? 2 : 0;
  if (tag !== 0x30 || lengthBytes === 0 || der.length < 2 + lengthBytes) return false;
  return der.readUIntBE(2, lengthBytes) === der.length - 2 - lengthBytes;
}

function fail(why: string): never {
  throw new SallyportError('start_failed', `Cannot read a bundle of certificates: ${why}`);
}
