/** Room on the host's disk, asked before it is needed: a full disk found half-way leaves half of something. */
import { statfs } from 'node:fs/promises';
import { SallyportError } from '../errors/error.ts';

/** Bytes that a process without root's reserve can still write to the filesystem of `folder`. */
export async function freeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

/** @throws SallyportError `host_disk_full` */
export async function requireFreeBytes(folder: string, neededBytes: number, what: string): Promise<void> {
  const free = await freeBytes(folder);
  if (free >= neededBytes) return;
  throw new SallyportError(
    'host_disk_full',
    `Cannot ${what}: ${folder} has ${free} bytes free, ${neededBytes} are needed`,
  );
}
