/** The command line end to end: real processes of `bin/sallyport.js`, a real daemon, real sandboxes. */
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  cli,
  type Daemon,
  type Finished,
  footprint,
  makeHome,
  program,
  remains,
  removeHome,
  root,
  runProgram,
  startDaemon,
} from './daemon.ts';

let home: string;
let daemon: Daemon;
/** A folder for the files of a test. */
let folder: string;

beforeAll(async () => {
  home = makeHome();
  folder = join(home, 'work');
  mkdirSync(folder);
  daemon = await startDaemon(home);
});

afterAll(async () => {
  await daemon.stop();
  const left = await remains(home);
  removeHome(home);
  if (left.length > 0) throw new Error(`O3: the host holds what was not there before: ${left.join('; ')}`);
});

const sallyport = (...words: readonly string[]): Promise<Finished> => cli(words, { home });

async function withSandbox<T>(body: (id: string) => Promise<T>): Promise<T> {
  const created = await sallyport('create', '--class', 'coding');
  const id = created.stdout.toString().trimEnd();
  expect([created.status, created.stderr]).toEqual([0, '']);
  expect(id).toMatch(/^sb-[0-9a-f]{20}$/);
  try {
    return await body(id);
  } finally {
    await sallyport('kill', id);
  }
}

describe('exec', () => {
  it('passes output, input and exit status through', () =>
    withSandbox(async (id) => {
      const script = 'cat; echo err >&2; exit 42';
      const ran = await cli(['exec', '-i', id, '--', 'sh', '-c', script], { home, stdin: Buffer.from([0, 255, 10]) });
      expect(ran).toEqual({ status: 42, signal: null, stdout: Buffer.from([0, 255, 10]), stderr: 'err\n' });
    }));

  it.each([
    ['a signal', ['sh', '-c', 'kill -TERM $$'], 143, ''],
    ['a program that is not there', ['no-such-program'], 127, 'no-such-program'],
    ['a file that is no program', ['/etc/passwd'], 126, '/etc/passwd'],
  ])('tells the shell about %s', (_name, command, status, word) =>
    withSandbox(async (id) => {
      const ran = await sallyport('exec', id, '--', ...command);
      expect(ran.status).toBe(status);
      expect(ran.stderr).toContain(word);
    }),
  );

  it('ends with 122 and a sentence when a limit struck', () =>
    withSandbox(async (id) => {
      const ran = await sallyport('exec', '--timeout', '300ms', id, '--', 'sleep', '30');
      expect([ran.status, ran.stderr]).toEqual([122, expect.stringMatching(/^sallyport: .*ran longer than 300ms/)]);
    }));

  it('passes 20 MB of random bytes', () =>
    withSandbox(async (id) => {
      const code =
        'import os,sys,hashlib\nb=os.urandom(20000000)\nsys.stdout.buffer.write(b)\nsys.stderr.write(hashlib.sha256(b).hexdigest())';
      const ran = await sallyport('exec', id, 'python3', '-c', code);
      expect(ran.stdout).toHaveLength(20_000_000);
      expect(createHash('sha256').update(ran.stdout).digest('hex')).toBe(ran.stderr);
    }));
});

describe('ls, info, logs and kill', () => {
  it('show the same in a table and as JSON', () =>
    withSandbox(async (id) => {
      await sallyport('exec', id, '--', 'sh', '-c', 'echo out; echo err >&2');
      const table = (await sallyport('ls')).stdout.toString();
      expect(table).toMatch(/^ID +CLASS +TIER +STATE +CREATED\n/);
      expect(table).toMatch(new RegExp(`^${id} +coding +container +running +`, 'm'));
      const list = JSON.parse((await sallyport('ls', '--json')).stdout.toString()) as { readonly id: string }[];
      expect(list).toContainEqual(expect.objectContaining({ id, state: 'running', class: 'coding' }));

      expect((await sallyport('info', id)).stdout.toString()).toMatch(/^state +running$/m);
      const info = JSON.parse((await sallyport('info', '--json', id)).stdout.toString()) as object;
      expect(info).toMatchObject({ id, usage: { oomKills: 0 }, grantDigest: expect.stringMatching(/^[0-9a-f]{64}$/) });

      expect(await sallyport('logs', id)).toMatchObject({ stdout: Buffer.from('out\n'), stderr: 'err\n' });
      const log = JSON.parse((await sallyport('logs', '--json', id)).stdout.toString()) as object;
      expect(log).toEqual({
        chunks: [
          { channel: 'stdout', base64: 'b3V0Cg==' },
          { channel: 'stderr', base64: 'ZXJyCg==' },
        ],
        omittedBytes: 0,
      });

      const killed = await sallyport('kill', id);
      expect([killed.status, killed.stdout.toString()]).toEqual([0, `${id}\n`]);
      expect(footprint(home)).toEqual([]);
      expect((await sallyport('ls')).stdout.toString()).not.toContain(id);
      expect((await sallyport('ls', '--all')).stdout.toString()).toMatch(new RegExp(`^${id} .* killed `, 'm'));
      const again = await sallyport('kill', id);
      expect([again.status, again.stderr]).toEqual([1, expect.stringMatching(/has ended.*\nnext: /)]);
    }));
});

