/** The words of reasons: each value of the sandbox's short, on one line and in ASCII, so that no log or terminal obeys it. */
import type { PortRange } from '../../admission/network.ts';
import type { AttemptContent, Target } from '../types.ts';

const mostCharacters = 120;

export function nameOf(target: Target): string {
  return target.kind === 'host' ? target.host : target.address.text;
}

/** "pypi.org:443", "[2001:db8::1]:443". */
export function placeOf(target: Target, port: number | undefined): string {
  const name = nameOf(target);
  if (port === undefined) return name;
  return `${name.includes(':') ? `[${name}]` : name}:${port}`;
}

export function portsOf(ports: readonly PortRange[]): string {
  return listed(ports.map(({ from, to }) => (from === to ? String(from) : `${from}-${to}`)));
}

/** At most six of them, and how many more there are. */
export function listed(texts: readonly string[]): string {
  if (texts.length === 0) return 'none';
  const more = texts.length > 6 ? ` and ${texts.length - 6} more` : '';
  return `${texts.slice(0, 6).join(', ')}${more}`;
}

const kindNames = { raw: 'neither TLS nor HTTP', tls: 'TLS', http: 'plain HTTP' } as const;

export function kindOf(kind: AttemptContent['protocol']): string {
  return kindNames[kind];
}

export function shown(text: string): string {
  const cut = text.length > mostCharacters ? `${text.slice(0, mostCharacters)}...` : text;
  return cut.replace(/[^ -~]/gu, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);
}
