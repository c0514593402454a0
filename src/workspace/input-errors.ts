/** What can be wrong with an input, as one sentence that names it. */
import { SallyportError } from '../errors/error.ts';
import { displayName } from '../units/display-name.ts';
import { errnoOf } from './errno.ts';

const reasons: ReadonlyMap<string, string> = new Map([
  ['EACCES', 'permission denied'],
  ['EPERM', 'permission denied'],
  ['ENOENT', 'it vanished while it was copied'],
  ['ELOOP', 'it became a symbolic link while it was copied'],
  ['ENOTDIR', 'it changed its kind while it was copied'],
]);

export function reasonOf(thrown: unknown): string {
  return reasons.get(errnoOf(thrown) ?? '') ?? (thrown instanceof Error ? thrown.message : String(thrown));
}

export function tooLarge(what: string): SallyportError {
  return new SallyportError('input_too_large', `Cannot copy the inputs: ${what}`);
}

export function unreadable(name: Buffer, why: string): SallyportError {
  return new SallyportError('input_unreadable', `Cannot copy the input ${displayName(name)}: ${why}`);
}

export function invalid(why: string): SallyportError {
  return new SallyportError('invalid_request', `Cannot copy the inputs: ${why}`);
}
