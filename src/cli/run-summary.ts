/** A run in a few lines for people: how it ended, and where its artifacts and its record are. */
import { relative } from 'node:path';
import type { RunRecord } from '../run/types.ts';
import { formatBytes } from '../units/bytes.ts';
import { safeName } from './terminal/safe-text.ts';

export function runSummary(record: RunRecord, folder: string): string {
  const where = shownFolder(folder);
  const { artifacts, skipped } = record.artifacts;
  const lines = [`${outcomeOf(record)} (${(record.timings.totalMs / 1000).toFixed(2)}s)`];
  if (artifacts.length > 0) {
    const bytes = artifacts.reduce((sum, artifact) => sum + artifact.bytes, 0);
    lines.push(`artifacts: ${count(artifacts.length, 'file')}, ${formatBytes(bytes)}, in ${where}`);
  }
  lines.push(...skipped.map(({ path, reason }) => `left behind, ${reason}: ${safeName(path)}`));
  lines.push(`record: ${where}/record.json`);
  return lines.map((line) => `sallyport: ${line}\n`).join('');
}

function outcomeOf({ outcome, exec, error, limitsHit, endReason }: RunRecord): string {
  if (outcome === 'limit')
    return `limit ${limitsHit.join(', ')}: ${exec?.detail ?? `the sandbox ended with ${endReason}`}`;
  if (outcome === 'failed' && error !== null) return `not started: ${safeName(error.message)}`;
  if (error !== null) return `${outcome}, ${error.code}: ${safeName(error.message)}`;
  if (outcome === 'signalled') return `ended by ${exec?.signal ?? 'a signal'}`;
  return `exited with ${exec?.exitCode ?? 'no status'}`;
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

function shownFolder(folder: string): string {
  const near = relative(process.cwd(), folder);
  return near.startsWith('..') ? folder : `./${near}`;
}
