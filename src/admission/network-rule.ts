/** One rule of the network column as the Grant has it: what was left out of the written one is filled in here. */
import type { NetworkProtocol, NetworkRule, PortRange } from './network.ts';
import { allPorts } from './network-entries.ts';
import { problemsOfRule } from './network-rule-problems.ts';
import { protocolOf, type WrittenRule, writtenRule } from './written-rule.ts';

/** The id is absent where none was written: only the class knows the rule's place. */
export type RuleOfClass = Omit<NetworkRule, 'id'> & { readonly id?: string };

export const networkRule = writtenRule.transform((rule, context): RuleOfClass => {
  for (const problem of problemsOfRule(rule)) context.addIssue({ code: 'custom', ...problem });
  return filledIn(rule);
});

function filledIn(rule: WrittenRule): RuleOfClass {
  const protocol = protocolOf(rule);
  return {
    verdict: 'allow',
    hosts: [],
    cidrs: [],
    private: false,
    protocol,
    ports: rule.verdict === 'deny' ? [allPorts] : usualPorts[protocol],
    inspect: 'auto',
    noSni: false,
    ech: false,
    websocket: false,
    ...rule,
  };
}

const usualPorts: Readonly<Record<NetworkProtocol, readonly PortRange[]>> = {
  https: [{ from: 443, to: 443 }],
  tls: [{ from: 443, to: 443 }],
  http: [{ from: 80, to: 80 }],
  // there is none: a rule without is refused
  tcp: [],
};
