/**
 * The payloads of SPAWN and FILE. What init would call malformed is refused here, before a byte is allocated or sent: a
 * request may be wrong, but it must not end the sandbox, nor cost the host more than reading it (RX-14).
 */
import { SallyportError } from '../errors/error.ts';
import { maxU16, maxU32, pair16, pair32, u32, u64, wholeNumber } from './integers.ts';
import { creditBytes, fieldBytes, groupCount, pathBytes, stringBytes } from './limits.ts';
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

const spawnFlag = { pty: 1, stdin: 2, killTreeOnExit: 4, root: 8 } as const;
const fileFlag = { recursive: 1, makeParents: 2, noFollow: 4 } as const;

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

/** u8 tag, u32 length. */
const fieldHeaderBytes = 5;
/** (uid_t)-1 means "leave it" to the kernel, so it is nobody's id. */
const maxId = maxU32 - 1;
const maxMode = 0o7777;
const maxOffset = Number.MAX_SAFE_INTEGER;

type Field = readonly [tag: number, value: string | Buffer];

/** @throws SallyportError `argv_too_large`, `invalid_request`, `path_invalid` */
export function encodeSpawn(spec: SpawnSpec): Buffer {
  if (spec.argv.length === 0) throw new SallyportError('invalid_request', 'Cannot start the command: argv is empty');
  return join([
    ...identityFields(spec.identity),
    [tag.flags, u32(flagsOf(spec))],
    [tag.cwd, checkedPath(toBytes(spec.cwd))],
    ...sizeFields(spec.pty),
    [tag.nofile, u64(wholeNumber(spec.openFiles, 'the number of open files', 1, maxOffset))],
    [tag.credit, pair32(creditBytes, creditBytes)],
    ...spec.argv.map((argument): Field => [tag.arg, checkedString(argument, 'argument')]),
    ...Object.entries(spec.env).map(([name, value]): Field => [tag.env, environmentEntry(name, value)]),
  ]);
}

/** @throws SallyportError `invalid_request`, `path_invalid` */
export function encodeFile(identity: Identity, operation: FileOperation): Buffer {
  return join([
    ...identityFields(identity),
    [tag.op, u32(operationNumber[operation.op])],
    [tag.path, checkedPath(operation.path)],
    ...operationFields(operation),
    [tag.credit, pair32(creditBytes, 0)],
  ]);
}

function operationFields(operation: FileOperation): readonly Field[] {
  switch (operation.op) {
    case 'read':
      return [
        ...optional(operation.offset, (offset) => [
          tag.offset,
          u64(wholeNumber(offset, 'the offset of a read', 0, maxOffset)),
        ]),
        ...optional(operation.length, (length) => [
          tag.length,
          u64(wholeNumber(length, 'the length of a read', 0, maxOffset)),
        ]),
      ];
    case 'write':
    case 'mkdir':
      return [
        ...optional(operation.mode, modeField),
        [tag.fileFlags, u32(operation.makeParents === true ? fileFlag.makeParents : 0)],
      ];
    case 'list':
      return [
        [tag.depth, u32(wholeNumber(operation.depth, 'the depth of a list', 1, maxU32))],
        [tag.max, u32(wholeNumber(operation.max, 'the most entries of a list', 1, maxU32))],
      ];
    case 'stat':
      return [[tag.fileFlags, u32(operation.followLink ? 0 : fileFlag.noFollow)]];
    case 'rename':
      return [[tag.path2, checkedPath(operation.to)]];
    case 'remove':
    case 'watch':
      return [[tag.fileFlags, u32(operation.recursive ? fileFlag.recursive : 0)]];
    case 'chmod':
      return [modeField(operation.mode)];
    case 'chown':
      return [[tag.owner, pair32(checkedId(operation.uid, 'a uid'), checkedId(operation.gid, 'a gid'))]];
  }
}

