/** What stands in SALLYPORT_HOME, and how a client finds the daemon and its key there. */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { SallyportError } from '../errors/error.ts';
import type { Context } from './context.ts';
import type { Options } from './options.ts';

const defaultHome = '/var/lib/sallyport';
export const defaultPort = 7117;

export function homeOf({ env }: Context, options: Options): string {
  return resolve(options.text('home') ?? env.SALLYPORT_HOME ?? defaultHome);
}

export const homeFiles = {
  store: (home: string) => join(home, 'sallyport.db'),
  lock: (home: string) => join(home, 'daemon.lock'),
  apiKey: (home: string) => join(home, 'api-key'),
  /** Where the running daemon listens; gone when it has stopped. */
  url: (home: string) => join(home, 'daemon-url'),
  policy: (home: string) => join(home, 'policy.yaml'),
} as const;

export interface Endpoint {
  readonly url: string;
  readonly key: string;
}

/** @throws SallyportError `unauthenticated` when there is no key to be found */
export function endpointOf(context: Context, options: Options): Endpoint {
  const home = homeOf(context, options);
  const given = options.text('url') ?? context.env.SALLYPORT_URL;
  const url = given ?? readText(homeFiles.url(home)) ?? `http://127.0.0.1:${defaultPort}`;
  return { url, key: context.env.SALLYPORT_API_KEY ?? localKey(home, url) };
}

/** The key of this host's daemon is for this host's daemon: another address does not get to see it. */
function localKey(home: string, url: string): string {
  const file = homeFiles.apiKey(home);
  const key = isLoopback(url) ? readText(file) : undefined;
  if (key !== undefined) return key;
  const where = isLoopback(url)
    ? `SALLYPORT_API_KEY is not set and ${file} cannot be read`
    : 'SALLYPORT_API_KEY is not set';
  throw new SallyportError('unauthenticated', `Cannot call ${url}: ${where}`);
}

function isLoopback(url: string): boolean {
  return URL.canParse(url) && ['127.0.0.1', 'localhost', '[::1]'].includes(new URL(url).hostname);
}

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return undefined;
  }
}
