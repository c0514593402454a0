/** A certificate authority of the test's, as the world outside has them, and servers it vouches for or does not. */
import { execFileSync } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** `ca.pem`; `a` and `b` for a.example and b.example; `self` signed by itself; `expired` with the key of `a`. */
export function makeCertificates(folder: string): void {
  chmodSync(folder, 0o755);
  const openssl = (line: string): unknown => execFileSync('openssl', line.split(' '), { cwd: folder, stdio: 'pipe' });
  const key = '-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes';
  const signed = '-CA ca.pem -CAkey ca.key -CAcreateserial';
  openssl(`req -x509 ${key} -keyout ca.key -out ca.pem -days 2 -subj /CN=world`);
  for (const name of ['a', 'b']) {
    writeFileSync(join(folder, `${name}.ext`), `subjectAltName=DNS:${name}.example\n`);
    openssl(`req ${key} -keyout ${name}.key -out ${name}.csr -subj /CN=${name}.example`);
    openssl(`x509 -req -in ${name}.csr ${signed} -out ${name}.pem -days 2 -extfile ${name}.ext`);
  }
  const own = '-subj /CN=a.example -addext subjectAltName=DNS:a.example';
  openssl(`req -x509 ${key} -keyout self.key -out self.pem -days 2 ${own}`);
  openssl(`x509 -req -in a.csr ${signed} -out expired.pem -days -1 -extfile a.ext`);
}