function identityFields({ uid, gid, groups }: Identity): readonly Field[] {
  if (groups.length > groupCount)
    throw new SallyportError('invalid_request', `Cannot use ${groups.length} groups, the limit is ${groupCount}`);
  return [
    [tag.uid, u32(checkedId(uid, 'a uid'))],
    [tag.gid, u32(checkedId(gid, 'a gid'))],
    ...groups.map((group): Field => [tag.group, u32(checkedId(group, 'a group'))]),
  ];
}

function sizeFields(pty: SpawnSpec['pty']): readonly Field[] {
  if (pty === undefined) return [];
  return [[tag.size, terminalSize(pty.rows, pty.columns)]];
}

/** @throws SallyportError `invalid_request` */
export function terminalSize(rows: number, columns: number): Buffer {
  return pair16(
    wholeNumber(rows, 'the rows of a terminal', 0, maxU16),
    wholeNumber(columns, 'the columns of a terminal', 0, maxU16),
  );
}

function flagsOf({ pty, stdin, killTreeOnExit, root }: SpawnSpec): number {
  return (
    (pty === undefined ? 0 : spawnFlag.pty) |
    (stdin ? spawnFlag.stdin : 0) |
    (killTreeOnExit ? spawnFlag.killTreeOnExit : 0) |
    (root ? spawnFlag.root : 0)
  );
}

function modeField(mode: number): Field {
  return [tag.mode, u32(wholeNumber(mode, 'a mode', 0, maxMode))];
}

function checkedId(id: number, what: string): number {
  return wholeNumber(id, what, 0, maxId);
}

function environmentEntry(name: string, value: string): string {
  if (name !== '' && !name.includes('=')) return checkedString(`${name}=${value}`, 'environment entry');
  const shown = JSON.stringify(name.slice(0, 200));
  throw new SallyportError('invalid_request', `Cannot use the environment name ${shown}: it is empty or holds "="`);
}

function checkedString<T extends string | Buffer>(value: T, what: string): T {
  const size = sizeOf(value);
  if (size > stringBytes) throw tooLarge(`one ${what} has ${size} bytes, the limit is ${stringBytes}`);
  if (typeof value === 'string' ? !value.includes('\0') : !value.includes(0)) return value;
  throw new SallyportError('invalid_request', `Cannot start the command: an ${what} holds a NUL`);
}

function checkedPath(path: Buffer): Buffer {
  const shown = JSON.stringify(path.toString('utf8', 0, 200));
  if (path[0] !== 0x2f) throw new SallyportError('path_invalid', `Cannot use the path ${shown}: it is not absolute`);
  if (path.includes(0)) throw new SallyportError('path_invalid', `Cannot use the path ${shown}: it holds a NUL`);
  if (path.length <= pathBytes) return path;
  const why = `it has ${path.length} bytes, the limit is ${pathBytes}`;
  throw new SallyportError('path_invalid', `Cannot use the path: ${why}`);
}

/** Measures first, so that what is too large costs no memory. */
function join(fields: readonly Field[]): Buffer {
  let size = 0;
  for (const [, value] of fields) size += fieldHeaderBytes + sizeOf(value);
  if (size > fieldBytes)
    throw tooLarge(`arguments and environment have ${size} bytes together, the limit is ${fieldBytes}`);
  const payload = Buffer.allocUnsafe(size);
  let at = 0;
  for (const field of fields) at = writeField(payload, at, field);
  return payload;
}

function writeField(payload: Buffer, at: number, [number, value]: Field): number {
  const start = at + fieldHeaderBytes;
  const size = typeof value === 'string' ? payload.write(value, start, 'utf8') : value.copy(payload, start);
  payload.writeUInt8(number, at);
  payload.writeUInt32LE(size, at + 1);
  return start + size;
}

function tooLarge(what: string): SallyportError {
  return new SallyportError('argv_too_large', `Cannot start the command: ${what}`);
}

function optional(value: number | undefined, toField: (value: number) => Field): readonly Field[] {
  return value === undefined ? [] : [toField(value)];
}

function sizeOf(value: string | Buffer): number {
  return typeof value === 'string' ? Buffer.byteLength(value, 'utf8') : value.length;
}

function toBytes(value: string | Buffer): Buffer {
  return typeof value === 'string' ? Buffer.from(value, 'utf8') : value;
}
