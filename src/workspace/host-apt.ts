/** The host's apt configuration as an image build needs it: sources, transport, proxies. Read, never copied into an image. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SallyportError } from '../errors/error.ts';
import { transportOptions } from './apt-options.ts';
import { type AptSourceFile, releaseSources } from './apt-sources.ts';
import { runProgram } from './run-program.ts';

const dumpDeadlineMs = 30_000;

export function hostSources(suite: string, what: string): string {
  const sources = releaseSources(aptSourceFiles(), suite);
  if (sources !== '') return sources;
  throw new SallyportError('image_missing', `${what}: /etc/apt of this host has no source for ${suite} main`);
}

function aptSourceFiles(): AptSourceFile[] {
  const folder = '/etc/apt/sources.list.d';
  const names = existsSync(folder) ? readdirSync(folder).sort() : [];
  const files = names.filter((name) => /\.(list|sources)$/.test(name)).map((name) => join(folder, name));
  return ['/etc/apt/sources.list', ...files]
    .filter(existsSync)
    .map((name) => ({ name, text: readFileSync(name, 'utf8') }));
}

/** Credentials are named, not copied: apt reads them where they are. */
export async function hostAptOptions(what: string): Promise<string[]> {
  const dump = await runProgram(what, ['apt-config', 'dump'], { code: 'image_missing', deadlineMs: dumpDeadlineMs });
  const credentials = [
    ['Dir::Etc::netrc', '/etc/apt/auth.conf'],
    ['Dir::Etc::netrcparts', '/etc/apt/auth.conf.d'],
  ].filter(([, path = '']) => existsSync(path));
  return [...transportOptions(dump), ...credentials.map(([name, path]) => `${name} "${path}";`)];
}

export function proxyEnvironment(): Record<string, string> {
  const names = ['http_proxy', 'https_proxy', 'no_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'];
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}
