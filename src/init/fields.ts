/** The payloads of SPAWN and FILE: what may not be asked is refused here, before a byte is sent (RX-14). */
import { SallyportError } from '../errors/error.ts';
import { creditBytes, fieldBytes, pathBytes, stringBytes } from './limits.ts';
import type { FileOperation, Identity, SpawnSpec } from './types.ts';

const tag = {
  uid: 1,
  gid: 2,
  group: 3,
  flags: 4,
  cwd: 5,
  arg: 6,
  env: 7,
  size: 8,
  nofile: 9,
  credit: 10,
  op: 20,
  path: 21,
  path2: 22,
  offset: 23,
  length: 24,
  mode: 25,
  owner: 26,
  fileFlags: 27,
  max: 28,
  depth: 29,
} as const;

const operationNumber = {
  read: 1,
  write: 2,
  list: 3,
  stat: 4,
  mkdir: 5,
  rename: 6,
  remove: 7,
  chmod: 8,
  chown: 9,
  watch: 10,
} as const;

/** @throws SallyportError `argv_too_large`, `invalid_request`, `path_invalid` */
export function encodeSpawn(spec: SpawnSpec): Buffer {
  if (spec.argv.length === 0) throw new SallyportError('invalid_request', 'Cannot run an empty argv');
  const size = spec.pty === undefined ? [] : [field(tag.size, pair16(spec.pty.rows, spec.pty.columns))];
  return join([
    ...identityFields(spec.identity),
    field(tag.flags, u32(flagsOf(spec))),
    field(tag.cwd, checkedPath(bytesOf(spec.cwd))),
    ...spec.argv.map((argument) => field(tag.arg, checkedString(bytesOf(argument), 'argument'))),
    ...Object.entries(spec.env).map(([name, value]) =>
      field(tag.env, checkedString(environmentEntry(name, value), 'environment entry')),
    ),
    ...size,
    field(tag.nofile, u64(spec.openFiles)),
    field(tag.credit, pair32(creditBytes, creditBytes)),
  ]);
}

/** @throws SallyportError `path_invalid` */
export function encodeFile(identity: Identity, operation: FileOperation): Buffer {
  return join([
    ...identityFields(identity),
    field(tag.op, u32(operationNumber[operation.op])),
    field(tag.path, checkedPath(operation.path)),
    ...operationFields(operation),
    field(tag.credit, pair32(creditBytes, 0)),
  ]);
}

function operationFields(operation: FileOperation): Buffer[] {
  switch (operation.op) {
    case 'read':
      return [...optional(tag.offset, operation.offset, u64), ...optional(tag.length, operation.length, u64)];
    case 'write':
    case 'mkdir':
      return [
        ...optional(tag.mode, operation.mode, u32),
        field(tag.fileFlags, u32(operation.makeParents === true ? 2 : 0)),
      ];
    case 'list':
      return [field(tag.depth, u32(operation.depth)), field(tag.max, u32(operation.max))];
    case 'stat':
      return [field(tag.fileFlags, u32(operation.followLink ? 0 : 4))];
    case 'rename':
      return [field(tag.path2, checkedPath(operation.to))];
    case 'remove':
    case 'watch':
      return [field(tag.fileFlags, u32(operation.recursive ? 1 : 0))];
    case 'chmod':
      return [field(tag.mode, u32(operation.mode))];
    case 'chown':
      return [field(tag.owner, pair32(operation.uid, operation.gid))];
  }
}

function identityFields({ uid, gid, groups }: Identity): Buffer[] {
  return [field(tag.uid, u32(uid)), field(tag.gid, u32(gid)), ...groups.map((group) => field(tag.group, u32(group)))];
}

function flagsOf(spec: SpawnSpec): number {
  return (spec.pty === undefined ? 0 : 1) | (spec.stdin ? 2 : 0) | (spec.killTreeOnExit ? 4 : 0) | (spec.root ? 8 : 0);
}

function environmentEntry(name: string, value: string): Buffer {
  if (name === '' || name.includes('='))
    throw new SallyportError(
      'invalid_request',
      `Cannot use the environment name ${JSON.stringify(name)}: it is empty or holds "="`,
    );
  return bytesOf(`${name}=${value}`);
}

function checkedString(bytes: Buffer, what: string): Buffer {
  if (bytes.length > stringBytes) throw tooLarge(`one ${what} has ${bytes.length} bytes, the limit is ${stringBytes}`);
  if (bytes.includes(0)) throw new SallyportError('invalid_request', `Cannot pass an ${what} with a NUL byte`);
  return bytes;
}

function checkedPath(bytes: Buffer): Buffer {
  const shown = JSON.stringify(bytes.subarray(0, 200).toString('utf8'));
  if (bytes[0] !== 0x2f) throw new SallyportError('path_invalid', `Cannot use the path ${shown}: it is not absolute`);
  if (bytes.includes(0)) throw new SallyportError('path_invalid', `Cannot use the path ${shown}: it holds a NUL`);
  if (bytes.length > pathBytes)
    throw new SallyportError(
      'path_invalid',
      `Cannot use the path: it has ${bytes.length} bytes, the limit is ${pathBytes}`,
    );
  return bytes;
}

function join(fields: readonly Buffer[]): Buffer {
  const size = fields.reduce((sum, { length }) => sum + length, 0);
  if (size > fieldBytes)
    throw tooLarge(`arguments and environment have ${size} bytes together, the limit is ${fieldBytes}`);
  return Buffer.concat(fields, size);
}

function tooLarge(what: string): SallyportError {
  return new SallyportError('argv_too_large', `Cannot start the command: ${what}`);
}

function optional(number: number, value: number | undefined, encode: (value: number) => Buffer): Buffer[] {
  return value === undefined ? [] : [field(number, encode(value))];
}

function field(number: number, value: Buffer): Buffer {
  const bytes = Buffer.allocUnsafe(5 + value.length);
  bytes.writeUInt8(number, 0);
  bytes.writeUInt32LE(value.length, 1);
  value.copy(bytes, 5);
  return bytes;
}

function bytesOf(value: string | Buffer): Buffer {
  return typeof value === 'string' ? Buffer.from(value, 'utf8') : value;
}

export function u32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32LE(value, 0);
  return bytes;
}

export function u64(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeBigUInt64LE(BigInt(value), 0);
  return bytes;
}

export function pair32(first: number, second: number): Buffer {
  return Buffer.concat([u32(first), u32(second)]);
}

export function pair16(first: number, second: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt16LE(first, 0);
  bytes.writeUInt16LE(second, 2);
  return bytes;
}
