/**
 * The single entries of a network rule: a host, a block of addresses, a range of ports, a method, a glob over paths. Each is
 * read by the parser that enforces it, and kept in canonical spelling.
 */
import { parseCidr } from '../network/cidr.ts';
import { parseHostName } from '../network/host-name.ts';
import { parseHostPattern } from '../network/host-pattern.ts';
import { parsePathGlob } from '../network/path-glob.ts';
import type { PortRange } from './network.ts';
import { cell, judgedCell, type Reading } from './problems.ts';

export const allPorts: PortRange = { from: 1, to: 65_535 };

const hostPatternRule = 'a host name, or "*." and a name for every host below it';

/** Why the text is no pattern, as what is allowed in its place. */
export function hostsAllowed(text: string): string {
  if (parseCidr(text) !== undefined) return `${hostPatternRule}; addresses and blocks stand in cidrs`;
  const isWide = text === '*' || (text.startsWith('*.') && parseHostName(text.slice(2)) !== undefined);
  return isWide
    ? `${hostPatternRule} that is not a registry's: "${text}" would allow nearly everything`
    : hostPatternRule;
}

export const host = judgedCell((value): Reading<string> => {
  const pattern = typeof value === 'string' ? parseHostPattern(value) : undefined;
  return pattern === undefined ? { allowed: hostsAllowed(String(value)) } : { value: pattern.text };
});

const blockRule = 'an address or a block such as 192.0.2.0/24, in canonical spelling and without host bits';

export const block = cell(blockRule, (value) => (typeof value === 'string' ? parseCidr(value)?.text : undefined));

export const ports = cell('a port from 1 to 65535, or a range such as "8000-8099"', (value): PortRange | undefined => {
  if (typeof value === 'number') return rangeOf(value, value);
  const [, from, to] = typeof value === 'string' ? (/^([1-9]\d{0,4})-([1-9]\d{0,4})$/.exec(value) ?? []) : [];
  return rangeOf(Number(from), Number(to));
});

function rangeOf(from: number, to: number): PortRange | undefined {
  return Number.isInteger(from) && from >= 1 && from <= to && to <= allPorts.to ? { from, to } : undefined;
}

const methodRule = 'a method in capital letters such as GET; CONNECT asks for a proxy, and there is none';

export const method = cell(methodRule, (value) =>
  typeof value === 'string' && /^[A-Z][A-Z-]{0,31}$/.test(value) && value !== 'CONNECT' ? value : undefined,
);

const pathRule =
  'a path that begins with "/", with "*" in a segment or "**" as one; without a query, ".", "..", "//", ";" or an escape of what needs none';

export const pathGlob = cell(pathRule, (value) =>
  typeof value === 'string' && value.length <= 1024 && parsePathGlob(value) !== undefined ? value : undefined,
);
