/** Egress on the wire: the flow log, an explanation, the changes that tighten. */
import { z } from 'zod';
import { networkRequestSchema } from '../../admission/request-schema.ts';

const recordSchema = z.object({
  sequence: z.number(),
  at: z.string(),
  kind: z.enum(['dns', 'connection', 'request', 'packet']),
  verdict: z.enum(['allow', 'deny', 'would-deny']),
  rule: z.string().nullable(),
  code: z.string().nullable(),
  reason: z.string().nullable(),
  host: z.string().nullable(),
  address: z.string().nullable(),
  port: z.number().nullable(),
  protocol: z.string().nullable(),
  upBytes: z.number(),
  downBytes: z.number(),
  durationMs: z.number(),
  method: z.string().nullable(),
  path: z.string().nullable(),
  status: z.number().nullable(),
  fault: z.string().nullable(),
  count: z.number(),
});

export const egressSchema = z.object({
  grantDigest: z.string(),
  mode: z.enum(['deny', 'allow', 'observe']),
  phase: z.string().nullable().describe('The phase it is in; null where its class has none.'),
  phases: z.array(z.string()),
  connections: z.number().describe('Open now.'),
  summary: z.object({
    allowed: z.number(),
    denied: z.number(),
    wouldDeny: z.number(),
    upBytes: z.number(),
    downBytes: z.number(),
    lost: z.number().describe('Entries that are no longer kept, and packets that could not be told one by one.'),
  }),
  records: z.array(recordSchema),
});

export const egressQuery = z.strictObject({
  after: z.coerce.number().int().min(0).optional().describe('Only entries with a higher sequence.'),
  follow: z.enum(['true', 'false']).optional().describe('JSON lines as they come, until the sandbox ends.'),
});

export const explainQuery = z.strictObject({
  url: z.string().min(1).max(4096).describe('https://host/path, http://…, wss://…, tcp://host:port'),
  method: z.string().min(1).max(32).optional(),
});

export const explanationSchema = z.object({
  verdict: z.enum(['allow', 'deny', 'would-deny']),
  rule: z.string().nullable(),
  code: z.string().nullable(),
  reason: z.string(),
  handling: z.enum(['splice', 'http', 'open']).nullable(),
  nextStep: z.string().nullable().describe('The narrowest change that would allow it, or why none can.'),
  file: z.string().nullable().describe('Name of the policy file; null when it has changed since the Grant.'),
  line: z.number().nullable(),
});

export const phaseSchema = z.strictObject({ phase: z.string().min(1).max(64) });
export const tightenSchema = z.strictObject({ network: networkRequestSchema });
