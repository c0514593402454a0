/** The command line against a real server on a socket, with sandboxes that are fakes. */
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable, Writable } from 'node:stream';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type FakeSandbox, FakeSandboxes } from '../../test/support/fake-sandboxes.ts';
import { type ListeningServer, listen } from '../server/listen.ts';
import { openStore, type Store } from '../store/store.ts';
import { commands } from './commands/all.ts';
import type { Context, Environment } from './context.ts';
import { main } from './main.ts';

let folder: string;
let store: Store;
let server: ListeningServer;
let sandboxes: FakeSandboxes;
let sandbox: FakeSandbox;
let env: Environment;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-cli-'));
  store = await openStore(join(folder, 'sallyport.db'));
  sandboxes = new FakeSandboxes();
  sandbox = await sandboxes.create({ request: { class: 'analysis' }, metadata: { task: 'x' } });
  server = await listen({ sandboxes: sandboxes, store: withKey(), log: pino({ level: 'silent' }) }, { port: 0 });
  writeFileSync(join(folder, 'daemon-url'), server.url);
  env = { SALLYPORT_HOME: folder };
});
afterEach(async () => {
  await server.close(100);
  await store.close();
  rmSync(folder, { recursive: true });
});

function withKey(): Store {
  writeFileSync(join(folder, 'api-key'), `${store.apiKeys.create('test').key}\n`, { mode: 0o600 });
  return store;
}

class Sink extends Writable {
  readonly chunks: Buffer[] = [];
  columns = 80;
  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.chunks.push(chunk);
    done();
  }
  get bytes(): Buffer {
    return Buffer.concat(this.chunks);
  }
  get text(): string {
    return this.bytes.toString();
  }
}

async function sallyport(argv: readonly string[], overrides: Partial<Context> = {}) {
  const [stdout, stderr] = [new Sink(), new Sink()];
  const context = { stdin: Readable.from([]), stdout, stderr, env, ...overrides };
  const status = await main(argv, context);
  return { status, stdout: stdout.text, stderr: stderr.text, bytes: stdout.bytes };
}

