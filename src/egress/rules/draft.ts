/** A new rule in canonical form, from what it must say: everything that is left out is closed. */
import type { NetworkProtocol, NetworkRule, PortRange } from '../../admission/network.ts';
import type { IpAddress } from '../../network/ip-address.ts';
import { facesOf, rangeOf } from '../../network/special-ranges.ts';
import type { Target } from '../types.ts';
import { nameOf } from './words.ts';

export interface RuleDraft {
  readonly id: string;
  readonly hosts?: readonly string[];
  readonly cidrs?: readonly string[];
  readonly private?: boolean;
  readonly protocol: NetworkProtocol;
  readonly ports: readonly number[];
  readonly methods?: readonly string[] | undefined;
  readonly paths?: readonly string[] | undefined;
  readonly noSni?: boolean;
  readonly ech?: boolean;
  readonly websocket?: boolean;
  readonly phases?: readonly string[] | undefined;
}

export function ruleOf(draft: RuleDraft): NetworkRule {
  const { id, protocol, methods, paths, phases } = draft;
  return {
    id,
    verdict: 'allow',
    hosts: draft.hosts ?? [],
    cidrs: draft.cidrs ?? [],
    private: draft.private ?? false,
    protocol,
    ports: rangesOf(draft.ports),
    ...(methods === undefined ? {} : { methods }),
    ...(paths === undefined ? {} : { paths }),
    inspect: 'auto',
    noSni: draft.noSni ?? false,
    ech: draft.ech ?? false,
    websocket: draft.websocket ?? false,
    ...(phases === undefined ? {} : { phases }),
  };
}

/** Sorted, with neighbours in one range. */
export function rangesOf(ports: readonly number[]): PortRange[] {
  return joinedRanges(ports.map((port) => ({ from: port, to: port })));
}

export function joinedRanges(ranges: readonly PortRange[]): PortRange[] {
  const joined: PortRange[] = [];
  for (const { from, to } of [...ranges].sort((a, b) => a.from - b.from)) {
    const last = joined.at(-1);
    if (last === undefined || from > last.to + 1) joined.push({ from, to });
    else joined[joined.length - 1] = { from: last.from, to: Math.max(last.to, to) };
  }
  return joined;
}

/** The address alone, with every special one that it carries: a rule with `private: true` has to name them all. */
export function blocksOf(address: IpAddress): string[] {
  const named = facesOf(address).filter((face) => face === address || rangeOf(face) !== undefined);
  return [...new Set(named.map(({ text, family }) => `${text}/${family === 4 ? 32 : 128}`))];
}

const idLength = 64;

/** Speaks of the target and is not taken. */
export function freshId(target: Target | string, taken: ReadonlySet<string>): string {
  const name = typeof target === 'string' ? target : nameOf(target);
  const words = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '');
  const base = (/^[a-z]/.test(words) ? words : `to-${words}`).slice(0, idLength - 8).replace(/-$/, '');
  if (!taken.has(base)) return base;
  for (let number = 2; ; number++) if (!taken.has(`${base}-${number}`)) return `${base}-${number}`;
}
