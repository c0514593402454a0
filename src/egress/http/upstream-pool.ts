/**
 * The upstream connections of one HTTP connection of a sandbox: made when a request needs one, kept for its next request and for
 * nobody else (NX-22: a pool that is shared could hand one's answer to another). What is dialled belongs to the pool from the
 * first moment, so nothing outlives it.
 */
import { Agent, type ClientRequest } from 'node:http';
import type { Duplex } from 'node:stream';

/** An idle one may have been given up by the other side after longer. */
const idleMs = 15_000;
/** Node says that a connection is free a moment after the answer has ended. */
const freeMs = 1_000;

export type Connect = () => Promise<Duplex>;

/** One connection for one exchange. */
export interface Lease {
  readonly socket: Duplex;
  /** What `http.request` takes to send its request over exactly this socket. */
  readonly agent: Agent;
  /** @param isComplete whether the exchange went to its end; else the connection goes with it */
  finish(isComplete: boolean): void;
}

interface Waiter {
  readonly resolve: (lease: Lease) => void;
  readonly reject: (error: unknown) => void;
}

export class UpstreamPool {
  readonly #connect: Connect;
  readonly #most: number;
  /** All there are, each with the agent that hands it over: making one costs as much as a request. */
  readonly #all = new Map<Duplex, Agent>();
  /** Idle ones, with the way to stop watching them. */
  readonly #idle = new Map<Duplex, () => void>();
  readonly #waiting: Waiter[] = [];
  #connecting = 0;
  #isClosed = false;

  /** @param most connections at once; who comes later waits */
  constructor(connect: Connect, most: number) {
    this.#connect = connect;
    this.#most = most;
  }

  /** @throws what `connect` throws; Error when the pool is closed */
  async acquire(): Promise<Lease> {
    if (this.#isClosed) throw gone();
    const [idle] = this.#idle.keys();
    if (idle !== undefined) return this.#reuse(idle);
    if (this.#all.size + this.#connecting < this.#most) return this.#open();
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  /** Idle ones end; the next request dials anew. */
  flush(): void {
    for (const socket of this.#idle.keys()) socket.destroy();
  }

  close(): void {
    this.#isClosed = true;
    for (const socket of this.#all.keys()) socket.destroy();
    for (const { reject } of this.#waiting.splice(0)) reject(gone());
  }

  async #open(): Promise<Lease> {
    this.#connecting += 1;
    let socket: Duplex;
    try {
      socket = await this.#connect();
    } catch (error) {
      this.#connecting -= 1;
      this.#serveNext();
      throw error;
    }
    this.#connecting -= 1;
    socket.on('error', () => socket.destroy());
    if (this.#isClosed) {
      socket.destroy();
      throw gone();
    }
    this.#all.set(socket, new SocketAgent(socket));
    socket.once('close', () => this.#forget(socket));
    // between the connection and now it may have ended already, and then says nothing more
    if (socket.destroyed) this.#forget(socket);
    return this.#lease(socket);
  }

  #forget(socket: Duplex): void {
    this.#idle.get(socket)?.();
    this.#idle.delete(socket);
    if (this.#all.delete(socket)) this.#serveNext();
  }

  #reuse(socket: Duplex): Lease {
    this.#idle.get(socket)?.();
    this.#idle.delete(socket);
    return this.#lease(socket);
  }

  #lease(socket: Duplex): Lease {
    let isFree = false;
    let isDone = false;
    const park = (): void => {
      isFree = true;
      if (isDone) this.#park(socket);
    };
    socket.once('free', park);
    return {
      socket,
      agent: this.#all.get(socket) ?? new SocketAgent(socket),
      finish: (isComplete) => {
        if (isDone) return;
        isDone = true;
        if (!isComplete) socket.destroy();
        else if (isFree) this.#park(socket);
        else setTimeout(() => !isFree && socket.destroy(), freeMs).unref();
      },
    };
  }

  /** Bytes that come while nothing was asked are an answer to nothing: the connection goes with them, as with its end. */
  #park(socket: Duplex): void {
    if (socket.destroyed || this.#isClosed) {
      socket.destroy();
      return;
    }
    const drop = (): void => void socket.destroy();
    const timer = setTimeout(drop, idleMs).unref();
    socket.on('data', drop).once('end', drop).resume();
    this.#idle.set(socket, () => {
      clearTimeout(timer);
      socket.off('data', drop).off('end', drop);
    });
    this.#serveNext();
  }

  #serveNext(): void {
    if (this.#isClosed || this.#waiting.length === 0) return;
    const [idle] = this.#idle.keys();
    if (idle === undefined && this.#all.size + this.#connecting >= this.#most) return;
    const waiter = this.#waiting.shift();
    if (waiter === undefined) return;
    if (idle !== undefined) waiter.resolve(this.#reuse(idle));
    else this.#open().then(waiter.resolve, waiter.reject);
  }
}

function gone(): Error {
  return new Error('the connection inside ended');
}

/** Node's own agent queues and dials; this one hands over the socket that it was given. */
class SocketAgent extends Agent {
  readonly #socket: Duplex;

  constructor(socket: Duplex) {
    super({ keepAlive: true });
    this.#socket = socket;
  }

  addRequest(request: ClientRequest): void {
    (request as unknown as { onSocket(socket: Duplex): void }).onSocket(this.#socket);
  }
}
