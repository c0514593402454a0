/** The head of what a sandbox printed, on the wire. */
import { z } from 'zod';

export const logSchema = z.object({
  chunks: z.array(z.object({ channel: z.enum(['stdout', 'stderr']), base64: z.string() })),
  omittedBytes: z.number().describe('Output that came after the log was full.'),
});
