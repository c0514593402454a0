/**
 * The main job: one command in one fresh sandbox, its inputs shown, its output passed on as it comes, its artifacts
 * copied out, its record written. The sandbox is gone when this returns, however it went.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { release } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import type { SandboxRequest } from '../admission/grant.ts';
import { parseArtifactPattern } from '../artifacts/artifact-match.ts';
import { type ExportResult, exportArtifacts } from '../artifacts/export.ts';
import { asSallyportError, SallyportError } from '../errors/error.ts';
import type { OutputChunk } from '../init/types.ts';
import type { EndReason, ExecResult, LimitName, Sandbox, Sandboxes, SandboxInfo } from '../sandbox/types.ts';
import { packageVersion } from '../units/package-version.ts';
import type { RunRecord } from './types.ts';

export interface RunOptions {
  readonly sandboxes: Sandboxes;
  readonly request: SandboxRequest;
  readonly argv: readonly (string | Buffer)[];
  /** Host paths shown at /inputs. */
  readonly inputs: readonly string[];
  /** Globs relative to the workdir. */
  readonly artifacts: readonly string[];
  /** The run's folder is made below it. */
  readonly outputFolder: string;
  readonly timeoutMs?: number;
  /** Takes each chunk; a promise holds the command back until it settles. */
  readonly onOutput: (chunk: OutputChunk) => void | Promise<void>;
  /** Aborting kills the sandbox. */
  readonly signal?: AbortSignal;
  /** Kept besides the run's folder, for instance in the store. */
  readonly keep?: (record: RunRecord) => void;
}

export interface RunOutcome {
  readonly record: RunRecord;
  /** `<outputFolder>/<run-id>`. */
  readonly folder: string;
}

/** @throws SallyportError where no sandbox came to be: of admission, the inputs, the platform */
export async function run(options: RunOptions): Promise<RunOutcome> {
  // a pattern that can match nothing is refused before the work, not after it
  for (const pattern of options.artifacts) parseArtifactPattern(pattern);
  const began = performance.now();
  const createdAt = new Date();
  const runId = newRunId(createdAt);
  const folder = await makeRunFolder(options.outputFolder, runId);
  try {
    const sandbox = await createSandbox(options, runId);
    const record = await work({ ...options, runId, folder, sandbox, createdAt, began });
    await writeAtomically(join(folder, 'manifest.json'), record.artifacts);
    await writeAtomically(join(folder, 'egress.jsonl'), sandbox.egress.log.read());
    await writeAtomically(join(folder, 'record.json'), record);
    options.keep?.(record);
    return { record, folder };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw asHostError(error, folder);
  }
}

interface Work extends RunOptions {
  readonly runId: string;
  readonly folder: string;
  readonly sandbox: Sandbox;
  readonly createdAt: Date;
  readonly began: number;
}

async function work(options: Work): Promise<RunRecord> {
  const { sandbox } = options;
  const kill = (): void => void sandbox.end('killed', 'The run was interrupted.');
  options.signal?.addEventListener('abort', kill, { once: true });
  try {
    if (options.signal?.aborted) kill();
    const startMs = performance.now() - options.began;
    const ran = await execute(options);
    const execMs = performance.now() - options.began - startMs;
    const exported = await exportSafely(options, ran);
    await sandbox.end(endReasonOf(ran));
    return recordOf(options, ran, exported, await sandbox.ended, {
      startMs,
      execMs,
      totalMs: performance.now() - options.began,
    });
  } finally {
    options.signal?.removeEventListener('abort', kill);
    await sandbox.end('platform', 'The run failed.');
  }
}

type Ran =
  | { readonly result: ExecResult; readonly error: null }
  | { readonly result: null; readonly error: SallyportError };

async function execute({ sandbox, argv, timeoutMs, onOutput }: Work): Promise<Ran> {
  try {
    const exec = sandbox.exec({ argv, killTreeOnExit: true, ...(timeoutMs === undefined ? {} : { timeoutMs }) });
    for await (const chunk of exec.output) await onOutput(chunk);
    return { result: await exec.result, error: null };
  } catch (error) {
    return { result: null, error: asSallyportError(error) };
  }
}

/** What was made before a limit struck is worth having; a sandbox that is gone has nothing to give. */
async function exportSafely(options: Work, ran: Ran): Promise<ExportResult> {
  const isGone = options.sandbox.info().state !== 'running';
  if (options.artifacts.length === 0) return { artifacts: [], skipped: [], skippedOmitted: 0 };
  const lost = {
    artifacts: [],
    skipped: options.artifacts.map((path) => ({ path, reason: 'sandbox-ended' })),
    skippedOmitted: 0,
  };
  if (isGone || ran.error !== null) return lost;
  const { artifacts: limits } = options.sandbox.stamped.grant;
  return exportArtifacts({ files: options.sandbox.files, patterns: options.artifacts, into: options.folder, limits });
}

