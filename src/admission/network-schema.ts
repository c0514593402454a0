/**
 * The network column as the policy file writes it: `deny`, or an object with a mode and rules. Only what is written opens
 * anything: a mode without rules denies all but by `observe` (NX-32), and `observe` is never a default.
 */
import { z } from 'zod';
import { countOf, list, oneOf } from './cells.ts';
import type { NetworkGrant, NetworkRule } from './network.ts';
import { budget } from './network-amounts.ts';
import { networkRule, type RuleOfClass } from './network-rule.ts';
import { row, seen } from './problems.ts';
import { mostPhases, networkName } from './written-rule.ts';

const mostRules = 1000;

const open = row({
  mode: oneOf(['allow', 'observe']),
  rules: list(networkRule).max(mostRules, {
    error: (issue) => `saw ${countOf(issue.input)}; allowed: at most ${mostRules}`,
  }),
  phases: list(networkName)
    .max(mostPhases, { error: (issue) => `saw ${countOf(issue.input)}; allowed: at most ${mostPhases}` })
    .exactOptional(),
  budget: budget.exactOptional(),
}).transform((column, context): NetworkGrant => {
  const { rules, phases = [], ...rest } = column;
  const named = rules.map(withId);
  const problems = [...idProblems(named), ...phaseProblems(phases), ...rulePhaseProblems(named, phases)];
  for (const problem of problems) context.addIssue({ code: 'custom', ...problem });
  return { ...rest, rules: named, phases };
});

export const network = z.unknown().transform((value, context): NetworkGrant => {
  if (value === 'deny') return { mode: 'deny' };
  const keys = Object.keys(open.in.shape).join(', ');
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    context.addIssue({ code: 'custom', message: `${seen(value)}; allowed: deny, or an object with ${keys}` });
    return z.NEVER;
  }
  const parsed = open.safeParse(value);
  if (parsed.success) return parsed.data;
  for (const { path, message } of parsed.error.issues) context.addIssue({ code: 'custom', path, message });
  return z.NEVER;
});

interface ColumnProblem {
  readonly path: (string | number)[];
  readonly message: string;
}

function withId({ id, ...rule }: RuleOfClass, index: number): NetworkRule {
  return { id: id ?? `rule-${index + 1}`, ...rule };
}

function idProblems(rules: readonly NetworkRule[]): ColumnProblem[] {
  const places = new Map<string, number>();
  return rules.flatMap(({ id }, index) => {
    const earlier = places.get(id);
    places.set(id, earlier ?? index);
    if (earlier === undefined) return [];
    return [{ path: ['rules', index, 'id'], message: `saw "${id}"; allowed: an id that rules[${earlier}] has not` }];
  });
}

function phaseProblems(phases: readonly string[]): ColumnProblem[] {
  return phases.flatMap((phase, index) =>
    phases.indexOf(phase) === index
      ? []
      : [{ path: ['phases', index], message: `saw "${phase}" again; allowed: each phase once` }],
  );
}

function rulePhaseProblems(rules: readonly NetworkRule[], phases: readonly string[]): ColumnProblem[] {
  const allowed = phases.length === 0 ? 'none, the class has no phases' : `phases of the class: ${phases.join(', ')}`;
  return rules.flatMap((rule, at) =>
    (rule.phases ?? []).flatMap((phase, index) =>
      phases.includes(phase)
        ? []
        : [{ path: ['rules', at, 'phases', index], message: `saw "${phase}"; allowed: ${allowed}` }],
    ),
  );
}
