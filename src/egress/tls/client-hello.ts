/**
 * What a client says before anything is encrypted (RFC 8446 section 4.1.2): the server it wants, its versions, whether it
 * hides another name (NX-18). Strict, because the real server reads the same bytes: what could be read in two ways is
 * malformed (NX-17). Never throws, whatever the bytes.
 */
import { type HostName, parseHostName } from '../../network/host-name.ts';
import { ByteCursor, MalformedBytes } from './byte-cursor.ts';
import { firstMessage } from './hello-records.ts';

export type ClientHello =
  /** Less than `needBytes` bytes say nothing more. */
  | { readonly kind: 'incomplete'; readonly needBytes: number }
  | { readonly kind: 'not-tls' }
  | { readonly kind: 'malformed'; readonly reason: string }
  | {
      readonly kind: 'hello';
      /** Absent: none was sent, or what was sent is no host name. */
      readonly serverName?: HostName;
      /** As it was sent, for records: printable ASCII, the rest as `\xNN`, cut at 255 bytes. */
      readonly serverNameText?: string;
      readonly alpn: readonly string[];
      /** ECH or a draft of it. Browsers send a dummy where they have no key (GREASE); nobody can tell the two apart. */
      readonly encryptedHello: boolean;
      /** As offered: 0x0304 is TLS 1.3. */
      readonly versions: readonly number[];
    };

const extensionTypes = { serverName: 0, alpn: 16, supportedVersions: 43 } as const;
/** RFC 9849, its drafts since 08, ECHO, and the encrypted_server_name of before. */
const encryptedHelloTypes = [0xfe0d, 0xfe0a, 0xfe09, 0xfe08, 0xff02, 0xff03, 0xffce];
const hostNameType = 0;
const mostProtocols = 64;
const nameTextBytes = 255;

/**
 * @param bytes everything since the connection began; what follows the ClientHello's records is not looked at
 * @example readClientHello(Buffer.from('GET / HTTP/1.1')) // { kind: 'not-tls' }
 */
export function readClientHello(bytes: Buffer): ClientHello {
  const message = firstMessage(bytes);
  if (message.kind !== 'message') return message;
  try {
    return readBody(message.body);
  } catch (error) {
    if (error instanceof MalformedBytes) return { kind: 'malformed', reason: error.message };
    throw error;
  }
}

function readBody(body: Buffer): ClientHello {
  const cursor = new ByteCursor(body, 'the ClientHello');
  const legacyVersion = cursor.number(2);
  if (legacyVersion < 0x0301 || legacyVersion > 0x0304) cursor.fail(`is of version 0x${legacyVersion.toString(16)}`);
  cursor.take(32); // random
  cursor.vector(1, 0, 32); // session id
  if (cursor.vector(2, 2, 0xfffe).length % 2 !== 0) cursor.fail('has half a cipher suite');
  if (!cursor.vector(1, 1, 0xff).includes(0)) cursor.fail('insists on compression');
  const extensions = cursor.left === 0 ? new Map<number, Buffer>() : readExtensions(cursor);
  const name = readServerName(extensions.get(extensionTypes.serverName));
  return {
    kind: 'hello',
    ...(name === undefined ? {} : named(name)),
    alpn: readAlpn(extensions.get(extensionTypes.alpn)),
    encryptedHello: encryptedHelloTypes.some((type) => extensions.has(type)),
    versions: readVersions(extensions.get(extensionTypes.supportedVersions)) ?? [legacyVersion],
  };
}

function readExtensions(cursor: ByteCursor): ReadonlyMap<number, Buffer> {
  const list = new ByteCursor(cursor.vector(2, 0, 0xffff), 'the list of extensions');
  cursor.end();
  const extensions = new Map<number, Buffer>();
  while (list.left > 0) {
    const type = list.number(2);
    // RFC 8446 section 4.2; of two one would decide and the other be served
    if (extensions.has(type)) list.fail(`has type ${type} twice`);
    extensions.set(type, list.vector(2, 0, 0xffff));
  }
  return extensions;
}

/** RFC 6066 section 3, and stricter: the list may have other kinds of names there, and nobody has ever sent one. */
function readServerName(data: Buffer | undefined): Buffer | undefined {
  if (data === undefined) return undefined;
  const cursor = new ByteCursor(data, 'the server name extension');
  const list = new ByteCursor(cursor.vector(2, 1, 0xffff), 'the list of server names');
  cursor.end();
  if (list.number(1) !== hostNameType) list.fail('has a name that is no host name');
  const name = list.vector(2, 1, 0xffff);
  list.end();
  return name;
}

function named(name: Buffer): { readonly serverName?: HostName; readonly serverNameText: string } {
  const serverNameText = printable(name.subarray(0, nameTextBytes));
  const isAscii = name.every((byte) => byte < 0x80);
  // a name of other bytes is not mapped to the one it resembles
  const serverName = isAscii && name.length <= nameTextBytes ? parseHostName(name.toString('latin1')) : undefined;
  return serverName === undefined ? { serverNameText } : { serverName, serverNameText };
}

function readAlpn(data: Buffer | undefined): readonly string[] {
  if (data === undefined) return [];
  const cursor = new ByteCursor(data, 'the ALPN extension');
  const list = new ByteCursor(cursor.vector(2, 2, 0xffff), 'the list of protocols');
  cursor.end();
  const protocols: string[] = [];
  while (list.left > 0) {
    if (protocols.length === mostProtocols) list.fail(`has more than ${mostProtocols}`);
    protocols.push(printable(list.vector(1, 1, 0xff)));
  }
  return protocols;
}

function readVersions(data: Buffer | undefined): readonly number[] | undefined {
  if (data === undefined) return undefined;
  const cursor = new ByteCursor(data, 'the extension of versions');
  const list = new ByteCursor(cursor.vector(1, 2, 254), 'the list of versions');
  cursor.end();
  const versions: number[] = [];
  while (list.left > 0) versions.push(list.number(2));
  return versions;
}

function printable(bytes: Buffer): string {
  const hex = (char: string): string => `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`;
  return bytes.toString('latin1').replace(/[^!-[\]-~]/g, hex);
}
