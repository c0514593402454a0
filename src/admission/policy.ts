/**
 * The permission matrix as a value that cannot be wrong: read from one YAML file, checked to the last key, frozen.
 * A file that cannot be read or breaks a rule is a refusal that names every problem; there is no default to fall
 * back to (CX-01).
 */
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { sha256Hex } from '../digest/digest.ts';
import { SallyportError } from '../errors/error.ts';
import { deepFreeze } from './freeze.ts';
import { type JobClass, policySchema } from './policy-schema.ts';
import { type LineOf, policyBytes, readYaml } from './policy-yaml.ts';
import { problemsOf, showProblem } from './problems.ts';

export type { JobClass } from './policy-schema.ts';

export interface Policy {
  readonly version: 1;
  /** The path it was read from, for messages. */
  readonly source: string;
  /** Of the file's bytes, as `sha256sum` says. */
  readonly sha256: string;
  /** In the order of the file. */
  readonly classes: readonly JobClass[];
  /** Where in the file the network rules stand; see {@link ruleLine}. */
  readonly ruleLines: readonly RuleLine[];
}

interface RuleLine {
  readonly class: string;
  readonly rule: string;
  /** From 1. */
  readonly line: number;
}

/**
 * @param source where the text comes from, for messages
 * @throws SallyportError `policy_invalid` with every problem
 */
export function parsePolicy(text: string, source: string): Policy {
  const yaml = readYaml(text);
  if (!yaml.ok) throw invalid(source, yaml.problems);
  const parsed = policySchema.safeParse(yaml.value);
  if (!parsed.success) throw invalid(source, problemsOf(parsed.error).map(showProblem));
  const classes = Object.entries(parsed.data.classes).map(([name, job]): JobClass => ({ name, ...job }));
  const ruleLines = classes.flatMap((job) => ruleLinesOf(job, yaml.lineOf));
  return deepFreeze({ version: 1, source, sha256: sha256Hex(text), classes, ruleLines });
}

function ruleLinesOf({ name, network }: JobClass, lineOf: LineOf): RuleLine[] {
  if (network.mode === 'deny') return [];
  return network.rules.flatMap(({ id }, index) => {
    const line = lineOf(['classes', name, 'network', 'rules', index]);
    return line === undefined ? [] : [{ class: name, rule: id, line }];
  });
}

/** @throws SallyportError `policy_unreadable`, `policy_invalid` */
export async function loadPolicy(path: string): Promise<Policy> {
  return parsePolicy(await readText(path), path);
}

export function findClass(policy: Policy, name: string): JobClass | undefined {
  return policy.classes.find((job) => job.name === name);
}

/** The line of the policy's file in which a network rule begins. */
export function ruleLine(policy: Policy, className: string, ruleId: string): number | undefined {
  return policy.ruleLines.find((place) => place.class === className && place.rule === ruleId)?.line;
}

function invalid(source: string, problems: readonly string[]): SallyportError {
  const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
  return new SallyportError('policy_invalid', `Cannot use policy ${source}: ${count}:\n  ${problems.join('\n  ')}`);
}

function unreadable(path: string, reason: string, cause?: unknown): SallyportError {
  return new SallyportError('policy_unreadable', `Cannot read policy ${path}: ${reason}`, { cause });
}

async function readText(path: string): Promise<string> {
  const bytes = await readBytes(path);
  if (bytes.length > policyBytes) throw invalid(path, ['larger than 1MiB; allowed: at most 1MiB']);
  try {
    // ignoreBOM keeps the mark in the text, so that the digest of the text is that of the file.
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw invalid(path, ['not UTF-8 text']);
  }
}

/** At most one byte more than a policy may have. */
async function readBytes(path: string): Promise<Buffer> {
  // O_NONBLOCK: opening a FIFO that nobody writes to would wait for ever.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((error: unknown) => {
    throw unreadable(path, reasonOf(error), error);
  });
  try {
    if (!(await file.stat()).isFile()) throw unreadable(path, 'not a regular file');
    return await readAtMost(file, policyBytes + 1);
  } catch (error) {
    throw error instanceof SallyportError ? error : unreadable(path, reasonOf(error), error);
  } finally {
    await file.close();
  }
}

async function readAtMost(file: FileHandle, bytes: number): Promise<Buffer> {
  const buffer = Buffer.alloc(bytes);
  let filled = 0;
  while (filled < bytes) {
    const { bytesRead } = await file.read(buffer, filled, bytes - filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
}

function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const known: Readonly<Record<string, string>> = {
    ENOENT: 'no such file',
    EACCES: 'permission denied',
    ENOTDIR: 'a part of the path is not a folder',
    ELOOP: 'too many symbolic links',
  };
  return known[code] ?? (error instanceof Error ? error.message : String(error));
}
