/**
 * Bad input and broken surroundings, for real: each gets an exit status, a sentence that names what is wrong, the next
 * step, no stack trace, and leaves nothing on the host.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  type CliOptions,
  cli,
  type Daemon,
  type Finished,
  footprint,
  makeHome,
  remains,
  removeHome,
  runProgram,
  startDaemon,
} from './daemon.ts';

let home: string;
/** A folder for the files of a test, and the working folder of its commands. */
let folder: string;

beforeAll(() => {
  home = makeHome();
  folder = mkdtempSync(join(tmpdir(), 'sallyport-bad-'));
});

beforeEach(() => rmSync(output(), { recursive: true, force: true }));

afterEach(() => expect(footprint(home)).toEqual([]));

afterAll(async () => {
  const left = await remains(home);
  removeHome(home);
  rmSync(folder, { recursive: true, force: true });
  if (left.length > 0) throw new Error(`O3: the host holds what was not there before: ${left.join('; ')}`);
});

const output = (): string => join(folder, 'out');

function run(words: readonly string[], options: Partial<CliOptions> = {}): Promise<Finished> {
  return cli(['run', '--class', 'analysis', '--output', output(), ...words], { home, cwd: folder, ...options });
}

/** What every refusal has in common. */
function expectRefusal(
  { status, signal, stdout, stderr }: Finished,
  expected: number,
  ...words: readonly (string | RegExp)[]
) {
  expect({ status, signal, stderr }).toEqual({ status: expected, signal: null, stderr: expect.any(String) });
  expect(stdout.toString()).toBe('');
  expect(stderr).toMatch(/^sallyport: \S/);
  for (const word of words) expect(stderr).toMatch(word);
  expect(stderr).not.toMatch(/^\s+at |node:internal|Error:/m);
  expect(stderr.length).toBeLessThan(4_096);
}

/** Of a run that was refused: not even its folder stays. */
function expectNoRun() {
  let runs: string[] = [];
  try {
    runs = readdirSync(output());
  } catch {
    // nothing was made at all
  }
  expect(runs).toEqual([]);
}

function file(name: string, content: string | Buffer): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

describe('a policy', () => {
  it.each([
    ['that is no YAML', 'classes: [unclosed', /line 1, column 19/],
    ['that is empty', '', /policy/i],
    ['with a column that nobody knows', 'version: 1\nclasses: { a: { isolated: true } }\n', /classes\.a|isolat/],
    ['of another version', 'version: 2\nclasses: {}\n', /version/],
    ['with aliases that would grow without end', `a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n`, /policy|alias|anchor/i],
    ['that is binary', Buffer.from([0, 0xff, 0xfe, 1, 2, 3]), /policy/i],
  ])('%s is refused', async (_name, content, words) => {
    const policy = file('policy.yaml', content);
    expectRefusal(await run(['--policy', policy, '--', 'true']), 124, words, 'policy.yaml', /next: \S/);
    expectNoRun();
  });

  it('that is not there, or a folder, is refused', async () => {
    const absent = join(folder, 'absent.yaml');
    expectRefusal(await run(['--policy', absent, '--', 'true']), 124, 'absent.yaml', /next: .*--policy/);
    expectRefusal(await run(['--policy', folder, '--', 'true']), 124, folder, /next: .*--policy/);
  });

  it('that is bad keeps a daemon from starting', async () => {
    const policy = file('policy.yaml', 'classes: [');
    const ran = await cli(['up', '--port', '0', '--log-level', 'error', '--policy', policy], { home });
    expectRefusal(ran, 1, 'policy.yaml', /next: \S/);
    expect(readdirSync(home)).not.toContain('daemon-url');
  });
});

describe('an input', () => {
  it('that is not there is refused', async () => {
    expectRefusal(await run(['--input', 'absent.csv', '--', 'true']), 2, 'absent.csv', /next: .*--input/);
    expectNoRun();
  });

  it('that is a FIFO is refused, not waited for', async () => {
    await runProgram('mkfifo', [join(folder, 'pipe')], { home });
    expectRefusal(await run(['--input', 'pipe', '--', 'true']), 2, /pipe.*fifo/i, /next: \S/);
    expectNoRun();
  });

  it.each([
    ['a device', '/dev/zero'],
    ['a folder with a socket or device in it', '/dev'],
  ])('that is %s is refused', async (_name, path) => {
    expectRefusal(await run(['--input', path, '--', 'true']), 2, /input (zero|dev\/\S+): /, /next: \S/);
    expectNoRun();
  });

  it('keeps a name with a newline or bytes that are no UTF-8', async () => {
    const tree = join(folder, 'tree');
    mkdirSync(tree);
    writeFileSync(join(tree, 'new\nline'), 'one');
    writeFileSync(Buffer.concat([Buffer.from(`${tree}/`), Buffer.from([0x62, 0xff])]), 'two');
    const code = 'import os\nfor n in sorted(os.listdir(b"/inputs/tree")): print(n, open(b"/inputs/tree/"+n).read())';
    const ran = await run(['--quiet', '--input', tree, '--', 'python3', '-c', code]);
    expect([ran.status, ran.stdout.toString()]).toEqual([0, "b'b\\xff' two\nb'new\\nline' one\n"]);
  });
});

