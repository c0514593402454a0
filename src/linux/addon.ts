/** The typed face of native/addon: the calls that Node lacks. Errors carry the errno name as `code`. */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { SallyportError } from '../errors/error.ts';

interface Addon {
  pidfdOpen(pid: number): number;
  pidfdSendSignal(fd: number, signal: number): boolean;
  eventfd(): number;
  socketPair(): [number, number];
  startWatching(callback: (token: number) => void): void;
  watch(fd: number, token: number): void;
  unwatch(fd: number): void;
  listenInNetns(netnsFd: number, address: string, port: number, isUdp: number): number;
  originalDestination(fd: number): [string, number];
}

/** @returns the path of a built native program. @throws SallyportError `native_missing` */
export function nativeFile(name: 'launch' | 'init' | 'sallyport.node'): string {
  const file = fileURLToPath(new URL(`../../native/build/${name}`, import.meta.url));
  if (existsSync(file)) return file;
  throw new SallyportError('native_missing', `Cannot find the native part ${name}: it is not built`);
}

let loaded: Addon | undefined;

export function addon(): Addon {
  loaded ??= createRequire(import.meta.url)(nativeFile('sallyport.node')) as Addon;
  return loaded;
}

/** A connected pair of stream sockets, close-on-exec. */
export function socketPair(): [number, number] {
  return addon().socketPair();
}
