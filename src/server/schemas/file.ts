/** Files on the wire. A name has two forms: text for people, base64 for programs, which is always exact. */
import { z } from 'zod';
import type { FileEntry, WatchEvent } from '../../sandbox/types.ts';
import { pathFields, targetFields } from '../files/path.ts';

export const fileEntrySchema = z.object({
  path: z.string().describe('Text; bytes that are not UTF-8 show as U+FFFD.'),
  path_b64: z.string(),
  kind: z.enum(['file', 'folder', 'symlink', 'fifo', 'socket', 'device']),
  mode: z.number(),
  uid: z.number(),
  gid: z.number(),
  links: z.number(),
  bytes: z.number(),
  allocatedBytes: z.number(),
  modifiedAt: z.string(),
  target: z.string().optional(),
  target_b64: z.string().optional(),
});

export const fileListSchema = z.object({ entries: z.array(fileEntrySchema), truncated: z.boolean() });

const decimal = (max: number) =>
  z
    .string()
    .regex(/^[0-9]{1,9}$/)
    .transform(Number)
    .pipe(z.int().min(1).max(max));
const flag = z.enum(['true', 'false']);
const octalMode = z.string().regex(/^[0-7]{3,4}$/);
const mode = z.int().min(0).max(0o7777);
const id = z.int().min(0).max(0xffff_ffff);

export const pathQuery = z.strictObject(pathFields);
export const listQuery = z.strictObject({
  ...pathFields,
  depth: decimal(64).optional(),
  max: decimal(100_000).optional(),
});
export const writeQuery = z.strictObject({ ...pathFields, mode: octalMode.optional(), parents: flag.optional() });
export const watchQuery = z.strictObject({ ...pathFields, recursive: flag.optional() });

export const mkdirSchema = z.strictObject({ ...pathFields, mode: mode.optional(), parents: z.boolean().optional() });
export const renameSchema = z.strictObject({ ...pathFields, ...targetFields });
export const removeSchema = z.strictObject({ ...pathFields, recursive: z.boolean().optional() });
export const chmodSchema = z.strictObject({ ...pathFields, mode });
export const chownSchema = z.strictObject({ ...pathFields, uid: id, gid: id });

export function fileEntryOf({ path, target, ...rest }: FileEntry): z.output<typeof fileEntrySchema> {
  const name = { path: path.toString(), path_b64: path.toString('base64') };
  if (target === undefined) return { ...name, ...rest };
  return { ...name, ...rest, target: target.toString(), target_b64: target.toString('base64') };
}

export function watchLineOf({ kind, path }: WatchEvent): string {
  return `${JSON.stringify({ kind, path: path.toString(), path_b64: path.toString('base64') })}\n`;
}