describe('cp', () => {
  it('takes a folder in and out again, whatever its names are', () =>
    withSandbox(async (id) => {
      const source = join(folder, 'tree');
      mkdirSync(join(source, 'deep', 'empty'), { recursive: true });
      const names = [Buffer.from('plain'), Buffer.from('new\nline'), Buffer.from([0x62, 0xff]), Buffer.from('-dash')];
      const paths = names.map((name) => Buffer.concat([Buffer.from(`${source}/deep/`), name]));
      for (const path of paths) writeFileSync(path, `content of ${path.toString('hex')}`);
      const target = join(folder, 'back');
      const sent = await sallyport('cp', source, `${id}:`);
      expect([sent.status, sent.stderr]).toEqual([0, expect.stringMatching(/^copied 4 files, /)]);
      const fetched = await sallyport('cp', '--json', `${id}:tree`, target);
      expect([fetched.status, JSON.parse(fetched.stdout.toString())]).toMatchObject([0, { files: 4 }]);
      expect(readdirSync(join(target, 'deep'), 'buffer').map(String).sort()).toEqual(
        [...names.map(String), 'empty'].sort(),
      );
      for (const [index, name] of names.entries()) {
        const copy = Buffer.concat([Buffer.from(`${target}/deep/`), name]);
        expect(readFileSync(copy)).toEqual(readFileSync(paths[index] ?? ''));
      }
      expect(statSync(join(target, 'deep', 'empty')).isDirectory()).toBe(true);
    }));

  it('names what is not there, and makes nothing', () =>
    withSandbox(async (id) => {
      const out = await sallyport('cp', `${id}:nothing`, join(folder, 'nothing'));
      expect([out.status, out.stderr]).toEqual([1, expect.stringMatching(/nothing.*\nnext: /)]);
      const into = await sallyport('cp', join(folder, 'nothing'), `${id}:`);
      expect([into.status, into.stderr]).toEqual([1, expect.stringMatching(/nothing.*\nnext: /)]);
      expect(() => statSync(join(folder, 'nothing'))).toThrow('ENOENT');
    }));
});

describe('run', () => {
  interface Manifest {
    readonly artifacts: readonly { readonly path: string; readonly bytes: number; readonly sha256: string }[];
    readonly skipped: readonly { readonly path: string; readonly reason: string }[];
  }

  it('shows inputs, keeps artifacts with true hashes, writes the record, leaves nothing', async () => {
    const input = join(folder, 'in.txt');
    const output = join(folder, 'out');
    writeFileSync(input, 'hello');
    const script = 'mkdir out; tr a-z A-Z < /inputs/in.txt > out/upper; ln -s /etc/passwd out/link; echo done; exit 3';
    const ran = await sallyport(
      ...['run', '--class', 'analysis', '--input', input, '--artifact', 'out/*', '--output', output],
      ...['--', 'sh', '-c', script],
    );
    expect([ran.status, ran.stdout.toString()]).toEqual([3, 'done\n']);
    expect(ran.stderr).toMatch(/exited with 3[\s\S]*artifacts: 1 file[\s\S]*left behind, symlink: out\/link/);
    const [runId = ''] = readdirSync(output);
    const read = (name: string) => readFileSync(join(output, runId, name));
    const manifest = JSON.parse(read('manifest.json').toString()) as Manifest;
    expect(read('out/upper').toString()).toBe('HELLO');
    const sha256 = createHash('sha256').update('HELLO').digest('hex');
    expect(manifest.artifacts).toMatchObject([{ path: 'out/upper', bytes: 5, sha256 }]);
    expect(manifest.skipped).toEqual([{ path: 'out/link', reason: 'symlink' }]);
    expect(JSON.parse(read('record.json').toString())).toMatchObject({
      runId,
      outcome: 'exited',
      exec: { exitCode: 3 },
      artifacts: manifest,
    });
    expect(footprint(home)).toEqual([]);
    const runs = await sallyport('ls', '--runs');
    expect(runs.stdout.toString()).toContain(runId);
  });

  it('ends with 122 when a limit struck, 123 when it is denied', async () => {
    const output = join(folder, 'limits');
    const base = ['run', '--class', 'analysis', '--output', output];
    const late = await sallyport(...base, '--timeout', '300ms', '--', 'sleep', '30');
    expect([late.status, late.stderr]).toEqual([122, expect.stringContaining('limit time')]);
    const wide = await sallyport(...base, '--memory', '64GiB', '--', 'true');
    expect([wide.status, wide.stderr]).toEqual([123, expect.stringMatching(/memory[\s\S]*\nnext: /i)]);
  });

  it('with --json prints the record and nothing else on stdout', async () => {
    const ran = await sallyport('run', '--class', 'analysis', '--json', '--output', folder, '--', 'echo', 'said');
    expect(JSON.parse(ran.stdout.toString())).toMatchObject({ outcome: 'exited', command: ['echo', 'said'] });
    expect(ran.stderr).toBe('said\n');
  });

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ])('that gets %s ends its sandbox and itself with %i', async (signal, status) => {
    const script = `"$@" & pid=$!; until grep -q ready out.log; do sleep 0.05; done; kill -${signal} $pid; wait $pid`;
    const command = [process.execPath, program, 'run', '--class', 'analysis', '--output', folder];
    const line = [...command, '--', 'sh', '-c', 'echo ready; sleep 60'];
    // an asynchronous command of a shell without job control ignores SIGINT, hence -m
    const log = join(folder, 'out.log');
    writeFileSync(log, '');
    const ran = await runProgram('bash', ['--norc', '-mc', `cd ${folder}; exec >out.log; ${script}`, 'bash', ...line], {
      home,
    });
    expect(ran.status).toBe(status);
    rmSync(log);
    expect(await remains(home)).toEqual([]);
  });
});

