import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeFile, encodeSpawn } from './fields.ts';
import { fieldBytes, stringBytes } from './limits.ts';
import type { FileOperation, SpawnSpec } from './types.ts';

const identity = { uid: 1000, gid: 1001, groups: [7, 8] };
const spec: SpawnSpec = {
  identity,
  argv: ['/bin/echo', 'ä'],
  env: { PATH: '/bin' },
  cwd: '/work',
  stdin: true,
  killTreeOnExit: true,
  root: false,
  openFiles: 1024,
};
const path = Buffer.from('/a');

describe('SPAWN', () => {
  it('carries every field of the spec', () => {
    expect(parse(encodeSpawn({ ...spec, pty: { rows: 24, columns: 80 } }))).toEqual([
      [1, 'e8030000'],
      [2, 'e9030000'],
      [3, '07000000'],
      [3, '08000000'],
      [4, '07000000'],
      [5, hex('/work')],
      [8, '18005000'],
      [9, '0004000000000000'],
      [10, '0000100000001000'],
      [6, hex('/bin/echo')],
      [6, hex('ä')],
      [7, hex('PATH=/bin')],
    ]);
  });

  it('keeps argv as it is, text and bytes', () => {
    const argument = fc.oneof(
      fc.string({ unit: 'binary' }).filter((text) => !text.includes('\0')),
      fc.uint8Array().map((bytes) => Buffer.from(bytes.filter((byte) => byte !== 0))),
    );
    fc.assert(
      fc.property(fc.array(argument, { minLength: 1 }), (argv) => {
        const args = parse(encodeSpawn({ ...spec, argv })).filter(([tag]) => tag === 6);
        expect(args.map(([, value]) => value)).toEqual(argv.map((value) => Buffer.from(value).toString('hex')));
      }),
    );
  });

  it('refuses 2 MB of arguments before it sends or copies them (RX-14)', () => {
    const argv = Array.from({ length: 2_000 }, () => 'x'.repeat(1_000));
    refuses({ ...spec, argv }, 'argv_too_large', /20\d{5} bytes together, the limit is 1044480/);
  });

  it('refuses one argument or environment entry that execve would not take', () => {
    const message = /has 131072 bytes, the limit is 131071/;
    refuses({ ...spec, argv: ['x'.repeat(stringBytes + 1)] }, 'argv_too_large', message);
    refuses({ ...spec, argv: [Buffer.alloc(stringBytes + 1, 1)] }, 'argv_too_large', message);
    refuses({ ...spec, env: { A: 'x'.repeat(stringBytes - 1) } }, 'argv_too_large', message);
    expect(() => encodeSpawn({ ...spec, argv: ['x'.repeat(stringBytes)] })).not.toThrow();
    expect(() => encodeSpawn({ ...spec, env: { A: 'x'.repeat(stringBytes - 2) } })).not.toThrow();
  });

  it('refuses 100 000 environment entries (RX-14)', () => {
    const env = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`NAME_${index}`, 'v']));
    refuses({ ...spec, env }, 'argv_too_large', /the limit is 1044480/);
  });

  it('counts bytes, not characters', () => {
    refuses({ ...spec, argv: ['ä'.repeat(stringBytes / 2 + 1)] }, 'argv_too_large', /131072 bytes/);
  });

  it('fills the limit exactly', () => {
    const room = fieldBytes - encodeSpawn({ ...spec, argv: [''] }).length;
    const full = Math.floor(room / (stringBytes + 5));
    const argv = [...Array.from({ length: full }, () => 'x'.repeat(stringBytes)), ''];
    const rest = fieldBytes - encodeSpawn({ ...spec, argv }).length;
    const exact = [...argv.slice(0, -1), 'x'.repeat(rest)];
    expect(encodeSpawn({ ...spec, argv: exact }).length).toBe(fieldBytes);
    refuses({ ...spec, argv: [...exact.slice(0, -1), 'x'.repeat(rest + 1)] }, 'argv_too_large', /1044481/);
  });

  it.each([
    ['an empty argv', { argv: [] }],
    ['a NUL in an argument', { argv: ['a\0b'] }],
    ['a NUL in argument bytes', { argv: [Buffer.from([97, 0])] }],
    ['a NUL in an environment value', { env: { A: '\0' } }],
    ['a NUL in an environment name', { env: { 'A\0': '' } }],
    ['"=" in an environment name', { env: { 'A=B': 'c' } }],
    ['an empty environment name', { env: { '': 'c' } }],
    ['33 groups', { identity: { ...identity, groups: Array.from({ length: 33 }, () => 1) } }],
    ['the uid that means none', { identity: { ...identity, uid: 0xffff_ffff } }],
    ['a terminal size past 16 bits', { pty: { rows: 65_536, columns: 1 } }],
    ['no open files', { openFiles: 0 }],
    ['half an open file', { openFiles: 1.5 }],
  ])('refuses %s', (_, change) => {
    refuses({ ...spec, ...change }, 'invalid_request');
  });

  it.each([
    ['relative', 'work'],
    ['empty', ''],
    ['too long', `/${'x'.repeat(4_095)}`],
    ['cut by a NUL', '/work\0'],
  ])('refuses a working folder that is %s', (_, cwd) => {
    refuses({ ...spec, cwd }, 'path_invalid');
  });
});

