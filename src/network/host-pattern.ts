/**
 * Which hosts a rule is for: one name exactly, or with a leading `*.` every name below it, at any depth, never the name
 * itself (NX-26). A star stands nowhere else, and not above a single label: `*` and `*.com` would allow everything.
 */
import { type HostName, parseHostName } from './host-name.ts';

export interface HostPattern {
  /** As it is shown, in canonical spelling: `*.example.org` or `example.org`. */
  readonly text: string;
  readonly kind: 'exact' | 'below';
  /** The name itself, or the one that it must be below. */
  readonly name: HostName;
}

export function parseHostPattern(text: string): HostPattern | undefined {
  const below = text.startsWith('*.');
  const name = parseHostName(below ? text.slice(2) : text);
  if (name === undefined) return undefined;
  if (below && isOverWide(name)) return undefined;
  return { text: below ? `*.${name}` : name, kind: below ? 'below' : 'exact', name };
}

export function matchesHost(pattern: HostPattern, host: HostName): boolean {
  return pattern.kind === 'exact' ? host === pattern.name : host.endsWith(`.${pattern.name}`);
}

/** Whether everything that `inner` matches is matched by `outer` too. */
export function coversPattern(outer: HostPattern, inner: HostPattern): boolean {
  if (outer.text === inner.text) return true;
  return outer.kind === 'below' && inner.name.endsWith(`.${outer.name}`);
}

/**
 * Second levels under which registries sell names, as `co.uk`: `*.` above one of them is as wide as `*.uk`. The usual
 * generic labels below a country code; the whole Public Suffix List would have to be kept current.
 */
const registryLabels: ReadonlySet<string> = new Set([
  ...['ac', 'asn', 'asso', 'co', 'com', 'edu', 'go', 'gob', 'gouv', 'gov', 'govt', 'gub', 'ltd', 'mil', 'ne', 'net'],
  ...['nhs', 'or', 'org', 'plc', 'sch'],
]);

function isOverWide(name: HostName): boolean {
  const labels = name.split('.');
  if (labels.length === 1) return true;
  return labels.length === 2 && labels[1]?.length === 2 && registryLabels.has(labels[0] ?? '');
}
