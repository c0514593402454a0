/**
 * The typed face of native/addon: the calls that Node lacks. What the kernel refuses is thrown as Node's own calls throw it,
 * an Error with `code` (the errno name) and `syscall`; an argument that is not what it should be, as a TypeError.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { SallyportError } from '../errors/error.ts';

/** Every fd that is returned is close-on-exec and the caller's to close. */
interface Addon {
  pidfdOpen(pid: number): number;
  /** @returns false when the process has ended */
  pidfdSendSignal(fd: number, signal: number): boolean;
  /** Counts from 0, never blocks. */
  eventfd(): number;
  socketPair(): [number, number];
  /** Once per process; `readiness.ts` is its only caller, and the only one of `watch` and `unwatch`. */
  startWatching(callback: (token: number) => void): void;
  /** One-shot. @param token 1…2³¹−1, given back when `fd` is readable */
  watch(fd: number, token: number): void;
  unwatch(fd: number): void;
  /** A bound socket (tcp: listening) in another network namespace, for `listen({ fd })`. @param port 0: any free one */
  listenInNetns(netnsFd: number, address: string, port: number, protocol: 'tcp' | 'udp'): number;
  /** A new network namespace in which nothing is up; it lives as long as an fd or a process of it. */
  newNetns(): number;
  /** A netlink socket to the netfilter of a namespace, to be read and written like a file; never blocks. */
  netfilterInNetns(netnsFd: number): number;
  /** Where an accepted connection wanted to go before netfilter redirected it; throws ENOENT when it was not. */
  originalDestination(fd: number): { address: string; port: number };
}

/** @returns the path of a built native program. @throws SallyportError `native_missing` */
export function nativeFile(name: 'launch' | 'init' | 'sallyport.node'): string {
  const file = fileURLToPath(new URL(`../../native/build/${name}`, import.meta.url));
  if (existsSync(file)) return file;
  throw new SallyportError('native_missing', `Cannot find the native part ${name}: it is not built`);
}

let loaded: Addon | undefined;

/** @throws SallyportError `native_missing` */
export function addon(): Addon {
  loaded ??= createRequire(import.meta.url)(nativeFile('sallyport.node')) as Addon;
  return loaded;
}

/** A connected pair of stream sockets, close-on-exec. */
export function socketPair(): [number, number] {
  return addon().socketPair();
}
