/** Names the one store failure an operator can cure: the disk is full. Everything else stays what it was. */
import { SallyportError } from '../errors/error.ts';

/** SQLITE_IOERR_SHMSIZE is what SQLite makes of ENOSPC when it cannot make room for the index of its log. */
const fullCodes: ReadonlySet<string> = new Set(['SQLITE_FULL', 'ENOSPC', 'SQLITE_IOERR_SHMSIZE']);

function codeOf(thrown: unknown): string {
  if (!(thrown instanceof Error) || !('code' in thrown)) return '';
  return typeof thrown.code === 'string' ? thrown.code : '';
}

/** @returns `host_disk_full` for SQLITE_FULL and ENOSPC, else what was thrown */
export function nameFullDisk(thrown: unknown): unknown {
  if (!fullCodes.has(codeOf(thrown))) return thrown;
  return new SallyportError('host_disk_full', 'Cannot write the store: the disk is full', { cause: thrown });
}

/** @throws SallyportError `host_disk_full` in place of SQLITE_FULL and ENOSPC */
export function guardDisk<Value>(action: () => Value): Value {
  try {
    return action();
  } catch (thrown) {
    throw nameFullDisk(thrown);
  }
}