describe('a command line', () => {
  it.each([
    ['an unknown option', ['run', '--class', 'analysis', '--privileged', '--', 'true'], /unknown option.*--privileged/],
    ['an unknown command', ['rnu'], /unknown command.*rnu/],
    ['no class', ['run', '--', 'true'], /--class.*matrix show/],
    ['no command', ['run', '--class', 'analysis'], /missing.*command/],
    ['a size that is none', ['run', '--class', 'analysis', '--memory', 'lots', '--', 'true'], /--memory.*lots/],
    ['a tier that is none', ['run', '--class', 'analysis', '--tier', 'vm', '--', 'true'], /vm.*process.*container/i],
    ['a port that is none', ['up', '--port', '99999'], /--port.*99999/],
  ])('with %s is refused with 2', async (_name, words, message) => {
    expectRefusal(await cli(words, { home, cwd: folder }), 2, message);
  });

  it('with an unknown class is denied', async () => {
    const ran = await cli(['run', '--class', 'nonsense', '--output', output(), '--', 'true'], { home, cwd: folder });
    expectRefusal(ran, 123, 'nonsense', /next: .*matrix show/);
    expectNoRun();
  });

  it('with an environment variable that the class does not list is denied', async () => {
    expectRefusal(await run(['--env', 'LD_PRELOAD=/x', '--', 'true']), 123, 'LD_PRELOAD', /next: \S/);
    expectNoRun();
  });

  it.each(['/etc/*', '../*', 'a/../../b'])(
    'with the artifact pattern %s is refused before the work',
    async (pattern) => {
      const ran = await run(['--artifact', pattern, '--', 'true']);
      expectRefusal(ran, 123, pattern, /next: \S/);
      expectNoRun();
    },
  );

  it('without a daemon to call says how to start one', async () => {
    writeFileSync(join(home, 'api-key'), 'sp_any\n');
    const ran = await cli(['ls', '--url', 'http://127.0.0.1:9'], { home });
    rmSync(join(home, 'api-key'));
    expectRefusal(ran, 1, '127.0.0.1:9', /next: .*sallyport up/);
    expectRefusal(await cli(['ls'], { home }), 1, /key/i, /next: \S/);
  });
});

describe('an output folder', () => {
  it('that is a file is refused', async () => {
    const taken = file('taken', '');
    expectRefusal(await run(['--output', taken, '--', 'true']), 2, 'taken', /next: .*--output/);
  });
  it('that cannot be written to is refused', async () => {
    expectRefusal(await run(['--output', '/sys/none', '--', 'true']), 2, '/sys/none', /next: .*--output/);
  });
});

describe('a huge command', () => {
  let own: string;
  let daemon: Daemon;
  let id: string;
  beforeAll(async () => {
    own = makeHome();
    daemon = await startDaemon(own);
    id = await daemon.api.create();
  });
  afterAll(async () => {
    await daemon.stop();
    expect(await remains(own)).toEqual([]);
    removeHome(own);
  });

  const exec = async (json: object) => {
    const { status, body } = await daemon.api.call('POST', `/v1/sandboxes/${id}/exec`, { json });
    return {
      status,
      answer: JSON.parse(body.toString()) as { code?: string; message?: string; stdout?: { text?: string } },
    };
  };
  const words = (bytes: number): string[] =>
    Array.from({ length: Math.ceil(bytes / 100_000) }, () => 'x'.repeat(100_000));

  it('of just under 1 MiB runs', async () => {
    const { answer } = await exec({ argv: ['sh', '-c', 'echo $#', 'sh', ...words(1_000_000)] });
    expect(answer.stdout?.text).toBe('10\n');
  });

  it.each([
    ['2 MB of arguments', { argv: ['true', ...words(2_000_000)] }],
    ['one argument of 200 kB', { argv: ['true', 'x'.repeat(200_000)] }],
    [
      '100 000 variables',
      { argv: ['true'], env: Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`APP_${i}`, 'v'])) },
    ],
  ])('with %s is refused by the API', async (_name, json) => {
    const { status, answer } = await exec(json);
    expect([status, answer.code]).toEqual([400, 'argv_too_large']);
    expect(answer.message?.length).toBeLessThan(1_000);
    expect((await exec({ argv: ['echo', 'still'] })).answer.stdout?.text).toBe('still\n');
  });

  it('in a body beyond its bound is refused by the API, before it is read', async () => {
    const headers = { 'content-type': 'application/json', 'content-length': 10_000_000 };
    const { status, body } = await daemon.api.call('POST', `/v1/sandboxes/${id}/exec`, { headers, body: '{' });
    expect([status, JSON.parse(body.toString())]).toMatchObject([413, { code: 'body_too_large' }]);
  });

  it('with 100 000 variables is refused by the API at the creation too', async () => {
    const env = Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`APP_${i}`, 'v']));
    const { status, body } = await daemon.api.call('POST', '/v1/sandboxes', { json: { class: 'coding', env } });
    expect(status).toBeGreaterThanOrEqual(400);
    expect(status).toBeLessThan(500);
    expect(JSON.parse(body.toString())).toMatchObject({
      code: expect.stringMatching(/body_too_large|argv_too_large|invalid_request/),
    });
  });
});

