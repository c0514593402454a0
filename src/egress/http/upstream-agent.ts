/**
 * The upstream side of one HTTP connection of a sandbox: at most one connection at a time, kept for the next request of the
 * same connection inside and for nobody else (NX-22: a pool that is shared could hand one's answer to another).
 */
import { Agent } from 'node:http';
import type { Duplex } from 'node:stream';

/** Longer than that an idle one may have been given up by the other side. */
const idleMs = 15_000;

export type Connect = () => Promise<Duplex>;

export class UpstreamAgent extends Agent {
  readonly #connect: Connect;

  constructor(connect: Connect) {
    super({ keepAlive: true, maxSockets: 1, maxFreeSockets: 1, timeout: 0 });
    this.#connect = connect;
  }

  override createConnection(_options: object, done?: (error: Error | null, stream: Duplex) => void): undefined {
    this.#connect().then(
      (socket) => done?.(null, socket),
      (error: unknown) => done?.(error instanceof Error ? error : new Error(String(error)), undefined as never),
    );
    return undefined;
  }

  /** Bytes that come while nothing was asked are an answer to nothing: the connection goes with them. */
  override keepSocketAlive(socket: Duplex): boolean {
    const kept = super.keepSocketAlive(socket) as unknown as boolean;
    if (!kept) return false;
    const drop = (): void => void socket.destroy();
    const timer = setTimeout(drop, idleMs).unref();
    // its end comes as data does: a half that stays open would look alive to the next request
    socket.on('data', drop).once('end', drop).resume();
    (socket as Watched)[unwatch] = () => {
      clearTimeout(timer);
      socket.off('data', drop).off('end', drop);
    };
    return true;
  }

  override reuseSocket(socket: Duplex, request: Parameters<Agent['reuseSocket']>[1]): void {
    (socket as Watched)[unwatch]?.();
    super.reuseSocket(socket, request);
  }
}

const unwatch = Symbol('unwatch');
type Watched = Duplex & { [unwatch]?: () => void };