describe('shell', () => {
  /** Types lines into a terminal, waits for each answer, and tells the exit status and whether the terminal is as it was. */
  const onTerminal = `
import os, pty, select, sys, termios, json
steps = json.loads(sys.argv[1]); command = sys.argv[2:]
parent, child = pty.openpty()
before = termios.tcgetattr(child)
pid = os.fork()
if pid == 0:
    os.setsid()
    import fcntl
    fcntl.ioctl(child, termios.TIOCSCTTY, 0)
    for fd in (0, 1, 2): os.dup2(child, fd)
    os.execvp(command[0], command)
seen = b''
for typed, answer in steps:
    os.write(parent, typed.encode())
    mark = len(seen)
    while answer.encode() not in seen[mark:]:
        if not select.select([parent], [], [], 15)[0]: sys.exit('no %r in %r' % (answer, seen))
        seen += os.read(parent, 65536)
_, status = os.waitpid(pid, 0)
print(json.dumps({'status': os.waitstatus_to_exitcode(status), 'restored': termios.tcgetattr(child) == before}))
`;

  it('echoes, knows its size, passes the exit status on and gives the terminal back', () =>
    withSandbox(async (id) => {
      const steps = [
        ['', '$ '],
        ['echo $((6*7))\r', '42\r'],
        ['stty size\r', '24 80'],
        ['exit 5\r', 'exit'],
      ];
      const line = [process.execPath, program, 'shell', id];
      const ran = await runProgram('python3', ['-c', onTerminal, JSON.stringify(steps), ...line], { home });
      expect(ran.stderr).toBe('');
      expect(JSON.parse(ran.stdout.toString())).toEqual({ status: 5, restored: true });
    }));

  it('passes Ctrl-C to what runs inside, not to itself', () =>
    withSandbox(async (id) => {
      const steps = [
        ['', '$ '],
        ['cat\r', 'cat\r'],
        ['hello\r', '\nhello\r'],
        ['\u0003', '$ '],
        ['exit 0\r', 'exit'],
      ];
      const line = [process.execPath, program, 'shell', id];
      const ran = await runProgram('python3', ['-c', onTerminal, JSON.stringify(steps), ...line], { home });
      expect(JSON.parse(ran.stdout.toString() || ran.stderr)).toEqual({ status: 0, restored: true });
    }));

  it('refuses what is no terminal', async () => {
    const ran = await sallyport('shell', 'sb-any');
    expect([ran.status, ran.stderr]).toEqual([2, expect.stringContaining('needs a terminal')]);
  });
});

describe('help for people', () => {
  it('completes commands and running sandboxes in bash', () =>
    withSandbox(async (id) => {
      const script = [
        'set -eu',
        'sallyport() { node bin/sallyport.js "$@"; }',
        'source <(sallyport completion bash)',
        'complete -p sallyport',
      ].join('\n');
      const sourced = await runProgram('bash', ['--norc', '-c', script], { home, cwd: root });
      expect([sourced.status, sourced.stderr]).toEqual([0, '']);
      expect(sourced.stdout.toString()).toContain('sallyport');
      expect((await sallyport('complete', '--', 'ex')).stdout.toString()).toMatch(/^exec\t/);
      expect((await sallyport('complete', '--', 'exec', 'sb-')).stdout.toString()).toContain(id);
    }));

  it('doctor starts a sandbox in both tiers', async () => {
    const ran = await sallyport('doctor', '--json');
    const findings = JSON.parse(ran.stdout.toString()) as { readonly check: string; readonly status: string }[];
    const statusOf = (name: string) => findings.find(({ check }) => check === name)?.status;
    expect([statusOf('tier process'), statusOf('tier container'), statusOf('images')]).toEqual(['ok', 'ok', 'ok']);
    expect(ran.status).toBe(0);
    expect(footprint(home)).toEqual([]);
  });
});