describe('a huge command line', () => {
  it('of 1 MB runs', async () => {
    const words = Array.from({ length: 10 }, () => 'x'.repeat(100_000));
    const ran = await run(['--quiet', '--', 'sh', '-c', 'echo $#', 'sh', ...words]);
    expect([ran.status, ran.stdout.toString()]).toEqual([0, '10\n']);
  });
  it('beyond 1 MiB is denied', async () => {
    const words = Array.from({ length: 15 }, () => 'x'.repeat(100_000));
    const ran = await run(['--', 'true', ...words]);
    expect([ran.status, ran.stdout.toString()]).toEqual([123, '']);
    expect(ran.stderr).toMatch(/argv_too_large|arguments/);
    expect(ran.stderr.length).toBeLessThan(4_096);
  });
  it('of 20 000 variables is denied', async () => {
    const words = Array.from({ length: 20_000 }, (_, i) => ['--env', `APP_${i}=${'v'.repeat(40)}`]).flat();
    const ran = await run([...words, '--', 'true']);
    expect([ran.status, ran.stdout.toString()]).toEqual([123, '']);
    expect(ran.stderr.length).toBeLessThan(4_096);
  });
});

describe('a host', () => {
  it('without crun is told to install it', async () => {
    const bin = join(folder, 'bin');
    mkdirSync(bin);
    for (const name of ['sh', 'env']) symlinkSync(`/usr/bin/${name}`, join(bin, name));
    const ran = await run(['--', 'true'], { env: { PATH: bin } });
    expectRefusal(ran, 124, 'crun', /next: .*install crun/i);
    expectNoRun();
  });

  it('where the caller is not root is told so', async () => {
    const open = mkdtempSync(join(tmpdir(), 'sallyport-bad-nobody-'));
    await runProgram('chmod', ['0777', open], { home });
    const wrapper = ['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups'];
    const words = ['run', '--class', 'analysis', '--output', join(open, 'out'), '--', 'true'];
    const ran = await cli(words, { home: join(open, 'home'), cwd: '/', wrapper });
    expectRefusal(ran, 124, /root/, /next: .*root/);
    rmSync(open, { recursive: true, force: true });
  });

  it('without the image is told to build it', async () => {
    const bare = makeHome('none');
    const ran = await run(['--', 'true'], { home: bare });
    expectRefusal(ran, 124, 'base', /next: .*image build base/);
    expect(footprint(bare)).toEqual([]);
    removeHome(bare);
    expectNoRun();
  });

  it('with a damaged index of images is told so', async () => {
    const bare = makeHome('none');
    mkdirSync(join(bare, 'images'));
    writeFileSync(join(bare, 'images', 'index.json'), '{"half":');
    expectRefusal(await run(['--', 'true'], { home: bare }), 124, /index/, /next: \S/);
    removeHome(bare);
  });

  // the tmpfs is mounted in a mount namespace of its own: this host never sees it
  it.each([
    ['home', '0', 124],
    ['output folder', '1', 124],
  ])('whose disk is full under the %s is told so', async (_name, isOutput, status) => {
    const script = [
      'set -eu',
      'mount -t tmpfs -o size=1m,mode=0700 none "$FULL"',
      'if [ "$OUT" = 0 ]; then ln -s "$IMAGES/images" "$FULL/images"; ln -s "$IMAGES/skeleton" "$FULL/skeleton"; fi',
      'dd if=/dev/zero of="$FULL/filler" bs=4k status=none 2>/dev/null || true',
      'exec "$@"',
    ].join('\n');
    const full = mkdtempSync(join(tmpdir(), 'sallyport-bad-full-'));
    const env = { FULL: full, OUT: isOutput, IMAGES: home };
    const wrapper = ['unshare', '-m', '--propagation', 'private', 'sh', '-c', script, 'sh'];
    const where = isOutput === '1' ? ['--output', join(full, 'out')] : ['--home', full];
    const ran = await run([...where, '--', 'true'], { env, wrapper });
    expect([ran.status, ran.stderr]).toEqual([status, expect.stringMatching(/no space|ENOSPC|full/i)]);
    expect(ran.stderr).toMatch(/next: .*space/i);
    expect(ran.stderr).not.toMatch(/^\s+at /m);
    expect(readdirSync(full)).toEqual([]);
    rmSync(full, { recursive: true });
    expect(footprint(full)).toEqual([]);
    expect(readFileSync('/proc/self/mountinfo', 'utf8')).not.toContain(full);
  });
});
