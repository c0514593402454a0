/** Opens the server on an address. It never listens without a key in the store: there is no unauthenticated mode. */
import { SallyportError } from '../errors/error.ts';
import { createServer } from './create-server.ts';
import type { ServerDeps } from './deps.ts';

export interface ListenOptions {
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** 0: any free port. */
  readonly port: number;
}

export interface ListeningServer {
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  /** Refuses new requests and lets the running ones end for so long, then cuts them off. */
  close(graceMs?: number): Promise<void>;
}

const defaultGraceMs = 5_000;

/** @throws SallyportError `unauthenticated` without a key, `daemon_running` when the port is taken */
export async function listen(deps: ServerDeps, { host = '127.0.0.1', port }: ListenOptions): Promise<ListeningServer> {
  if (!deps.store.apiKeys.hasValid()) {
    const message = 'Cannot start the server: there is no API key; make one with "sallyport key create"';
    throw new SallyportError('unauthenticated', message);
  }
  const app = createServer(deps);
  try {
    const url = await app.listen({ host, port });
    return { url, close: (graceMs = defaultGraceMs) => close(app, graceMs) };
  } catch (thrown) {
    await app.close();
    if (!(thrown instanceof Error) || !('code' in thrown) || thrown.code !== 'EADDRINUSE') throw thrown;
    throw new SallyportError('daemon_running', `Cannot listen on ${host}:${port}: the address is in use`);
  }
}

async function close(app: ReturnType<typeof createServer>, graceMs: number): Promise<void> {
  const timer = setTimeout(() => app.server.closeAllConnections(), graceMs);
  try {
    await app.close();
  } finally {
    clearTimeout(timer);
  }
}
