/**
 * Makes what runs in a sandbox trust its authority as well as everything it trusted before. Most programs read one bundle of
 * all roots, and a variable that names a bundle *replaces* the one they had; so these name the merged bundle. Where a
 * variable *adds*, it names the one certificate.
 *
 * Nothing is set for:
 * - npm, pnpm, yarn, Bun: they take NODE_EXTRA_CA_CERTS. npm's own `cafile` becomes Node's `ca` and replaces the roots.
 * - Go, Ruby, PHP, .NET, uv, rustls-native-certs, wget with OpenSSL: they take SSL_CERT_FILE.
 * - what is linked with GnuTLS (Debian's git and wget): the merged bundle stands where the system's was.
 * - Java: JAVA_TOOL_OPTIONS and JDK_JAVA_OPTIONS make every JVM print a line on stderr; see java-trust-store.ts.
 */
import { SallyportError } from '../../errors/error.ts';
import { certificatesOf, pemOf } from './pem-bundle.ts';

export interface TrustPaths {
  /** Of the merged bundle. */
  readonly bundlePath: string;
  /** Of the sandbox's certificate alone. */
  readonly certificatePath: string;
}

/**
 * @param systemPem what the image trusts; empty where it trusts nobody
 * @param certificatePem what is trusted besides
 * @returns certificates only, each once, the image's first
 * @throws SallyportError `start_failed` when one of them is no bundle: a sandbox with half of its roots is none
 */
export function mergeBundles(systemPem: string, certificatePem: string): string {
  const system = certificatesOf(systemPem);
  if (system.length === 0 && systemPem.trim() !== '')
    throw new SallyportError('start_failed', 'Cannot merge bundles of certificates: the system has one without any');
  const merged = [...system, ...certificatesOf(certificatePem)].map(pemOf);
  return [...new Set(merged)].join('');
}

/** @example trustEnvironment({ bundlePath: '/etc/ssl/certs/ca-certificates.crt', certificatePath: '/etc/ssl/own.pem' }) */
export function trustEnvironment({ bundlePath, certificatePath }: TrustPaths): Record<string, string> {
  return {
    // replaces OpenSSL's default file (its folder SSL_CERT_DIR stays), and that of whoever adopted the variable
    SSL_CERT_FILE: bundlePath,
    // curl: replaces the file it was built with
    CURL_CA_BUNDLE: bundlePath,
    // git: as http.sslCAInfo, replaces
    GIT_SSL_CAINFO: bundlePath,
    // Python's requests: replaces certifi's
    REQUESTS_CA_BUNDLE: bundlePath,
    // pip: as --cert, replaces certifi's
    PIP_CERT: bundlePath,
    // AWS CLI and SDKs: replaces botocore's
    AWS_CA_BUNDLE: bundlePath,
    // cargo: as http.cainfo, replaces libcurl's
    CARGO_HTTP_CAINFO: bundlePath,
    // gRPC (C core, and Node): replaces the roots built in
    GRPC_DEFAULT_SSL_ROOTS_FILE_PATH: bundlePath,
    // programs built by Nix: replaces, as SSL_CERT_FILE
    NIX_SSL_CERT_FILE: bundlePath,
    // Node: adds to the roots built in
    NODE_EXTRA_CA_CERTS: certificatePath,
    // Deno: adds to DENO_TLS_CA_STORE
    DENO_CERT: certificatePath,
  };
}
