/** A rule as it stands in a policy file: one item of the list, without the keys that say what goes without saying. */
import { Document, isSeq, visit } from 'yaml';
import type { NetworkProtocol, NetworkRule, PortRange } from '../../admission/network.ts';

/** Two lines and more, the first with its "- ". */
export function ruleYaml(rule: NetworkRule): string {
  const document = new Document([entriesOf(rule)]);
  visit(document, {
    Seq: (_key, node) => {
      if (isSeq(node) && node !== document.contents) node.flow = true;
    },
  });
  return document.toString({ lineWidth: 0 });
}

export function portEntries(ports: readonly PortRange[]): (number | string)[] {
  return ports.map(({ from, to }) => (from === to ? from : `${from}-${to}`));
}

const usualPorts: Readonly<Partial<Record<NetworkProtocol, number>>> = { https: 443, tls: 443, http: 80 };

function entriesOf(rule: NetworkRule): Record<string, unknown> {
  const { id, hosts, cidrs, protocol, methods, paths, phases } = rule;
  const usualProtocol = cidrs.length > 0 ? 'tcp' : 'https';
  const [port] = rule.ports;
  const isUsualPort = rule.ports.length === 1 && port?.from === port?.to && port?.from === usualPorts[protocol];
  const entries: readonly (readonly [string, unknown])[] = [
    ['id', id],
    ['hosts', hosts.length > 0 ? hosts : undefined],
    ['cidrs', cidrs.length > 0 ? cidrs : undefined],
    ['private', rule.private || undefined],
    ['protocol', protocol === usualProtocol ? undefined : protocol],
    ['ports', isUsualPort ? undefined : portEntries(rule.ports)],
    ['methods', methods],
    ['paths', paths],
    ['noSni', rule.noSni || undefined],
    ['ech', rule.ech || undefined],
    ['websocket', rule.websocket || undefined],
    ['phases', phases],
  ];
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}
