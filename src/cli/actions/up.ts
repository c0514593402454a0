/** `sallyport up`: the daemon, in the foreground until SIGINT or SIGTERM. Only one runs in a home. */
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { pino } from 'pino';
import { loadPolicy } from '../../admission/policy.ts';
import { SallyportError } from '../../errors/error.ts';
import { openHostSide } from '../../host/host-side.ts';
import { openSandboxes } from '../../sandbox/sandboxes.ts';
import type { LiveMatrix } from '../../server/deps.ts';
import { type ListeningServer, listen } from '../../server/listen.ts';
import { acquireLock } from '../../store/lock.ts';
import { openStore, type Store } from '../../store/store.ts';
import type { Action, Call } from '../command.ts';
import type { Context } from '../context.ts';
import { defaultPort, homeFiles, homeOf } from '../home.ts';
import { listenForInterruption } from '../interruption.ts';
import { policyFileOf } from '../policy-file.ts';
import { write } from '../terminal/write.ts';
import { upstreamsOf } from '../upstreams.ts';
import { UsageError } from '../usage-error.ts';

/** Network namespaces that wait ready: a burst of starts finds its own, one more costs the daemon five fds. */
const preparedNetworks = 4;
/** A stop that takes longer is cut short; the next start cleans up what it left. */
const stopDeadlineMs = 30_000;

export const run: Action = async (context, call) => {
  const home = homeOf(context, call.options);
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const lock = acquireLock(homeFiles.lock(home));
  if (lock === undefined) throw new SallyportError('daemon_running', `Cannot start: a daemon runs in ${home} already`);
  try {
    const store = await openStore(homeFiles.store(home));
    try {
      await serve(context, call, home, store);
      return undefined;
    } finally {
      await store.close();
    }
  } finally {
    lock.release();
  }
};

async function serve(context: Context, { options }: Call, home: string, store: Store): Promise<void> {
  const address = { host: options.text('host') ?? '127.0.0.1', port: portOf(options.text('port')) };
  const log = pino({ level: options.text('logLevel') ?? 'info' }, pino.destination(2));
  const policy = await loadPolicy(policyFileOf(context, options));
  ensureKey(store, home, options.flag('newKey'));
  const daemonPorts = new Set<number>();
  const sandboxes = await openSandboxes({
    host: openHostSide({ home, preparedNetworks }),
    policy,
    store: store.sandboxes,
    network: { ...upstreamsOf(options), daemonPorts },
    onFault: (error) => log.error({ err: error }, 'background fault'),
  });
  const matrix: LiveMatrix = {
    current: () => sandboxes.policy,
    reload: async () => {
      const next = await loadPolicy(policyFileOf(context, options));
      const reloaded = { sha256: next.sha256, sandboxes: sandboxes.adopt(next) };
      log.info(reloaded, 'policy read again');
      return reloaded;
    },
  };
  const interruption = listenForInterruption();
  try {
    const deps = { sandboxes, store, matrix, log, allowedHosts: options.list('serverName') };
    const server = await listen(deps, address);
    daemonPorts.add(Number(new URL(server.url).port));
    writeWhole(homeFiles.url(home), server.url, 0o644);
    await write(context.stdout, `sallyport listens on ${server.url}; the API key is in ${homeFiles.apiKey(home)}\n`);
    await aborted(interruption.signal);
    await stop(server, sandboxes);
  } finally {
    rmSync(homeFiles.url(home), { force: true });
    interruption.stop();
    await sandboxes.close();
  }
}

/** Sandboxes and requests end together: a running exec gets its result from the end of its sandbox. */
async function stop(server: ListeningServer, sandboxes: { close(): Promise<void> }): Promise<void> {
  const late = setTimeout(() => process.exit(1), stopDeadlineMs);
  try {
    await Promise.all([server.close(), sandboxes.close()]);
  } finally {
    clearTimeout(late);
  }
}

/** The first start makes a key and leaves it where the CLI of this host finds it. */
function ensureKey(store: Store, home: string, isWanted: boolean): void {
  if (store.apiKeys.hasValid() && !isWanted) return;
  writeWhole(homeFiles.apiKey(home), `${store.apiKeys.create('sallyport up').key}\n`, 0o600);
}

/** Never seen half-written, and never with the mode of a file that was there before. */
function writeWhole(file: string, text: string, mode: number): void {
  const partial = `${file}.partial`;
  rmSync(partial, { force: true });
  writeFileSync(partial, text, { mode, flag: 'wx' });
  renameSync(partial, file);
}

function portOf(text: string | undefined): number {
  const port = text === undefined ? defaultPort : Number(text);
  if (Number.isInteger(port) && port >= 0 && port <= 65_535) return port;
  throw new UsageError(`--port: ${JSON.stringify(text)} is no port`);
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
