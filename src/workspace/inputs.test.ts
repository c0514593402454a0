/** Inputs on their way in: hostile names and kinds, limits, nothing left after a refusal. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { stageInputs } from './inputs.ts';
import { openStaging } from './staging.ts';

const limits = { bytes: 1024 * 1024, files: 100 };
let folder: string;
let into: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-inputs-'));
  into = join(folder, 'staged');
});
afterEach(() => {
  // what is staged is read-only, for us too where we are not root
  spawnSync('chmod', ['-R', 'u+rwX', folder]);
  rmSync(folder, { recursive: true, force: true });
});

function make(name: string, content: string | Buffer = 'x'): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

const sha256 = (text: string | Buffer): string => createHash('sha256').update(text).digest('hex');
const modeOf = (path: string): number => statSync(path).mode & 0o7777;

describe('what comes in', () => {
  it('is hashed, read-only, and executable only where it was', async () => {
    const script = make('run.sh', '#!/bin/sh\n');
    chmodSync(script, 0o4755);
    const staged = await stageInputs([make('data.csv', 'a,b\n'), script], into, limits);
    expect(staged).toEqual({
      folder: into,
      bytes: 14,
      files: [
        { path: 'data.csv', kind: 'file', bytes: 4, mode: 0o444, sha256: sha256('a,b\n') },
        { path: 'run.sh', kind: 'file', bytes: 10, mode: 0o555, sha256: sha256('#!/bin/sh\n') },
      ],
    });
    expect([modeOf(into), modeOf(join(into, 'data.csv')), modeOf(join(into, 'run.sh'))]).toEqual([0o555, 0o444, 0o555]);
    expect(readFileSync(join(into, 'data.csv'), 'utf8')).toBe('a,b\n');
  });

  it('may be a folder with all below it, empty ones too', async () => {
    mkdirSync(join(folder, 'repo/empty'), { recursive: true });
    make('repo/file', 'one');
    const staged = await stageInputs([`${join(folder, 'repo')}/`], into, limits);
    expect(staged.files.map(({ path, kind }) => [path, kind])).toEqual([
      ['repo', 'folder'],
      ['repo/empty', 'folder'],
      ['repo/file', 'file'],
    ]);
    expect(modeOf(join(into, 'repo/empty'))).toBe(0o555);
  });

  it('keeps symbolic links inside a folder as links and follows none', async () => {
    mkdirSync(join(folder, 'repo'));
    symlinkSync('/etc/shadow', join(folder, 'repo/link'));
    symlinkSync('.', join(folder, 'repo/loop'));
    const staged = await stageInputs([join(folder, 'repo')], into, limits);
    expect(readlinkSync(join(into, 'repo/link'))).toBe('/etc/shadow');
    expect(staged.files[1]).toEqual({
      path: 'repo/link',
      kind: 'symlink',
      bytes: 11,
      mode: 0o777,
      sha256: sha256('/etc/shadow'),
    });
  });

  it('keeps its name byte for byte (FS-20)', async () => {
    mkdirSync(join(folder, 'repo'));
    const names = [
      Buffer.from('new\nline'),
      Buffer.from([0x66, 0xff, 0xfe]),
      Buffer.from('-rf'),
      Buffer.from('\\back'),
      Buffer.from('é'),
    ];
    names.push(Buffer.alloc(255, 'n'));
    for (const name of names) writeFileSync(Buffer.concat([Buffer.from(`${folder}/repo/`), name]), 'x');
    const staged = await stageInputs([join(folder, 'repo')], into, limits);
    const found = readdirSync(Buffer.from(join(into, 'repo')), { encoding: 'buffer' }) as Buffer[];
    expect(found.sort(Buffer.compare)).toEqual(names.sort(Buffer.compare));
    expect(staged.files.map(({ path }) => path)).toContain('repo/new%0Aline');
    expect(staged.files.map(({ path }) => path)).toContain('repo/f%FF%FE');
  });

  it('may be named by bytes that are no text', async () => {
    const path = Buffer.concat([Buffer.from(`${folder}/`), Buffer.from([0x61, 0xff])]);
    writeFileSync(path, 'x');
    const staged = await stageInputs([path], into, limits);
    expect(staged.files[0]?.path).toBe('a%FF');
  });

  it('may come as bytes', async () => {
    const staging = await openStaging(into, limits);
    await staging.addBytes(
      'upload',
      (async function* () {
        yield Buffer.from('one');
        yield Buffer.from('two');
      })(),
    );
    const { files, bytes } = await staging.finish();
    expect([files[0]?.sha256, bytes]).toEqual([sha256('onetwo'), 6]);
    await expect(openStaging(into, limits)).rejects.toThrow('EEXIST');
  });

  it('is counted and hashed as it was read when it grows meanwhile (FS-24)', async () => {
    const path = make('log', Buffer.alloc(600 * 1024, 'a'));
    let stop = false;
    const growing = (async () => {
      for (let turn = 0; !stop && turn < 50; turn += 1) {
        appendFileSync(path, Buffer.alloc(1024, 'b'));
        await new Promise(setImmediate);
      }
    })();
    const staged = await stageInputs([path], into, limits);
    stop = true;
    await growing;
    const copy = readFileSync(join(into, 'log'));
    expect(staged.files[0]).toMatchObject({ bytes: copy.length, sha256: sha256(copy) });
    expect(staged.bytes).toBe(copy.length);
  });
});

describe('what is refused, with nothing left', () => {
  const refuses = async (paths: (string | Buffer)[], code: string, text: string, some = limits): Promise<void> => {
    const refusal = await stageInputs(paths, into, some).catch((thrown: unknown) => thrown);
    expect(refusal).toMatchObject({ code, message: expect.stringContaining(text) });
    expect(existsSync(into)).toBe(false);
  };

  it('a path where nothing is', () => refuses([join(folder, 'none')], 'input_missing', 'none'));
  it('a path below a file', () => refuses([join(make('file'), 'x')], 'input_missing', 'x'));
  it('a path with NUL', () => refuses([`${folder}/a\0b`], 'invalid_request', 'NUL'));
  it('the root folder', () => refuses(['/'], 'invalid_request', 'name of its own'));

  it('a symbolic link that was named itself, with a trailing slash too', async () => {
    mkdirSync(join(folder, 'target'));
    symlinkSync('target', join(folder, 'link'));
    await refuses([join(folder, 'link')], 'input_unreadable', 'name its target');
    await refuses([`${join(folder, 'link')}/`], 'input_unreadable', 'name its target');
  });

  it('two inputs of one name', async () => {
    mkdirSync(join(folder, 'sub'));
    await refuses([make('a'), make('sub/a')], 'invalid_request', 'two inputs are called a');
  });

  it('a FIFO, without waiting for its writer (FS-23)', async () => {
    mkdirSync(join(folder, 'repo'));
    spawnSync('mkfifo', [join(folder, 'repo/pipe')]);
    await refuses([join(folder, 'repo')], 'input_unreadable', 'repo/pipe: it is a FIFO');
    await refuses([join(folder, 'repo/pipe')], 'input_unreadable', 'FIFO');
  });

  it('a socket', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(join(folder, 'sock'), resolve));
    await refuses([join(folder, 'sock')], 'input_unreadable', 'socket');
    await new Promise((resolve) => server.close(resolve));
  });

  it('a device', () => refuses(['/dev/zero'], 'input_unreadable', 'character device'));

  it('a terabyte of nothing, before it is read (FS-24)', async () => {
    const path = make('sparse', '');
    truncateSync(path, 1024 ** 4);
    await refuses([path], 'input_too_large', 'sparse');
  });

  it('a file without a size that does not end', async () => {
    // what /proc shows has size 0 and is longer than that
    expect(statSync('/proc/self/mountinfo').size).toBe(0);
    await refuses(['/proc/self/mountinfo'], 'input_too_large', 'mountinfo', { bytes: 10, files: 1 });
  });

  it('one byte more than the limit, over all inputs together', async () => {
    const paths = [make('a', 'xxxx'), make('b', 'yyyy')];
    await refuses(paths, 'input_too_large', 'b would make more than 7 bytes', { bytes: 7, files: 9 });
    await expect(stageInputs(paths, into, { bytes: 8, files: 2 })).resolves.toMatchObject({ bytes: 8 });
  });

  it('more files than the limit, folders and links counted (FS-26)', async () => {
    mkdirSync(join(folder, 'repo'));
    for (let index = 0; index < 5; index += 1) make(`repo/${index}`, '');
    await refuses([join(folder, 'repo')], 'input_too_large', 'more files than may still come', { bytes: 9, files: 5 });
  });

  it('a tree deeper than 64 levels, without holding more folders open (FS-26)', async () => {
    const before = readdirSync('/proc/self/fd').length;
    mkdirSync(join(folder, 'd/'.repeat(70)), { recursive: true });
    await refuses([join(folder, 'd')], 'input_too_large', '64 levels');
    expect(readdirSync('/proc/self/fd').length).toBe(before);
  });

  it('a folder that holds the folder they are copied into', () =>
    refuses([folder], 'input_unreadable', 'the folder that inputs are copied into'));

  it('uploaded bytes past the limit, and names that are paths', async () => {
    const staging = await openStaging(into, { bytes: 5, files: 3 });
    const bytes = async function* () {
      for (;;) yield Buffer.alloc(4);
    };
    await expect(staging.addBytes('endless', bytes())).rejects.toMatchObject({ code: 'input_too_large' });
    for (const name of ['../up', 'a/b', '..', '', 'n'.repeat(256)]) {
      expect(() => staging.addBytes(name, bytes())).toThrow(expect.objectContaining({ code: 'invalid_request' }));
    }
    await staging.discard();
    await staging.discard();
    expect(existsSync(into)).toBe(false);
  });
});

it('leaves no file open', async () => {
  const before = readdirSync('/proc/self/fd').length;
  mkdirSync(join(folder, 'repo/sub'), { recursive: true });
  make('repo/sub/file');
  await stageInputs([join(folder, 'repo')], into, limits);
  expect(readdirSync('/proc/self/fd').length).toBe(before);
});
