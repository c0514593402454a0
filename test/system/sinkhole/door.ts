/**
 * A way for the test, which stays in the host's namespace, to a loopback port in the daemon's: the daemon's own API.
 * Only the loopback of the host is listened on, and only for connections inwards.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { Netns } from './network.ts';

export interface Door {
  /** On the host's loopback: the same number, unless that is taken. */
  readonly port: number;
  close(): Promise<void>;
}

const program = fileURLToPath(new URL('./door.js', import.meta.url));

export async function openDoor({ path }: Netns, port: number): Promise<Door> {
  const server = await listen(port).catch(() => listen(0));
  const address = server.address();
  const { fd } = (server as unknown as { readonly _handle: { readonly fd: number } })._handle;
  const words = [`--net=${path}`, 'setpriv', '--pdeathsig', 'KILL', process.execPath, program, String(port)];
  const child = spawn('nsenter', words, { stdio: ['pipe', 'ignore', 'inherit', fd] });
  // the child has the socket too; here nobody is to accept from it
  server.close();
  return {
    port: address !== null && typeof address === 'object' ? address.port : 0,
    close: () => ended(child),
  };
}

async function listen(port: number): Promise<Server> {
  const server = createServer().listen(port, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}
