/**
 * A URL as the attempt that a client would make of it. Read strictly: what a browser would repair (other spellings of
 * addresses, dots in paths, backslashes) is a problem here, because the sandbox's clients may repair it otherwise (NX-05).
 */
import { parseHostName } from '../../network/host-name.ts';
import { parseIpAddress } from '../../network/ip-address.ts';
import type { Attempt, AttemptContent, HttpRequest, Target } from '../types.ts';

export interface UrlProblem {
  readonly problem: string;
}

const schemes = {
  https: { kind: 'tls', port: 443, websocket: false },
  wss: { kind: 'tls', port: 443, websocket: true },
  http: { kind: 'http', port: 80, websocket: false },
  ws: { kind: 'http', port: 80, websocket: true },
  tcp: { kind: 'raw', port: undefined, websocket: false },
} as const;
type Scheme = (typeof schemes)[keyof typeof schemes];

const urlRule = /^([A-Za-z][A-Za-z0-9+.-]*):\/\/([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?$/s;
const authorityRule = /^(?:\[([^[\]]*)\]|([^:[\]]*))(?::(\d+))?$/;

export function attemptOfUrl(url: string, method = 'GET'): Attempt | UrlProblem {
  const [whole, schemeText = '', authority = '', path = '', query] = urlRule.exec(url) ?? [];
  if (whole === undefined) return { problem: 'it is no URL such as https://host/path or tcp://host:port' };
  const scheme = schemeOf(schemeText.toLowerCase());
  if (scheme === undefined) return { problem: `its scheme is none of ${Object.keys(schemes).join(', ')}` };
  const place = placeOf(authority, scheme);
  if ('problem' in place) return place;
  if (scheme.kind !== 'raw') return { ...place, content: contentOf(scheme, place, method, path === '' ? '/' : path) };
  if (path !== '' || query !== undefined) return { problem: 'a tcp URL has no path' };
  return { ...place, content: { protocol: 'raw' } };
}

function schemeOf(text: string): Scheme | undefined {
  return Object.hasOwn(schemes, text) ? schemes[text as keyof typeof schemes] : undefined;
}

type Place = Attempt & { readonly port: number };

function placeOf(authority: string, scheme: Scheme): Place | UrlProblem {
  if (authority.includes('@')) return { problem: 'it has a user name; rules know none' };
  const [whole, inBrackets, name = '', portText] = authorityRule.exec(authority) ?? [];
  if (whole === undefined) return { problem: 'its host and port cannot be read' };
  const target = inBrackets === undefined ? targetOf(name) : addressOf(inBrackets);
  if (target === undefined) {
    return { problem: 'its host is neither a host name nor an address in its canonical spelling' };
  }
  const port = portText === undefined ? scheme.port : Number(portText);
  if (port === undefined) return { problem: 'a tcp URL needs a port' };
  return port >= 1 && port <= 65_535 ? { target, port } : { problem: 'its port is none' };
}

function targetOf(name: string): Target | undefined {
  const host = parseHostName(name);
  if (host !== undefined) return { kind: 'host', host };
  const address = parseIpAddress(name);
  return address?.family === 4 ? { kind: 'address', address } : undefined;
}

function addressOf(text: string): Target | undefined {
  const address = text.includes(':') ? parseIpAddress(text) : undefined;
  return address === undefined ? undefined : { kind: 'address', address };
}

function contentOf(scheme: Scheme, { target, port }: Place, method: string, path: string): AttemptContent {
  const host = target.kind === 'host' ? target.host : undefined;
  const named = host === undefined ? {} : { host };
  const request: HttpRequest = { ...named, port, method, path, websocket: scheme.websocket };
  if (scheme.kind === 'http') return { protocol: 'http', request };
  return { protocol: 'tls', ...(host === undefined ? {} : { serverName: host }), encryptedHello: false, request };
}
