/** Errors as the daemon tells them, as our own again. */
import { SallyportError } from '../../errors/error.ts';
import { type ErrorCode, errorTable } from '../../errors/table.ts';

/** A code that this version does not know becomes `internal`, in the daemon's words. */
export function remoteError({ code, message }: { readonly code: unknown; readonly message: unknown }): SallyportError {
  return new SallyportError(isErrorCode(code) ? code : 'internal', String(message));
}

/** @param text of an error body; @param otherwise said when it is none */
export function parseRemoteError(text: string, otherwise: string): SallyportError {
  try {
    return remoteError(JSON.parse(text) as { readonly code: unknown; readonly message: unknown });
  } catch {
    return new SallyportError('internal', otherwise);
  }
}

function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(errorTable, code);
}
