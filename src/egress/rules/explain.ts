/**
 * What the rules say to an attempt, and what would have to change for it to be allowed. The decision is the one that is
 * enforced: it comes from the same function.
 */
import type { Attempt, Decision, Denial } from '../types.ts';
import type { NetworkChange } from './change.ts';
import type { CompiledRules } from './compile.ts';
import { decide } from './decide.ts';
import { narrowestChange } from './narrowest.ts';
import { portEntries, ruleYaml } from './rule-yaml.ts';
import { listed } from './words.ts';

export { attemptOfUrl } from './attempt-of-url.ts';

export interface Explanation {
  readonly decision: Decision;
  /** Where it is denied, or would be: the narrowest change that allows it, a rule as YAML, or why none can. */
  readonly nextStep?: string;
  /** The change itself, where there is one. */
  readonly change?: NetworkChange;
}

export function explain(rules: CompiledRules, phase: string | undefined, attempt: Attempt): Explanation {
  const decision = decide(rules, phase, attempt);
  const denial = decision.verdict === 'deny' ? decision : decision.wouldDeny;
  if (denial === undefined) return { decision };
  const change = narrowestChange(rules.grant, phase, attempt, denial);
  if (change === undefined) return { decision, nextStep: whyNone(denial) };
  return { decision, nextStep: sentencesOf(change), change };
}

function whyNone({ code, rule }: Denial): string {
  const reasons: Readonly<Partial<Record<Denial['code'], string>>> = {
    forbidden_address: 'None: no rule opens this.',
    rule_denies: `None that adds: rule ${rule} denies it, which beats every rule that allows. Who wrote it can take it back.`,
    ambiguous_request: 'None: send the request in a form that has one reading.',
    host_mismatch: 'None: make the request on a connection to its own host.',
    server_name_mismatch: 'None: connect to the host that is meant; then its own rules say what is allowed.',
  };
  return reasons[code] ?? 'None: no single change would allow it.';
}

function sentencesOf({ add, set, keep }: NetworkChange): string {
  const sentences: string[] = [];
  if (set !== undefined) sentences.push(`Set ${set.key} of rule ${set.rule} to ${shownValue(set.to)}.`);
  if (keep !== undefined) sentences.push(keepSentence(keep));
  if (add !== undefined) sentences.push(`Add this rule to the class:\n${ruleYaml(add)}`);
  return sentences.join(' ').trimEnd();
}

function keepSentence({ rule, host }: NonNullable<NetworkChange['keep']>): string {
  const parts = [...(rule === undefined ? [] : [`rule ${rule}`]), ...(host === undefined ? [] : [`host ${host}`])];
  return `Let the request, which narrows its class, keep ${listed(parts)}.`;
}

function shownValue(value: NonNullable<NetworkChange['set']>['to']): string {
  if (typeof value === 'boolean') return String(value);
  const entries = (value ?? []).map((entry) => (typeof entry === 'string' ? entry : (portEntries([entry])[0] ?? '')));
  return `[${entries.join(', ')}]`;
}
