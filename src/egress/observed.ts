/** Entries of a flow log as what `suggestRules` works from: each thing that was let pass, once, at the level it was seen. */
import { parseHostName } from '../network/host-name.ts';
import { parseIpAddress } from '../network/ip-address.ts';
import type { EgressRecord } from './records.ts';
import type { ObservedFlow } from './rules/suggest.ts';
import type { Target } from './types.ts';

export function observedFlows(records: readonly EgressRecord[]): ObservedFlow[] {
  const flows = records.filter(isObserved).flatMap((record) => flowOf(record) ?? []);
  return [...new Map(flows.map((flow) => [JSON.stringify(flow), flow])).values()];
}

/** What was denied needs no rule; what requests were seen of is told by them, not by their connection. */
function isObserved({ kind, verdict, protocol, method }: EgressRecord): boolean {
  if (verdict === 'deny') return false;
  return kind === 'request' ? method !== null : kind === 'connection' && (protocol === 'raw' || protocol === 'tls');
}

function flowOf(record: EgressRecord): ObservedFlow | undefined {
  const { kind, port, protocol, method, path, status, code } = record;
  const target = targetOf(record);
  if (target === undefined || port === null) return undefined;
  if (protocol !== 'tls' && protocol !== 'http' && protocol !== 'raw') return undefined;
  return {
    target,
    port,
    protocol,
    ...(kind !== 'request' || method === null ? {} : { method }),
    ...(kind !== 'request' || path === null ? {} : { path }),
    ...(status === 101 ? { websocket: true } : {}),
    ...(code === 'server_name_missing' ? { noSni: true } : {}),
    ...(code === 'server_name_encrypted' ? { ech: true } : {}),
  };
}

function targetOf({ host, address }: EgressRecord): Target | undefined {
  if (host !== null) {
    const name = parseHostName(host);
    return name === undefined ? undefined : { kind: 'host', host: name };
  }
  const parsed = parseIpAddress(address ?? '');
  return parsed === undefined ? undefined : { kind: 'address', address: parsed };
}
