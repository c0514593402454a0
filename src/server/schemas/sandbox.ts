/** Sandboxes on the wire. */
import { z } from 'zod';
import { endReasons } from '../../sandbox/types.ts';

const artefact = z.object({ name: z.string(), digest: z.string() });

export const sandboxInfoSchema = z.object({
  id: z.string(),
  state: z.enum(['starting', 'running', 'ending', 'ended']),
  class: z.string(),
  grantDigest: z.string(),
  tier: z.string(),
  image: artefact,
  runtime: z.object({ name: z.string(), version: z.string() }),
  createdAt: z.string(),
  deadlineAt: z.string(),
  endedAt: z.string().optional(),
  endReason: z.enum(endReasons).optional(),
  endDetail: z.string().optional(),
  metadata: z.record(z.string(), z.string()).readonly(),
});

/** Labels of the caller; the platform gives them no meaning. */
export const metadataSchema = z
  .record(z.string().min(1).max(64), z.string().max(1024))
  .refine((metadata) => Object.keys(metadata).length <= 64, 'at most 64 entries');

export const usageSchema = z.object({
  memoryBytes: z.number(),
  memoryPeakBytes: z.number(),
  cpuMicros: z.number(),
  throttledPeriods: z.number(),
  pids: z.number(),
  pidsRefused: z.number(),
  oomKills: z.number(),
});
