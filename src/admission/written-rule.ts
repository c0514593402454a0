/** One rule of the network column as it is written: its keys, each read by itself. */
import type { z } from 'zod';
import { entries, oneOf, text, yesOrNo } from './cells.ts';
import { isNetworkName, networkNameRule } from './names.ts';
import { type NetworkProtocol, networkProtocols } from './network.ts';
import { bandwidth, budget } from './network-amounts.ts';
import { block, host, method, pathGlob, ports } from './network-entries.ts';
import { row } from './problems.ts';

const mostHosts = 64;
const mostEntries = 64;
export const mostPhases = 16;

export const networkName = text(networkNameRule, isNetworkName);

export const writtenRule = row({
  id: networkName.exactOptional(),
  verdict: oneOf(['allow', 'deny']).exactOptional(),
  hosts: entries(host, mostHosts).exactOptional(),
  cidrs: entries(block, mostHosts).exactOptional(),
  private: yesOrNo.exactOptional(),
  protocol: oneOf(networkProtocols).exactOptional(),
  ports: entries(ports, mostEntries).exactOptional(),
  methods: entries(method, mostEntries).exactOptional(),
  paths: entries(pathGlob, mostEntries).exactOptional(),
  inspect: oneOf(['auto', 'always', 'never']).exactOptional(),
  noSni: yesOrNo.exactOptional(),
  ech: yesOrNo.exactOptional(),
  websocket: yesOrNo.exactOptional(),
  phases: entries(networkName, mostPhases).exactOptional(),
  budget: budget.exactOptional(),
  bandwidth: bandwidth.exactOptional(),
});

export type WrittenRule = z.output<typeof writtenRule>;

export function protocolOf({ protocol, verdict, cidrs }: WrittenRule): NetworkProtocol {
  // what is denied is denied whatever its bytes are
  return protocol ?? (verdict === 'deny' || cidrs !== undefined ? 'tcp' : 'https');
}
