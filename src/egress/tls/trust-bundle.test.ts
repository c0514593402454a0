import { X509Certificate } from 'node:crypto';
import { rootCertificates } from 'node:tls';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseHostPattern } from '../../network/host-pattern.ts';
import { createAuthority } from './authority.ts';
import { javaTrustStore } from './java-trust-store.ts';
import { certificatesOf } from './pem-bundle.ts';
import { mergeBundles, trustEnvironment } from './trust-bundle.ts';

const now = new Date();
const pattern = parseHostPattern('api.example');
const own = createAuthority({ sandboxId: 'sb-1', hosts: pattern ? [pattern] : [], now, notAfter: now }).certificatePem;
const [first = '', second = ''] = rootCertificates;
const system = `${rootCertificates.join('\n')}\n`;

describe('a merged bundle', () => {
  it('has all of the system, then ours', () => {
    const merged = certificatesOf(mergeBundles(system, own));
    expect(merged).toHaveLength(rootCertificates.length + 1);
    expect(merged.slice(0, -1)).toEqual(rootCertificates.map((pem) => new X509Certificate(pem).raw));
    expect(merged.at(-1)).toEqual(new X509Certificate(own).raw);
  });

  it('has each once, and merging again changes nothing', () => {
    const once = mergeBundles(`${first}\n${second}\n${first}\n`, own);
    expect(certificatesOf(once)).toHaveLength(3);
    expect(mergeBundles(once, own)).toBe(once);
  });

  it('is ours alone where the system trusts nobody', () => {
    expect(mergeBundles('', own)).toBe(own);
    expect(mergeBundles(' \n', own)).toBe(own);
  });

  it('is free of comments, and of how lines end', () => {
    const text = `# Example Root\r\n=====\r\n${first.replaceAll('\n', '\r\n')}\r\nand more\r\n`;
    expect(mergeBundles(text, own)).toBe(mergeBundles(first, own));
    expect(mergeBundles(text, own)).toMatch(/^(-----[A-Z ]+-----\n|[A-Za-z0-9+/=]{1,64}\n)+$/);
  });

  it.each([
    ['without a certificate', '<html>not found</html>'],
    ['that is cut off', system.slice(0, -40)],
    ['with a certificate in a certificate', first.replace('\n', `\n${second}\n`)],
    ['with an end alone', `-----END CERTIFICATE-----\n${first}\n`],
    ['with a key', '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n'],
    ['in the format of OpenSSL alone', first.replaceAll('CERTIFICATE', 'TRUSTED CERTIFICATE')],
    ['with what is not base64', first.replace('MII', 'M!!')],
    ['with a certificate that ends early', '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n'],
    ['with an empty certificate', '-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n'],
    ['larger than 4 MiB', `${first}\n${'#'.repeat(4 * 1024 * 1024)}\n`],
  ])('is not made of a bundle %s', (_, bundle) => {
    const merge = (): string => mergeBundles(bundle, own);
    expect(merge).toThrow(expect.objectContaining({ name: 'SallyportError', code: 'start_failed' }));
  });

  it('is made of a bundle that was changed, or it is refused: nothing else is thrown', () => {
    const base = `${first}\n${second}\n`;
    fc.assert(
      fc.property(
        fc.nat(base.length),
        fc.string({ maxLength: 70, unit: 'binary-ascii' }),
        fc.nat(70),
        (at, text, cut) => {
          try {
            expect(mergeBundles(base.slice(0, at) + text + base.slice(at + cut), own).endsWith(own)).toBe(true);
          } catch (error) {
            expect(error).toMatchObject({ code: 'start_failed' });
          }
        },
      ),
    );
  });

  it('is merged in a time that a new sandbox does not feel', () => {
    const startMs = performance.now();
    mergeBundles(system, own);
    expect(performance.now() - startMs).toBeLessThan(100);
  });
});

describe('the environment', () => {
  const paths = { bundlePath: '/bundle.crt', certificatePath: '/own.pem' };

  it('names the bundle where a variable replaces, the certificate where it adds', () => {
    const { NODE_EXTRA_CA_CERTS, DENO_CERT, ...replacing } = trustEnvironment(paths);
    expect([NODE_EXTRA_CA_CERTS, DENO_CERT]).toEqual(['/own.pem', '/own.pem']);
    expect(new Set(Object.values(replacing))).toEqual(new Set(['/bundle.crt']));
    const expected = ['SSL_CERT_FILE', 'CURL_CA_BUNDLE', 'GIT_SSL_CAINFO', 'REQUESTS_CA_BUNDLE', 'PIP_CERT'];
    expect(Object.keys(replacing)).toEqual(expect.arrayContaining(expected));
  });

  it('sets nothing that a JVM would print', () => {
    expect(Object.keys(trustEnvironment(paths)).filter((name) => /JAVA|JDK/.test(name))).toEqual([]);
  });
});

describe('the store for Java', () => {
  it('is a JKS file with every certificate of the bundle', () => {
    const store = javaTrustStore(mergeBundles(first, own), now);
    expect([store.readUInt32BE(0), store.readUInt32BE(4), store.readUInt32BE(8)]).toEqual([0xfeedfeed, 2, 2]);
    for (const pem of [first, own]) expect(store.includes(new X509Certificate(pem).raw)).toBe(true);
  });
});
