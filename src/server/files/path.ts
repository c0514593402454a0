/**
 * Paths of a sandbox as callers give them: `path` as text, or `path_b64` for names that are not UTF-8 (FS-20). Here
 * they only become bytes; the kernel inside the sandbox resolves them beneath its root.
 */
import { z } from 'zod';
import { SallyportError } from '../../errors/error.ts';

const maxPathBytes = 4095;

/** Spread into a strict object, for a query or a body. */
export const pathFields = {
  path: z.string().optional().describe('Absolute, or relative to the working folder.'),
  path_b64: z.base64url().or(z.base64()).optional().describe('The path as base64, for names that are not UTF-8.'),
} as const;

export const targetFields = { to: pathFields.path, to_b64: pathFields.path_b64 } as const;

/** @throws SallyportError `path_invalid` */
export function pathOf({ path, path_b64 }: { readonly path?: unknown; readonly path_b64?: unknown }): Buffer {
  return parsePath('path', path, path_b64);
}

/** @throws SallyportError `path_invalid` */
export function targetOf({ to, to_b64 }: { readonly to?: unknown; readonly to_b64?: unknown }): Buffer {
  return parsePath('to', to, to_b64);
}

function parsePath(name: string, text: unknown, base64: unknown): Buffer {
  const path = bytesOf(name, text, base64);
  if (path.length === 0) throw new SallyportError('path_invalid', `Cannot use ${name}: it is empty`);
  if (path.includes(0)) throw new SallyportError('path_invalid', `Cannot use ${name}: it holds a NUL`);
  if (path.length <= maxPathBytes) return path;
  throw new SallyportError(
    'path_invalid',
    `Cannot use ${name}: it has ${path.length} bytes, at most 4095 are possible`,
  );
}

function bytesOf(name: string, text: unknown, base64: unknown): Buffer {
  if (typeof text === 'string' && base64 === undefined) return Buffer.from(text);
  if (text === undefined && typeof base64 === 'string') return Buffer.from(base64, 'base64');
  throw new SallyportError('path_invalid', `Cannot use ${name}: give either ${name} or ${name}_b64`);
}
