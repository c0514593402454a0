/**
 * The one place where an attempt is allowed or denied; `explain` asks the same function. Pure: the same rules, phase and
 * attempt have the same answer. A rule that denies beats every rule that allows; what no rule allows is denied (NX-32).
 *
 * Never allowed, whatever the mode and the rules say: metadata services (NX-07), and CONNECT, which asks for a proxy.
 * As an attempt becomes known (name, port, first bytes, request) its answer goes from allow to deny at most once: what is
 * denied early stays denied.
 */
import { isMetadata, isMetadataHost } from '../../network/metadata.ts';
import type { Attempt, Decision, Denial, Target } from '../types.ts';
import type { CompiledRules } from './compile.ts';
import { denialOf } from './denial.ts';
import { passByRule, passUnruled } from './pass.ts';
import { requestOf, type Scope, scopeOf } from './scope.ts';
import { nameOf } from './words.ts';

export function decide(rules: CompiledRules, phase: string | undefined, attempt: Attempt): Decision {
  const barred = barredAlways(rules, attempt);
  if (barred !== undefined) return { verdict: 'deny', ...barred };
  const scope = scopeOf(rules, phase, attempt);
  const pass = passByRule(scope);
  if (pass !== undefined) return { verdict: 'allow', rule: pass.rule?.id ?? null, handling: pass.handling };
  const denial = denialOf(scope);
  const unruled = isObserved(scope) ? passUnruled(scope) : undefined;
  if (unruled === undefined) return { verdict: 'deny', ...denial };
  return { verdict: 'allow', rule: null, handling: unruled.handling, wouldDeny: denial };
}

/** Mode `observe` lets pass what no rule allows, but nothing special, and nothing that the request gave up. */
function isObserved({ rules, special, isWithinHosts }: Scope): boolean {
  return rules.grant.mode === 'observe' && special === undefined && isWithinHosts && !rules.isNarrowedToRules;
}

function barredAlways({ grant }: CompiledRules, { target, content }: Attempt): Denial | undefined {
  if (grant.mode === 'deny') {
    return {
      code: 'mode_deny',
      rule: null,
      reason: 'This sandbox has no network: its class says so, or the request did.',
    };
  }
  if (isMetadataTarget(target)) {
    const reason = `${nameOf(target)} is a metadata service; no rule opens those.`;
    return { code: 'forbidden_address', rule: null, reason };
  }
  if (content !== undefined && requestOf(content)?.method === 'CONNECT') {
    return { code: 'ambiguous_request', rule: null, reason: 'CONNECT asks for a proxy, and there is none.' };
  }
  return undefined;
}

function isMetadataTarget(target: Target): boolean {
  return target.kind === 'host' ? isMetadataHost(target.host) : isMetadata(target.address);
}
