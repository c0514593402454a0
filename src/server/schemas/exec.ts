/** Execs on the wire: the request, its parse into an `ExecSpec`, the result. */
import { z } from 'zod';
import { type ExecSpec, limitNames } from '../../sandbox/types.ts';
import { withoutUndefined } from '../without-undefined.ts';

const withoutNul = (text: string): boolean => !text.includes('\0');
const text = z.string().refine(withoutNul, 'a NUL cannot be passed to a program');
/** Bytes that may not be UTF-8. */
const base64Bytes = z.strictObject({ base64: z.base64() });

const execRequestFields = z.strictObject({
  argv: z
    .array(z.union([text, base64Bytes]))
    .min(1)
    .optional(),
  cmd: text.min(1).optional().describe('A command line for `bash -c`, in place of argv.'),
  cwd: text.optional().describe('Relative to the working folder of the class.'),
  env: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), text).optional(),
  user: z.enum(['user', 'root']).optional(),
  timeoutMs: z.int().positive().optional(),
  graceMs: z.int().nonnegative().max(60_000).optional(),
  killTreeOnExit: z.boolean().optional(),
  stdin: z.union([z.string(), base64Bytes]).optional().describe('Standard input, whole.'),
  openStdin: z.boolean().optional().describe('Keep standard input open for `POST …/stdin`.'),
  background: z.boolean().optional().describe('Answer 202 at once; the output goes to the log of the sandbox.'),
});

const exactlyOneCommand = (request: { readonly argv?: unknown; readonly cmd?: unknown }): boolean =>
  (request.argv === undefined) !== (request.cmd === undefined);

export const execRequestSchema = execRequestFields.refine(exactlyOneCommand, 'give either argv or cmd');
export type ExecRequest = z.output<typeof execRequestSchema>;

export function execSpecOf(request: ExecRequest): ExecSpec {
  const { argv, cmd, stdin, openStdin, background: _, ...rest } = request;
  return {
    ...withoutUndefined(rest),
    argv: argv?.map(bytesOf) ?? ['/bin/bash', '-c', cmd ?? ''],
    stdin: stdin !== undefined || openStdin === true,
  };
}

/** Standard input that the request brought along. */
export function stdinOf({ stdin }: ExecRequest): Buffer | undefined {
  return stdin === undefined ? undefined : Buffer.from(bytesOf(stdin));
}

function bytesOf(value: string | { readonly base64: string }): string | Buffer {
  return typeof value === 'string' ? value : Buffer.from(value.base64, 'base64');
}

const execResultSchema = z.object({
  execId: z.string(),
  exitCode: z.number().nullable(),
  signal: z.string().nullable(),
  limit: z.enum(limitNames).nullable(),
  detail: z.string().nullable(),
  stdoutBytes: z.number(),
  stderrBytes: z.number(),
  discardedBytes: z.number(),
  startedAt: z.string(),
  durationMs: z.number(),
  userMicros: z.number(),
  systemMicros: z.number(),
  maxRssKib: z.number(),
});

const capturedSchema = z.object({
  text: z.string().optional().describe('Present when the bytes are UTF-8.'),
  base64: z.string().optional().describe('Present when they are not.'),
  bytes: z.number().describe('All bytes that were written, captured or not.'),
  truncated: z.boolean(),
});

export const execAnswerSchema = z.object({
  execId: z.string(),
  stdout: capturedSchema,
  stderr: capturedSchema,
  result: execResultSchema,
});

export const execQuery = z.strictObject({
  detach: z
    .enum(['true', 'false'])
    .optional()
    .describe('true: the command goes on when the client disconnects; its output goes to the log of the sandbox.'),
});

export const signalSchema = z.strictObject({ signal: z.string().regex(/^SIG[A-Z0-9+-]{2,12}$/) });
export const killSchema = z.strictObject({ graceMs: z.int().nonnegative().max(60_000).optional() }).nullish();
