/**
 * The writable layer of a sandbox. Small ones are a tmpfs, which is memory of the sandbox; larger ones are a
 * fixed-size ext4 in a sparse file on the host's disk. Either way the filesystem itself is the limit for bytes and
 * inodes: nothing has to watch and nothing can be late.
 */
import { open, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { GrantLimits } from '../admission/grant.ts';
import { SallyportError } from '../errors/error.ts';
import { isDiskFull } from './errno.ts';
import { requireFreeBytes } from './free-space.ts';
import { runProgram } from './run-program.ts';
import type { Upper } from './types.ts';

const blockBytes = 4096;
const inodeBytes = 256;
/** Superblock, descriptors, bitmaps, root folder: two blocks for each group of 128 MiB, and some that do not grow. */
const fixedOverheadBytes = 1024 * 1024;
const groupOverheadDivisor = 4096;
/** ext4 keeps two per cent, at most 4096 blocks, for delayed writes that would otherwise find the disk full. */
const kernelReserveDivisor = 48;
const kernelReserveBytes = 4096 * blockBytes;
/** Reserved by ext4 itself (11), and our own: lost+found, the overlay's two folders and what it makes in one. */
const ownInodes = 16;
const makeDeadlineMs = 20_000;

/**
 * tmpfs where the sandbox can fill it and still has half of its memory to run in, else ext4.
 * @param folder the sandbox's own folder on the host
 */
export function planUpper(limits: Pick<GrantLimits, 'diskBytes' | 'inodes' | 'memoryBytes'>, folder: string): Upper {
  const { diskBytes: bytes, inodes, memoryBytes } = limits;
  if (bytes <= memoryBytes / 2) return { kind: 'tmpfs', bytes, inodes };
  return { kind: 'ext4', bytes, inodes, file: join(folder, 'upper.ext4') };
}

/** Size of the file: the Grant's bytes are for the sandbox, so inodes and the filesystem's own blocks come on top. */
export function ext4FileBytes({ bytes, inodes }: Pick<Upper, 'bytes' | 'inodes'>): number {
  const reserve = Math.min(bytes / kernelReserveDivisor, kernelReserveBytes);
  const overhead = (inodes + ownInodes) * inodeBytes + bytes / groupOverheadDivisor + reserve + fixedOverheadBytes;
  return Math.ceil((bytes + overhead) / blockBytes) * blockBytes;
}

/** For a new sparse file. Pure, so that a test reads what mkfs is told. */
export function mkfsArguments({ inodes, file }: Extract<Upper, { kind: 'ext4' }>, rootUid: number): readonly string[] {
  return [
    ...['-q', '-F', '-b', String(blockBytes), '-I', String(inodeBytes), '-N', String(inodes + ownInodes)],
    // no share for root: the sandbox's own root would have it
    ...['-m', '0'],
    // no journal: nothing of it outlives the sandbox, so a crash has nothing to repair; no room to grow either
    ...['-O', '^has_journal,^resize_inode,sparse_super2'],
    // inode tables of a fresh sparse file are zero already, so nobody writes them now or later
    ...['-E', `lazy_itable_init=1,nodiscard,num_backup_sb=0,packed_meta_blocks=1,root_owner=${rootUid}:${rootUid}`],
    file,
  ];
}

/**
 * Makes what `plan` says. A tmpfs is mounted by the launcher, so there is nothing to make yet.
 * @param rootUid the host uid that is root inside
 * @throws SallyportError `host_disk_full`, `start_failed`, `deadline`
 */
export async function makeUpper(plan: Upper, rootUid: number): Promise<Upper> {
  if (plan.kind === 'tmpfs') return plan;
  const size = ext4FileBytes(plan);
  await requireFreeBytes(dirname(plan.file), size, 'make the writable layer');
  try {
    await makeSparseFile(plan.file, size);
    const command = ['mkfs.ext4', ...mkfsArguments(plan, rootUid)];
    await runProgram('Cannot make the writable layer', command, { code: 'start_failed', deadlineMs: makeDeadlineMs });
    return plan;
  } catch (thrown) {
    await rm(plan.file, { force: true });
    if (!isDiskFull(thrown)) throw thrown;
    throw new SallyportError('host_disk_full', `Cannot make the writable layer: the disk of ${plan.file} is full`, {
      cause: thrown,
    });
  }
}

async function makeSparseFile(file: string, size: number): Promise<void> {
  await using handle = await open(file, 'wx', 0o600);
  await handle.truncate(size);
}
