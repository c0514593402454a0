/** Writes the raw result of a measure, with what it ran on, and prints the summary. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const resultsFolder = fileURLToPath(new URL('../../results', import.meta.url));

export interface Measure {
  readonly name: string;
  /** What was done, in one or two sentences: what the clock covers. */
  readonly method: string;
  readonly summary: Readonly<Record<string, unknown>>;
  readonly raw: Readonly<Record<string, unknown>>;
}

export function report(measure: Measure): void {
  mkdirSync(resultsFolder, { recursive: true });
  const file = join(resultsFolder, `${measure.name}.json`);
  writeFileSync(file, `${JSON.stringify({ ...measure, host: hostFacts(), at: new Date().toISOString() })}\n`);
  process.stdout.write(`\n${measure.name}: ${measure.method}\n`);
  for (const [key, value] of Object.entries(measure.summary))
    process.stdout.write(`  ${key.padEnd(34)} ${JSON.stringify(value)}\n`);
}

function hostFacts(): object {
  const [cpu] = cpus();
  return {
    kernel: release(),
    cpu: cpu?.model ?? 'unknown',
    cpus: cpus().length,
    memoryBytes: totalmem(),
    load: loadavg(),
    node: process.version,
    crun: version('crun'),
    runc: version('runc'),
    podman: version('podman'),
  };
}

function version(program: string): string | null {
  try {
    return execFileSync(program, ['--version'], { encoding: 'utf8' }).split('\n')[0] ?? null;
  } catch {
    return null;
  }
}

/** Waits until the host's memory has settled: what was freed before must not count for what is measured now. */
export async function settledMemAvailableKib(): Promise<number> {
  let last = memAvailableKib();
  for (let still = 0; still < 5; ) {
    await sleep(500);
    const now = memAvailableKib();
    still = Math.abs(now - last) < 512 ? still + 1 : 0;
    last = now;
  }
  return last;
}

function memAvailableKib(): number {
  return Number(/MemAvailable:\s+(\d+)/.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1] ?? Number.NaN);
}
