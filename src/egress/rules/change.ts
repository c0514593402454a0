/** A change of the policy or of the request, small enough to be read at a glance, and what a Grant is with it. */
import type { NetworkGrant, NetworkNarrowing, NetworkRule } from '../../admission/network.ts';

export interface NetworkChange {
  /** A new rule at the end of the class's. */
  readonly add?: NetworkRule;
  /** One key of a rule that is there. */
  readonly set?: KeyChange;
  /** What the request, which cut it off, keeps too. */
  readonly keep?: { readonly rule?: string; readonly host?: string };
}

/** Keys of a rule that can be opened a little more. */
export type OpenKey = 'ports' | 'phases' | 'noSni' | 'ech' | 'websocket';

export interface KeyChange {
  readonly rule: string;
  readonly key: OpenKey;
  /** The whole new value. */
  readonly to: Pick<NetworkRule, OpenKey>[OpenKey];
}

export function applyChange(grant: NetworkGrant, { add, set, keep }: NetworkChange): NetworkGrant {
  if (grant.mode === 'deny') return add === undefined ? grant : { mode: 'allow', rules: [add], phases: [] };
  const rules = grant.rules.map((rule) => (rule.id === set?.rule ? { ...rule, [set.key]: set.to } : rule));
  if (add !== undefined) rules.push(add);
  return {
    ...grant,
    rules,
    ...(grant.narrowing === undefined ? {} : { narrowing: widened(grant.narrowing, keep ?? {}) }),
  };
}

function widened({ rules, hosts }: NetworkNarrowing, keep: NonNullable<NetworkChange['keep']>): NetworkNarrowing {
  return {
    ...(rules === undefined ? {} : { rules: keep.rule === undefined ? rules : [...rules, keep.rule] }),
    ...(hosts === undefined ? {} : { hosts: keep.host === undefined ? hosts : [...hosts, keep.host] }),
  };
}
