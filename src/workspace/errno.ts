/** The errno name that a system call failed with, for the few codes that mean something to a caller. */

export function errnoOf(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error) || !('code' in thrown)) return undefined;
  return typeof thrown.code === 'string' ? thrown.code : undefined;
}

/** The host's disk, or this user's share of it, is full. */
export function isDiskFull(thrown: unknown): boolean {
  const errno = errnoOf(thrown);
  return errno === 'ENOSPC' || errno === 'EDQUOT';
}
