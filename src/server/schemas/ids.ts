/** Ids as they may stand in a URL (HX-03): short, lower case, nothing that a path or a header could read otherwise. */
import { z } from 'zod';

const id = z
  .string()
  .max(64)
  .regex(/^[a-z0-9][a-z0-9_-]*$/);

export const sandboxParams = z.strictObject({ id });
export const execParams = z.strictObject({ id, execId: id });
export const runParams = z.strictObject({ id });
