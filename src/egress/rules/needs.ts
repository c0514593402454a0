/** Observed flows, put together: what has to be allowed of which targets and ports. The same needs are one. */
import type { NetworkProtocol } from '../../admission/network.ts';
import { globOfPath } from '../../network/path-glob.ts';
import type { Target } from '../types.ts';
import { siblingPaths } from './generalise.ts';
import { distinct, grouped } from './grouping.ts';
import type { ObservedFlow, SuggestOptions } from './suggest.ts';
import { nameOf } from './words.ts';

export interface Need {
  readonly targets: readonly Target[];
  readonly ports: readonly number[];
  readonly protocol: NetworkProtocol;
  /** Undefined: any. */
  readonly methods: readonly string[] | undefined;
  readonly paths: readonly string[] | undefined;
  readonly noSni: boolean;
  readonly ech: boolean;
  readonly websocket: boolean;
  readonly flows: readonly ObservedFlow[];
}

type PathOption = NonNullable<SuggestOptions['paths']>;

export function needsOf(flows: readonly ObservedFlow[], option: PathOption): Need[] {
  const places = grouped(flows, ({ target, port }) => `${nameOf(target)} ${port}`);
  const needs = places.flatMap(placesByProtocol).flatMap((place) => needsOfPlace(place, option));
  return joined(joined(needs, samePlaceKey), sameWishKey);
}

/** All that was observed of one target and port in one protocol. */
interface Place {
  readonly target: Target;
  readonly port: number;
  readonly protocol: NetworkProtocol;
  readonly flows: readonly ObservedFlow[];
}

const protocols = { raw: 'tcp', tls: 'https', http: 'http' } as const;

function placesByProtocol(flows: readonly ObservedFlow[]): Place[] {
  // raw bytes need a rule that lets everything pass there
  const isRaw = flows.some(({ protocol }) => protocol === 'raw');
  return grouped(flows, ({ protocol }) => (isRaw ? 'raw' : protocol)).flatMap((same) => {
    const [first] = same;
    if (first === undefined) return [];
    return [
      { target: first.target, port: first.port, protocol: protocols[isRaw ? 'raw' : first.protocol], flows: same },
    ];
  });
}

function needsOfPlace(place: Place, option: PathOption): Need[] {
  const { flows, protocol, target, port } = place;
  const isTls = protocol === 'https';
  const base = {
    targets: [target],
    ports: [port],
    protocol,
    noSni: isTls && (target.kind === 'address' || flows.some(({ noSni }) => noSni === true)),
    ech: isTls && flows.some(({ ech }) => ech === true),
  };
  if (areAllSeen(place)) return requestGroups(flows, option).map((group) => ({ ...base, ...group }));
  const websocket = protocol === 'http' && flows.some((flow) => flow.websocket === true);
  return [{ ...base, methods: undefined, paths: undefined, websocket, flows }];
}

/** Whether every flow shows a method: nothing is seen of TLS to an address, or under a hidden name, as that is not opened. */
function areAllSeen({ target, protocol, flows }: Place): boolean {
  if (protocol === 'tcp' || (protocol === 'https' && target.kind === 'address')) return false;
  return flows.every(({ method, ech }) => method !== undefined && ech !== true);
}

/** For each set of paths the methods that were seen on just these. */
function requestGroups(
  flows: readonly ObservedFlow[],
  option: PathOption,
): Pick<Need, 'methods' | 'paths' | 'websocket' | 'flows'>[] {
  const byMethod = grouped(flows, ({ method, websocket }) => `${method} ${websocket === true}`);
  const alike = grouped(byMethod, (same) => `${same[0]?.websocket === true} ${JSON.stringify(pathsOf(same, option))}`);
  return alike.map((parts) => {
    const same = parts.flat();
    const methods = distinct(same.flatMap(({ method }) => method ?? []));
    return { methods, paths: pathsOf(same, option), websocket: same[0]?.websocket === true, flows: same };
  });
}

function pathsOf(flows: readonly ObservedFlow[], option: PathOption): readonly string[] | undefined {
  if (option === 'any' || flows.some(({ path }) => path === undefined)) return undefined;
  const exact = distinct(flows.flatMap(({ path }) => globOfPath(path ?? '') ?? []));
  return option === 'siblings' ? siblingPaths(exact) : exact;
}

function wishKey({ protocol, methods, paths, noSni, ech, websocket }: Need): string {
  return JSON.stringify([protocol, methods ?? null, paths ?? null, noSni, ech, websocket]);
}

function samePlaceKey(need: Need): string {
  return `${need.targets.map(nameOf)} ${wishKey(need)}`;
}

function sameWishKey(need: Need): string {
  return `${need.targets[0]?.kind} ${need.ports} ${wishKey(need)}`;
}

/** Those of one key as one need. */
function joined(needs: readonly Need[], key: (need: Need) => string): Need[] {
  return grouped(needs, key).flatMap((same) => {
    const [first] = same;
    if (first === undefined) return [];
    const targets = new Map(same.flatMap((need) => need.targets).map((target) => [nameOf(target), target]));
    const ports = new Set(same.flatMap((need) => need.ports));
    const flows = same.flatMap((need) => need.flows);
    return [{ ...first, targets: [...targets.values()], ports: [...ports].sort((a, b) => a - b), flows }];
  });
}
