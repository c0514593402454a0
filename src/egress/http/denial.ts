/** A denial as the program that meets it can read it. */
import type { Denial, DenialCode } from '../types.ts';

export interface DenialBody {
  readonly code: DenialCode | 'upstream_failed';
  readonly rule: string | null;
  readonly host: string | null;
  readonly reason: string;
  readonly next_step: string;
}

const steps: Readonly<Partial<Record<DenialCode, string>>> = {
  ambiguous_request: 'Send the request in a form that has one reading only.',
  budget_used_up: 'Work with what has been fetched; the budget does not come back in this sandbox.',
  forbidden_address: 'Use a public host that a rule allows; this address is not to be had.',
  host_mismatch: 'Connect to the host that the request is for.',
  wrong_phase: 'Do this in the phase that allows it; phases go one way.',
};
const usual =
  'Do without it, or ask the operator for a rule: "sallyport explain <sandbox> <url>" names the narrowest one.';

export function denialBody(denial: Denial, host: string | null): DenialBody {
  const { code, rule, reason } = denial;
  return { code, rule, host, reason, next_step: steps[code] ?? usual };
}

export function failureBody(fault: string, host: string | null): DenialBody {
  return {
    code: 'upstream_failed',
    rule: null,
    host,
    reason: `The policy allows this, but the host could not be reached: ${fault}.`,
    next_step: 'Check the name and the port; try again later.',
  };
}