describe('FILE', () => {
  it.each<[FileOperation, readonly (readonly [number, string])[]]>([
    [{ op: 'read', path }, []],
    [
      { op: 'read', path, offset: 1, length: 2 ** 40 },
      [
        [23, '0100000000000000'],
        [24, '0000000000010000'],
      ],
    ],
    [{ op: 'write', path }, [[27, '00000000']]],
    [
      { op: 'write', path, mode: 0o600, makeParents: true },
      [
        [25, '80010000'],
        [27, '02000000'],
      ],
    ],
    [
      { op: 'list', path, depth: 2, max: 9 },
      [
        [29, '02000000'],
        [28, '09000000'],
      ],
    ],
    [{ op: 'stat', path, followLink: false }, [[27, '04000000']]],
    [{ op: 'stat', path, followLink: true }, [[27, '00000000']]],
    [{ op: 'mkdir', path }, [[27, '00000000']]],
    [{ op: 'rename', path, to: Buffer.from('/b') }, [[22, hex('/b')]]],
    [{ op: 'remove', path, recursive: true }, [[27, '01000000']]],
    [{ op: 'chmod', path, mode: 0o7777 }, [[25, 'ff0f0000']]],
    [{ op: 'chown', path, uid: 1, gid: 2 }, [[26, '0100000002000000']]],
    [{ op: 'watch', path, recursive: true }, [[27, '01000000']]],
  ])('carries %j', (operation, fields) => {
    const [uid, gid, first, second, op, ...rest] = parse(encodeFile(identity, operation));
    expect([uid, gid, first, second].map((field) => field?.[0])).toEqual([1, 2, 3, 3]);
    expect(op?.[0]).toBe(20);
    expect(rest).toEqual([[21, hex('/a')], ...fields, [10, '0000100000000000']]);
  });

  it.each<FileOperation>([
    { op: 'read', path, offset: -1 },
    { op: 'read', path, length: Number.NaN },
    { op: 'write', path, mode: 0o10000 },
    { op: 'list', path, depth: 0, max: 1 },
    { op: 'list', path, depth: 1, max: 0 },
    { op: 'chmod', path, mode: -1 },
    { op: 'chown', path, uid: 0xffff_ffff, gid: 0 },
  ])('refuses what init would call malformed: %j', (operation) => {
    expect(() => encodeFile(identity, operation)).toThrow(expect.objectContaining({ code: 'invalid_request' }));
  });

  it('refuses a second path as it refuses the first', () => {
    const operation = { op: 'rename', path, to: Buffer.from('b') } as const;
    expect(() => encodeFile(identity, operation)).toThrow(expect.objectContaining({ code: 'path_invalid' }));
  });
});

function refuses(wrong: SpawnSpec, code: string, message = /./): void {
  expect(() => encodeSpawn(wrong)).toThrow(expect.objectContaining({ code, message: expect.stringMatching(message) }));
}

function parse(payload: Buffer): (readonly [tag: number, value: string])[] {
  const fields: (readonly [number, string])[] = [];
  for (let at = 0; at < payload.length; ) {
    const length = payload.readUInt32LE(at + 1);
    fields.push([payload.readUInt8(at), payload.toString('hex', at + 5, at + 5 + length)]);
    at += 5 + length;
  }
  return fields;
}

function hex(text: string): string {
  return Buffer.from(text).toString('hex');
}
