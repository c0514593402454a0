/**
 * An HTTP request as the rules see it. What two parsers could read in two ways is refused before a rule looks at it: a target
 * that is no plain path, a Host that is missing, double or no host, headers with control characters (NX-21, NX-23, NX-24).
 */
import { type HostName, parseHostName } from '../../network/host-name.ts';
import { parseIpAddress } from '../../network/ip-address.ts';
import type { HttpRequest } from '../types.ts';

export interface RequestHead {
  readonly method: string;
  /** As it was sent. */
  readonly url: string;
  /** Name, value, name, value, … as it was sent. */
  readonly rawHeaders: readonly string[];
  /** HTTP/2's, in place of a Host header. */
  readonly authority?: string;
}

export type ReadRequest =
  | { readonly kind: 'request'; readonly request: HttpRequest; readonly query: string; readonly authority: string }
  | { readonly kind: 'ambiguous'; readonly reason: string };

const methodRule = /^[A-Z][A-Z-]{0,31}$/;
/** Visible ASCII without what belongs in no target: fragment, backslash, quotes, angle and curly brackets, "^", "`", "|". */
const targetRule = /^\/[!$%&'()*+,\-./0-9:;=?@A-Z[\]_a-z~]*$/;

export function readRequest(head: RequestHead): ReadRequest {
  const fields = fieldsOf(head);
  const problem = firstProblem(head, fields);
  if (problem !== undefined) return { kind: 'ambiguous', reason: problem };
  const [authority = ''] = authoritiesOf(head, fields);
  const { host, port } = readAuthority(authority) ?? {};
  const cut = head.url.indexOf('?');
  return {
    kind: 'request',
    request: {
      ...(host === undefined ? {} : { host }),
      ...(port === undefined ? {} : { port }),
      method: head.method,
      path: cut < 0 ? head.url : head.url.slice(0, cut),
      websocket: valuesOf(fields, 'upgrade').some((value) => value.toLowerCase() === 'websocket'),
    },
    query: cut < 0 ? '' : head.url.slice(cut),
    authority,
  };
}

/** Node's parser leaves out what is beyond its bound, so a head that reaches it may lack something. */
export const mostHeaders = 256;

/** Headers that say what a request is: one of them that belongs to a hop would be gone upstream. */
const endToEnd: ReadonlySet<string> = new Set([
  'authorization',
  'content-length',
  'content-type',
  'cookie',
  'host',
  'transfer-encoding',
]);

/** Values by lower-case name: looked up a dozen times for each request. */
type Fields = ReadonlyMap<string, readonly string[]>;

type HeadRule = (head: RequestHead, fields: Fields) => string | undefined;

const problems: readonly HeadRule[] = [
  ({ method }) => (methodRule.test(method) ? undefined : 'The method is none of HTTP.'),
  ({ method }) => (method === 'CONNECT' ? 'CONNECT asks for a proxy, and there is none to ask.' : undefined),
  ({ url, method }) => {
    if (url === '*' && method === 'OPTIONS') return undefined;
    return targetRule.test(url) ? undefined : 'The target is not a path that all servers read alike.';
  },
  (head, fields) => (authoritiesOf(head, fields).length === 1 ? undefined : 'There is not exactly one Host.'),
  (head, fields) =>
    readAuthority(authoritiesOf(head, fields)[0] ?? '') === undefined ? 'The Host is no host name.' : undefined,
  ({ rawHeaders }) => (rawHeaders.length / 2 < mostHeaders ? undefined : `There are ${mostHeaders} headers and more.`),
  (_head, fields) => {
    const named = valuesOf(fields, 'connection').flatMap((value) => value.split(','));
    const odd = named.find((name) => endToEnd.has(name.trim().toLowerCase()));
    return odd === undefined ? undefined : 'Connection names a header that belongs to the request.';
  },
  ({ rawHeaders }) => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    const isOdd = rawHeaders.some((text) => /[\x00-\x08\x0a-\x1f\x7f]/.test(text));
    return isOdd ? 'A header has a control character.' : undefined;
  },
  (_head, fields) => {
    const encodings = valuesOf(fields, 'transfer-encoding');
    const lengths = valuesOf(fields, 'content-length');
    if (encodings.length + lengths.length > 1) return 'The length of the body is said more than once.';
    return encodings.every((value) => value.toLowerCase() === 'chunked')
      ? undefined
      : 'The transfer encoding is unknown.';
  },
  (_head, fields) => {
    const upgrades = valuesOf(fields, 'upgrade');
    if (upgrades.length === 0) return undefined;
    // h2c would be a connection in which no request is seen
    return upgrades.length === 1 && upgrades[0]?.toLowerCase() === 'websocket'
      ? undefined
      : 'Only WebSocket is upgraded to.';
  },
];

function firstProblem(head: RequestHead, fields: Fields): string | undefined {
  for (const rule of problems) {
    const reason = rule(head, fields);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

function fieldsOf({ rawHeaders }: RequestHead): Fields {
  const fields = new Map<string, string[]>();
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const name = (rawHeaders[index] ?? '').toLowerCase();
    const values = fields.get(name);
    if (values === undefined) fields.set(name, [rawHeaders[index + 1] ?? '']);
    else values.push(rawHeaders[index + 1] ?? '');
  }
  return fields;
}

function valuesOf(fields: Fields, name: string): readonly string[] {
  return fields.get(name) ?? [];
}

function authoritiesOf(head: RequestHead, fields: Fields): readonly string[] {
  const hosts = valuesOf(fields, 'host');
  // HTTP/2 clients may send both; then they must be one
  if (head.authority === undefined) return hosts;
  return hosts.every((host) => host === head.authority) ? [head.authority] : [head.authority, ...hosts];
}

function readAuthority(text: string): { readonly host?: HostName; readonly port?: number } | undefined {
  // what is not ASCII could be mapped to the host that is allowed
  if (!/^[\x21-\x7e]*$/.test(text)) return undefined;
  const match = /^(\[[0-9a-f:.]+\]|[^:]*)(?::(\d{1,5}))?$/i.exec(text);
  const name = match?.[1] ?? '';
  const host = parseHostName(name);
  const isAddress = parseIpAddress(name.replace(/^\[|\]$/g, '').toLowerCase()) !== undefined;
  if (match === null || (host === undefined && !isAddress)) return undefined;
  return { ...(host === undefined ? {} : { host }), ...(match[2] === undefined ? {} : { port: Number(match[2]) }) };
}
