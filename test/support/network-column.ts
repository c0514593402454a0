/** The network column of a policy, read from what a test writes in it. */
import { expect } from 'vitest';
import type { NetworkGrant, NetworkRule } from '../../src/admission/network.ts';
import { network } from '../../src/admission/network-schema.ts';
import { problemsOf, showProblem } from '../../src/admission/problems.ts';

export type Written = Readonly<Record<string, unknown>>;

export function read(value: unknown): NetworkGrant {
  const parsed = network.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new Error(problemsOf(parsed.error).map(showProblem).join('\n'));
}

export function problemsIn(value: unknown): string[] {
  const parsed = network.safeParse(value);
  return parsed.success ? [] : problemsOf(parsed.error).map(showProblem);
}

export function open(value: Written): Exclude<NetworkGrant, { mode: 'deny' }> {
  const grant = read(value);
  return grant.mode === 'deny' ? expect.unreachable() : grant;
}

export function rule(written: Written, column: Written = {}): NetworkRule {
  return open({ mode: 'allow', rules: [written], ...column }).rules[0] ?? expect.unreachable();
}

export function problemsOfRule(written: Written, column: Written = {}): string[] {
  return problemsIn({ mode: 'allow', rules: [written], ...column });
}

export const port = (from: number, to = from) => ({ from, to });
