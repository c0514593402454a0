/** errno numbers of Linux by name. */
import { constants } from 'node:os';

const names = new Map(Object.entries(constants.errno).map(([name, number]) => [number, name]));
// two names share a number: the usual one wins
names.set(constants.errno.EAGAIN, 'EAGAIN');
names.set(constants.errno.EOPNOTSUPP, 'EOPNOTSUPP');

/** @returns for instance `ENOENT`; a number without a name as `errno 133` */
export function errnoName(number: number): string {
  return names.get(number) ?? `errno ${number}`;
}