describe('the command line', () => {
  it('shows every command in its help', async () => {
    const { status, stdout } = await sallyport(['--help']);
    expect(status).toBe(0);
    for (const { name } of commands.filter(({ hidden }) => hidden !== true))
      expect(stdout).toMatch(new RegExp(`^  ${name.split(' ')[0]}\\b`, 'm'));
  });
  it.each([
    [['nothing']],
    [['ls', '--nothing']],
    [['exec']],
    [['create', '--class', 'a', '--tier', 'paper']],
    [['create']],
    [['create', '--class', 'a', '--memory', 'lots']],
    [['create', '--class', 'a', '--env', 'novalue']],
    [['create', '--class', 'a', '--network', 'allow']],
    [['create', '--class', 'a', '--network', 'deny', '--allow-host', 'a.example']],
    [['create', '--class', 'a', '--network', 'deny', '--network-rule', 'web']],
    [['cp', 'a', 'b']],
    [['shell', 'sb-0']],
    [['exec', '-t', 'sb-0', 'sh']],
  ])('is wrong with status 2, and says why: %j', async (argv) => {
    const { status, stderr } = await sallyport(argv);
    expect(status).toBe(2);
    expect(stderr).toMatch(/^(sallyport: .+|Usage:)/);
  });
  it('says what failed and what to do next', async () => {
    const { status, stderr } = await sallyport(['info', 'sb-9']);
    expect(status).toBe(1);
    expect(stderr).toBe('sallyport: Cannot find sandbox sb-9\nnext: List the sandboxes with "sallyport ls".\n');
  });
  it('gives the error object with --json', async () => {
    const { stderr } = await sallyport(['info', 'sb-9', '--json']);
    expect(JSON.parse(stderr)).toMatchObject({ code: 'sandbox_not_found', retry: false });
  });
  it('tells a daemon that is not there', async () => {
    const { status, stderr } = await sallyport(['ls', '--url', 'http://127.0.0.1:1']);
    expect([status, stderr]).toEqual([1, expect.stringContaining('sallyport up')]);
  });
  it('sends the key of this host nowhere else', async () => {
    const { stderr } = await sallyport(['ls', '--url', 'http://sally.example:7117']);
    expect(stderr).toContain('SALLYPORT_API_KEY is not set');
  });
  it('prints the version', async () => {
    expect((await sallyport(['version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});

describe('sandboxes', () => {
  it('are created by class and narrowed by options', async () => {
    const create = vi.spyOn(sandboxes, 'create');
    const { stdout } = await sallyport([
      ...['create', '--class', 'coding', '--tier', 'process', '--memory', '512MiB', '--cpu', '1.5', '--pids', '64'],
      ...['--disk', '1GiB', '--timeout', '30s', '--env', 'A=b=c', '--metadata', 'task=1'],
    ]);
    expect(stdout).toBe('sb-1\n');
    expect(create.mock.calls[0]?.[0]).toEqual({
      request: {
        class: 'coding',
        tier: 'process',
        env: { A: 'b=c' },
        limits: { memoryBytes: 536_870_912, cpuMillis: 1500, pids: 64, diskBytes: 1_073_741_824, execMs: 30_000 },
      },
      metadata: { task: '1' },
    });
  });
  it.each([
    [['--network', 'deny'], 'deny'],
    [['--allow-host', 'a.example', '--allow-host', '*.b.example'], { hosts: ['a.example', '*.b.example'] }],
    [['--network-rule', 'web', '--allow-host', 'a.example'], { rules: ['web'], hosts: ['a.example'] }],
  ])('are created with less network: %j', async (options, network) => {
    const create = vi.spyOn(sandboxes, 'create');
    expect((await sallyport(['create', '--class', 'coding', ...options])).status).toBe(0);
    expect(create.mock.calls[0]?.[0]).toMatchObject({ request: { class: 'coding', network } });
  });
  it('are not created with a network that is none', async () => {
    const { status, stderr } = await sallyport(['create', '--class', 'coding', '--allow-host', '*.com']);
    expect([status, stderr]).toEqual([1, expect.stringContaining('body.network')]);
  });
  it('are listed within 80 columns', async () => {
    const { stdout } = await sallyport(['ls']);
    const lines = stdout.trimEnd().split('\n');
    expect(lines[0]).toMatch(/^ID +CLASS +TIER +STATE +CREATED$/);
    expect(lines[1]).toMatch(/^sb-0 +analysis +container +running +2025-01-01T00:00:00Z$/);
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
  });
  it('are listed in JSON', async () => {
    expect(JSON.parse((await sallyport(['ls', '--json'])).stdout)).toMatchObject([{ id: 'sb-0' }]);
  });
  it('are shown and killed', async () => {
    expect((await sallyport(['info', 'sb-0'])).stdout).toMatch(/^state +running$/m);
    expect(JSON.parse((await sallyport(['info', 'sb-0', '--json'])).stdout)).toMatchObject({ usage: { pids: 1 } });
    expect((await sallyport(['kill', 'sb-0'])).stdout).toBe('sb-0\n');
    expect((await sallyport(['ls'])).stdout).toBe('ID  CLASS  TIER  STATE  CREATED\n');
    expect((await sallyport(['ls', '--all'])).stdout).toContain('killed');
  });
  it('show their log, and how much of it is missing', async () => {
    const { stdout, stderr } = await sallyport(['logs', 'sb-0']);
    expect([stdout, stderr]).toEqual(['hello\n', 'sallyport: 7 more bytes were not kept\n']);
  });
});

describe('exec', () => {
  it('passes output, errors and the exit status on', async () => {
    expect(await sallyport(['exec', 'sb-0', '--', 'echo', '--json', 'x'])).toMatchObject({
      status: 0,
      stdout: '--json x\n',
    });
    expect(await sallyport(['exec', 'sb-0', 'exit', '7'])).toMatchObject({ status: 7, stderr: 'leaving\n' });
  });
  it('carries large output whole', async () => {
    expect((await sallyport(['exec', 'sb-0', 'flood', '20000000'])).bytes).toHaveLength(20_000_000);
  });
  it('passes standard input on with -i, and only then', async () => {
    const stdin = Readable.from([Buffer.from('one '), Buffer.from([0xff, 0])]);
    const { bytes } = await sallyport(['exec', '-i', 'sb-0', 'cat'], { stdin });
    expect(bytes.equals(Buffer.concat([Buffer.from('one '), Buffer.from([0xff, 0])]))).toBe(true);
    await sallyport(['exec', 'sb-0', 'echo']);
    expect(sandbox.execsMade.map(({ spec }) => spec.stdin)).toEqual([true, false]);
  });
  it('ends when the command ends, though its input goes on', async () => {
    const stdin = new PassThrough();
    stdin.write('some');
    const ended = sallyport(['exec', '-i', 'sb-0', 'cat'], { stdin });
    await vi.waitFor(() => expect(sandbox.execsMade[0]?.takenBytes).toBe(4));
    sandbox.execsMade[0]?.kill();
    expect((await ended).status).toBe(143);
  });
  it('is 127 for a program that is not there', async () => {
    const { status, stderr } = await sallyport(['exec', 'sb-0', 'missing']);
    expect([status, stderr]).toEqual([127, expect.stringContaining('no such program')]);
  });
  it('tells a daemon that went away', async () => {
    const ended = sallyport(['exec', 'sb-0', 'sleep']);
    await vi.waitFor(() => expect(sandbox.execsMade).toHaveLength(1));
    await server.close(1);
    expect(await ended).toMatchObject({ status: 1, stderr: expect.stringContaining('before the command ended') });
  });
  it('waits for a reader that is slow', async () => {
    let take: () => void = () => undefined;
    const stdout = new Writable({
      highWaterMark: 1,
      write: (_chunk, _encoding, done) => {
        take = done;
      },
    });
    const ended = sallyport(['exec', 'sb-0', 'flood', '200000000'], { stdout });
    await vi.waitFor(() => expect(sandbox.execsMade[0]?.takenBytes).toBeGreaterThan(0));
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(sandbox.execsMade[0]?.takenBytes).toBeLessThan(64 * 1024 * 1024);
    stdout.destroy(new Error('EPIPE'));
    take();
    expect((await ended).status).toBe(141);
    await sandbox.execsMade[0]?.killed;
  });
});

describe('shell', () => {
  it('is a terminal both ways, and gives the terminal back', async () => {
    const modes: boolean[] = [];
    const stdin = Object.assign(new PassThrough(), {
      isTTY: true as const,
      setRawMode: (mode: boolean) => modes.push(mode),
    }) as unknown as Context['stdin'] & PassThrough;
    const stdout = Object.assign(new Sink(), { columns: 70, rows: 50 });
    const ended = sallyport(['shell', 'sb-0'], { stdin, stdout });
    await vi.waitFor(() => expect(modes).toEqual([true]));
    stdin.write('hello');
    await vi.waitFor(() => expect(stdout.text).toBe('hello'));
    stdout.rows = 51;
    stdout.emit('resize');
    const exec = sandbox.execsMade[0];
    await vi.waitFor(() => expect(exec?.sizes).toEqual(['51x70']));
    expect(exec?.spec).toMatchObject({ argv: ['/bin/bash', '-l'], pty: { rows: 50, columns: 70 } });
    exec?.endStdin();
    expect((await ended).status).toBe(0);
    expect(modes).toEqual([true, false]);
  });
  it('tells a refusal in the words of the daemon', async () => {
    const stdin = Object.assign(new PassThrough(), { isTTY: true as const }) as unknown as Context['stdin'];
    expect(await sallyport(['shell', 'sb-9'], { stdin })).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('Cannot find sandbox sb-9'),
    });
  });
});

describe('cp', () => {
  const local = (...names: readonly string[]) => join(folder, ...names);
  const oddName = Buffer.from([0x6f, 0xff, 0x0a]);

  it('brings a folder in and out again, byte for byte, names too', async () => {
    mkdirSync(local('in', 'deep'), { recursive: true });
    writeFileSync(local('in', 'deep', 'data'), Buffer.alloc(300_000, 'abc'));
    writeFileSync(Buffer.concat([Buffer.from(`${local('in')}/`), oddName]), 'odd');
    writeFileSync(local('in', 'tool'), 'x');
    chmodSync(local('in', 'tool'), 0o755);
    symlinkSync('/etc/passwd', local('in', 'link'));
    const into = await sallyport(['cp', local('in'), 'sb-0:/work']);
    expect(into.stderr).toContain('not copied, symlink: ');
    expect(into.stderr).toContain('copied 3 files, 300004B');
    expect(sandbox.files.contents.get('/work/deep/data')).toHaveLength(300_000);
    expect(sandbox.files.contents.get('/work/o\xff\n')?.toString()).toBe('odd');

    const out = await sallyport(['cp', '--json', 'sb-0:/work/deep/data', local('copy')]);
    expect(JSON.parse(out.stdout)).toEqual({ files: 1, bytes: 300_000 });
    expect(readFileSync(local('copy')).equals(Buffer.alloc(300_000, 'abc'))).toBe(true);
  });
  it('puts a file into a folder that is there', async () => {
    sandbox.files.contents.set('/work/report.md', Buffer.from('# hi'));
    mkdirSync(local('out'));
    await sallyport(['cp', 'sb-0:/work/report.md', local('out')]);
    expect(readFileSync(local('out', 'report.md'), 'utf8')).toBe('# hi');
  });
  it('makes no file outside of the target, whatever the sandbox calls its files', async () => {
    sandbox.files.contents.set('/work/../evil', Buffer.from('x'));
    sandbox.files.contents.set('/work/good', Buffer.from('y'));
    vi.spyOn(sandbox.files, 'stat').mockImplementation(async (path) => ({ ...(await folderEntry()), path }));
    const { stderr } = await sallyport(['cp', 'sb-0:/work', local('target', 'deep')]);
    expect(stderr).toMatch(/Cannot write/); // its parent is not there: nothing is made on the way
    mkdirSync(local('target'));
    const { stderr: told } = await sallyport(['cp', 'sb-0:/work', local('target', 'deep')]);
    expect(told).toContain('not copied, unsafe path');
    expect(readdirSync(local('target'))).toEqual(['deep']);
    expect(readdirSync(local('target', 'deep'))).toEqual(['good']);
  });
  it('leaves no setuid bit and no half file', async () => {
    sandbox.files.contents.set('/tool', Buffer.from('x'));
    vi.spyOn(sandbox.files, 'stat').mockImplementation(async (path) => ({
      ...(await folderEntry()),
      path,
      kind: 'file',
      mode: 0o4755,
    }));
    await sallyport(['cp', 'sb-0:/tool', local('tool')]);
    expect(statSync(local('tool')).mode & 0o7777).toBe(0o755);
    expect(readdirSync(folder).filter((name) => name.includes('partial'))).toEqual([]);
  });
  it('says what is not there', async () => {
    expect((await sallyport(['cp', 'sb-0:/nope', local('x')])).stderr).toContain('Cannot copy /nope: no such file');
    expect((await sallyport(['cp', local('nope'), 'sb-0:/x'])).stderr).toContain('ENOENT');
  });

  async function folderEntry() {
    const owner = { uid: 1000, gid: 1000, links: 1, bytes: 0, allocatedBytes: 0, modifiedAt: '' };
    return { path: Buffer.from(''), kind: 'folder' as const, mode: 0o755, ...owner };
  }
});

describe('keys', () => {
  it('are made, listed and revoked without a daemon, and the daemon obeys', async () => {
    const key = (await sallyport(['key', 'create', 'ci'])).stdout.trim();
    expect((await sallyport(['ls'], { env: { ...env, SALLYPORT_API_KEY: key } })).status).toBe(0);
    const { id } = JSON.parse((await sallyport(['key', 'list', '--json'])).stdout).find(
      (each: { name: string }) => each.name === 'ci',
    );
    expect((await sallyport(['key', 'revoke', id])).status).toBe(0);
    expect((await sallyport(['ls'], { env: { ...env, SALLYPORT_API_KEY: key } })).stderr).toContain('revoked');
    expect((await sallyport(['key', 'revoke', id])).status).toBe(2);
  });
});

describe('the matrix', () => {
  it('is shown within 80 columns, from the file that comes along', async () => {
    const { status, stdout } = await sallyport(['matrix', 'show']);
    expect(status).toBe(0);
    expect(stdout).toContain('analysis');
    for (const line of stdout
      .split('\n')
      .filter((each) => !each.startsWith('policy ') && !each.startsWith('sha256 '))) {
      expect(line.length).toBeLessThanOrEqual(80);
    }
  });
  it('is refused when the file cannot be read', async () => {
    expect((await sallyport(['matrix', 'show', '--policy', '/nope'])).stderr).toContain('/nope');
  });
});

describe('completion', () => {
  it.each(['bash', 'zsh', 'fish'])('prints a script for %s', async (shell) => {
    expect((await sallyport(['completion', shell])).stdout).toContain('sallyport complete --');
  });
  it('gives commands, options, choices and sandboxes', async () => {
    const words = async (...line: string[]) =>
      (await sallyport(['complete', '--', ...line])).stdout.replaceAll(/\t.*/g, '');
    expect(await words('exe')).toBe('exec\n');
    expect(await words('key', 're')).toBe('revoke\n');
    expect(await words('run', '--tier', 'c')).toBe('container\n');
    expect(await words('kill', '')).toBe('sb-0\n');
    expect(await words('kill', '--url', 'http://127.0.0.1:1', '')).toBe('sb-0\n');
    await server.close(1);
    expect(await words('kill', '')).toBe('');
  });
});
