/** Oracle O1: a random secret in a host file outside every mount of a sandbox; no byte of it may come out, and it stays unchanged. */
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Canary {
  /** Host path; world-readable on purpose: only the sandbox's boundary protects it. */
  readonly path: string;
  readonly value: string;
  /** @throws Error when any of the outputs holds the canary, or the file was changed */
  check(...outputs: readonly (string | Buffer)[]): void;
  remove(): void;
}

export function plantCanary(): Canary {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-canary-'));
  const path = join(folder, 'canary');
  const value = `canary-${randomBytes(16).toString('hex')}`;
  writeFileSync(path, value, { mode: 0o644 });
  const planted = sha256(value);
  return {
    path,
    value,
    check: (...outputs) => {
      for (const output of outputs)
        if (output.includes(value)) throw new Error('O1: the canary came out of the sandbox');
      if (sha256(readFileSync(path, 'utf8')) !== planted) throw new Error('O1: the canary on the host was changed');
    },
    remove: () => rmSync(folder, { recursive: true }),
  };
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
