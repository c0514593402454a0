/** The network column to look at: the mode, what holds for all rules, then a line a rule. */
import type { NetworkBandwidth, NetworkBudget, NetworkGrant, NetworkRule, PortRange } from './network.ts';
import { allPorts } from './network-entries.ts';
import { bandwidthQuantities, budgetQuantities, type Quantity, showAmount } from './quantities.ts';

export function networkLines(network: NetworkGrant): string[] {
  if (network.mode === 'deny') return ['deny'];
  const { mode, rules, phases, budget } = network;
  return [
    rules.length === 0 ? `${mode}, no rule` : mode,
    ...(phases.length === 0 ? [] : [`phases ${phases.join(' → ')}`]),
    ...(budget === undefined ? [] : [`in all ${budgetText(budget)}`]),
    ...rules.map(ruleLine),
  ];
}

/** "- pypi: allow https pypi.example port 443, GET HEAD, /simple/**, opened". */
function ruleLine(rule: NetworkRule): string {
  const { id, phases, budget, bandwidth } = rule;
  const parts = [
    `- ${id}: ${targetText(rule)}`,
    ...(rule.methods === undefined ? [] : [rule.methods.join(' ')]),
    ...(rule.paths === undefined ? [] : [rule.paths.join(' ')]),
    ...flagsOf(rule),
    ...(phases === undefined ? [] : [`phase ${phases.join(' ')}`]),
    ...(budget === undefined ? [] : [`at most ${budgetText(budget)}`]),
    ...(bandwidth === undefined ? [] : [bandwidthText(bandwidth)]),
  ];
  return parts.join(', ');
}

function targetText(rule: NetworkRule): string {
  const { verdict, protocol, hosts, cidrs, ports } = rule;
  return [
    verdict,
    // a rule that denies tcp denies whatever the bytes are
    ...(verdict === 'deny' && protocol === 'tcp' ? [] : [protocol]),
    ...hosts,
    ...cidrs,
    ...(rule.private ? ['(private)'] : []),
    portsText(ports),
  ].join(' ');
}

/** What happens to TLS, and what passes although it says less than usual. */
function flagsOf(rule: NetworkRule): string[] {
  return [
    ...(rule.websocket ? ['websocket'] : []),
    ...(rule.noSni ? ['without server name'] : []),
    ...(rule.ech ? ['with encrypted hello'] : []),
    ...(rule.verdict === 'allow' && rule.protocol === 'https' ? [isOpened(rule) ? 'opened' : 'sealed'] : []),
  ];
}

function isOpened({ inspect, methods, paths, websocket, budget }: NetworkRule): boolean {
  if (inspect !== 'auto') return inspect === 'always';
  return methods !== undefined || paths !== undefined || websocket || budget?.requests !== undefined;
}

function portsText(ports: readonly PortRange[]): string {
  if (ports.some(({ from, to }) => from === allPorts.from && to === allPorts.to)) return 'any port';
  const texts = ports.map(({ from, to }) => (from === to ? String(from) : `${from}-${to}`));
  return `port ${texts.join(' ')}`;
}

function budgetText(budget: NetworkBudget): string {
  return amountsText(budget, budgetQuantities).join(' ');
}

function bandwidthText(bandwidth: NetworkBandwidth): string {
  return amountsText(bandwidth, bandwidthQuantities)
    .map((text) => `${text}/s`)
    .join(' ');
}

function amountsText<Keys extends string>(
  amounts: Readonly<Partial<Record<Keys, number>>>,
  quantities: Readonly<Record<Keys, Quantity>>,
): string[] {
  return (Object.keys(quantities) as Keys[]).flatMap((name) => {
    const amount = amounts[name];
    return amount === undefined ? [] : [`${quantities[name].key} ${showAmount(amount, quantities[name])}`];
  });
}
