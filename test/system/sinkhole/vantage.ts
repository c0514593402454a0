/** A world, and programs that are run from where the daemon would stand, with an environment of their own. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { makeWorld, type World, type WorldOptions } from './world.ts';

export interface Vantage {
  readonly world: World;
  readonly folder: string;
  /** A file with the world's root certificate. */
  readonly ca: string;
  /** @returns its stdout */
  run(...words: readonly string[]): Promise<string>;
  /** One of `clients`; @returns what it tells */
  client(...words: readonly string[]): Promise<Readonly<Record<string, unknown>>>;
  curl(...words: readonly string[]): Promise<string>;
  close(): Promise<void>;
}

const clients = fileURLToPath(new URL('./clients', import.meta.url));
const deadlineMs = 30_000;

export async function openVantage(options: WorldOptions = {}): Promise<Vantage> {
  const world = await makeWorld(options);
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-vantage-'));
  const ca = join(folder, 'ca.pem');
  writeFileSync(ca, world.caPem);
  const run: Vantage['run'] = async (...words) => {
    const [command = '', ...rest] = [...world.wrapper, ...words];
    // proxies and trust stores of the host are none of ours
    const env = { PATH: process.env['PATH'], HOME: folder };
    const child = spawn(command, rest, { stdio: ['ignore', 'pipe', 'inherit'], timeout: deadlineMs, env });
    return text(child.stdout);
  };
  return {
    world,
    folder,
    ca,
    run,
    client: async (...words) => JSON.parse(await run('python3', '-B', clients, ...words)) as Record<string, unknown>,
    curl: (...words) => run('curl', '-sS', '-m', '10', '--cacert', ca, ...words),
    close: async () => {
      rmSync(folder, { recursive: true });
      await world.close();
    },
  };
}