function recordOf(
  options: Work,
  { result, error }: Ran,
  exported: ExportResult,
  info: SandboxInfo,
  timings: { readonly startMs: number; readonly execMs: number; readonly totalMs: number },
): RunRecord {
  const { grant, digest } = options.sandbox.stamped;
  return {
    version: 1,
    runId: options.runId,
    sandboxId: options.sandbox.id,
    grant,
    grantDigest: digest,
    image: grant.image,
    runtime: info.runtime,
    host: { kernel: release(), sallyport: packageVersion() },
    inputs: options.sandbox.inputs,
    command: options.argv.map((argument) => argument.toString()),
    outcome: outcomeOf(result, error, info),
    exec: result,
    limitsHit: limitsOf(result, info),
    endReason: info.endReason ?? 'platform',
    error: error === null ? null : { code: error.code, message: error.message },
    egress: options.sandbox.egress.log.summary(),
    artifacts: { version: 1, runId: options.runId, grantDigest: digest, ...exported },
    timings: {
      createdAt: options.createdAt.toISOString(),
      startMs: round(timings.startMs),
      execMs: round(timings.execMs),
      exportMs: round(timings.totalMs - timings.startMs - timings.execMs),
      totalMs: round(timings.totalMs),
    },
  };
}

const deniedCodes: ReadonlySet<string> = new Set([
  'argv_too_large',
  'request_widens',
  'invalid_request',
  'path_invalid',
]);

function outcomeOf(result: ExecResult | null, error: SallyportError | null, info: SandboxInfo): RunRecord['outcome'] {
  if (limitsOf(result, info).length > 0) return 'limit';
  if (error?.code === 'exec_failed') return 'failed';
  if (error !== null) return deniedCodes.has(error.code) ? 'denied' : 'platform';
  return result?.exitCode === null ? 'signalled' : 'exited';
}

const limitEnds: ReadonlySet<string> = new Set(['wall', 'idle', 'oom', 'disk', 'output', 'pids']);

function limitsOf(result: ExecResult | null, info: SandboxInfo): LimitName[] {
  if (result?.limit != null) return [result.limit];
  return info.endReason !== undefined && limitEnds.has(info.endReason) ? [info.endReason as LimitName] : [];
}

/** An exec's own deadline ends the sandbox of a run too: as `wall`, the sandbox's word for time. */
function endReasonOf({ result, error }: Ran): EndReason {
  if (error !== null) return error.code === 'exec_failed' || deniedCodes.has(error.code) ? 'finished' : 'platform';
  if (result.limit === null) return 'finished';
  return result.limit === 'time' ? 'wall' : result.limit;
}

async function createSandbox({ sandboxes, request, inputs }: RunOptions, runId: string): Promise<Sandbox> {
  return sandboxes.create({ request, inputs, metadata: { runId } });
}

/** Sorts by time; the random part makes it unique. */
function newRunId(at: Date): string {
  const stamp = at.toISOString().replace(/[-:]/g, '').replace('T', '-').slice(0, 15);
  return `run-${stamp}-${randomBytes(4).toString('hex')}`;
}

async function makeRunFolder(outputFolder: string, runId: string): Promise<string> {
  const folder = join(resolve(outputFolder), runId);
  try {
    await makeFolders(resolve(outputFolder));
    await mkdir(folder);
    return folder;
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException;
    if (code === 'ENOSPC')
      throw new SallyportError('host_disk_full', `Cannot make ${folder}: no space left`, { cause: error });
    throw new SallyportError('output_folder', `Cannot make the run's folder ${folder}: ${code}`, { cause: error });
  }
}

/** One by one: Node's own recursive mkdir never comes back where a parent cannot hold folders (/proc). */
async function makeFolders(path: string): Promise<void> {
  try {
    await mkdir(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return;
    if (code !== 'ENOENT' || dirname(path) === path || (await stat(dirname(path)).catch(() => undefined)) !== undefined)
      throw error;
    await makeFolders(dirname(path));
    await mkdir(path);
  }
}

/** A list whose file ends in `.jsonl` is a line each. */
async function writeAtomically(file: string, value: unknown): Promise<void> {
  const isLines = file.endsWith('.jsonl') && Array.isArray(value);
  const text = isLines
    ? value.map((item) => `${JSON.stringify(item)}\n`).join('')
    : `${JSON.stringify(value, null, 2)}\n`;
  await writeFile(`${file}.partial`, text, { flag: 'wx' });
  await rename(`${file}.partial`, file);
}

function asHostError(error: unknown, folder: string): unknown {
  if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') return error;
  return new SallyportError('host_disk_full', `Cannot write to ${folder}: no space left on the host`, { cause: error });
}

function round(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
