/** The body of every answer that is not a success. */
import { z } from 'zod';

const errorSchema = z.strictObject({
  code: z.string().describe('Stable; docs/errors.md has a heading for each.'),
  message: z.string(),
  retry: z.boolean().describe('The same call may succeed later without a change.'),
  next: z.string().describe("The caller's next step."),
});

/** For the `response` of every route: 4xx and 5xx look alike everywhere. */
export const errorResponses = { '4xx': errorSchema, '5xx': errorSchema } as const;
