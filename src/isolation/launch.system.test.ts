/** native/launch for real: what it mounts is right, bounded, and seen by nobody else. Needs root. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { nativeFile } from '../linux/addon.ts';
import { makeUpper } from '../workspace/upper.ts';

const base = 1_879_048_192;
let folder: string;
let mountsBefore: string;
let loopsBefore: string[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-launch-'));
  for (const name of ['target', 'scratch', 'image', 'image/inputs', 'image/usr', 'skeleton', 'inputs'])
    mkdirSync(join(folder, name));
  writeFileSync(join(folder, 'image/file'), 'of the image\n');
  writeFileSync(join(folder, 'image/both'), 'image\n');
  writeFileSync(join(folder, 'skeleton/both'), 'skeleton\n');
  writeFileSync(join(folder, 'inputs/data'), 'input\n');
  mountsBefore = readFileSync('/proc/self/mountinfo', 'utf8');
  loopsBefore = loops();
});

afterEach(async () => {
  expect(readFileSync('/proc/self/mountinfo', 'utf8')).toBe(mountsBefore);
  await expect.poll(loops).toEqual(loopsBefore);
  rmSync(folder, { recursive: true });
});

function loops(): string[] {
  return readdirSync('/sys/block').filter(
    (name) => name.startsWith('loop') && existsSync(`/sys/block/${name}/loop/backing_file`),
  );
}

function launch(options: readonly string[], script: string): { status: number | null; stdout: string; stderr: string } {
  const paths = ['--target', join(folder, 'target'), '--scratch', join(folder, 'scratch'), '--map', `${base}:65536`];
  const lowers = ['--lower', join(folder, 'skeleton'), '--lower', join(folder, 'image')];
  const { status, stdout, stderr } = spawnSync(
    nativeFile('launch'),
    [...paths, ...lowers, ...options, '--', 'sh', '-c', `cd ${folder}/target; ${script}`],
    { encoding: 'utf8', timeout: 20_000 },
  );
  return { status, stdout, stderr };
}

const tmpfs = ['--upper-tmpfs', '1048576:64'];

describe('the launcher', () => {
  it('shows the layers, topmost first, owned by root of the sandbox', () => {
    const { stdout } = launch(tmpfs, 'cat both file; stat -c "%u %g" file . inputs');
    expect(stdout).toBe(`skeleton\nof the image\n${`${base} ${base}\n`.repeat(3)}`);
  });

  it('takes writes into the upper only', () => {
    expect(launch(tmpfs, 'echo changed > file && cat file').stdout).toBe('changed\n');
    expect(readFileSync(join(folder, 'image/file'), 'utf8')).toBe('of the image\n');
  });

  it.each(['tmpfs', 'ext4'] as const)('bounds bytes and inodes of a %s upper', async (kind) => {
    const plan = { bytes: 16 << 20, inodes: 100 };
    const file = join(folder, 'upper');
    if (kind === 'ext4') await makeUpper({ kind, file, ...plan }, base);
    const upper = kind === 'ext4' ? ['--upper-ext4', file] : ['--upper-tmpfs', `${plan.bytes}:${plan.inodes}`];
    const { stdout } = launch(
      upper,
      'head -c 10000000 /dev/zero > fits && echo fits; head -c 30000000 /dev/zero > big 2>/dev/null || echo full; rm big fits; for i in $(seq 200); do touch f$i || break; done 2>/dev/null; ls | grep -c ^f',
    );
    const [fits, full, files] = stdout.split('\n');
    expect([fits, full]).toEqual(['fits', 'full']);
    expect(Number(files)).toBeGreaterThan(50);
    expect(Number(files)).toBeLessThan(130);
    expect(existsSync(file)).toBe(false);
  });

  it('shows inputs and host folders read-only', () => {
    const { stdout, stderr } = launch(
      [...tmpfs, '--bind', `${folder}/inputs:inputs`, '--bind', '/usr:usr'],
      'cat inputs/data; test -x usr/bin/env && echo usr; echo x > inputs/data; touch usr/x',
    );
    expect(stdout).toBe('input\nusr\n');
    expect(stderr.match(/Read-only file system/g)).toHaveLength(2);
  });

  it('hides a mount from the runtime', () => {
    const count = mountsBefore.split('\n').filter((line) => line.includes(' /dev/shm ')).length;
    const { stdout } = launch([...tmpfs, '--drop-mount', '/dev/shm'], 'grep -c " /dev/shm " /proc/self/mountinfo');
    expect(Number(stdout)).toBe(count - 1);
  });

  it.each([
    ['arguments', ['--upper-tmpfs', '12x:1']],
    ['arguments', []],
    ['arguments', [...tmpfs, '--upper-ext4', '/none']],
    ['arguments', [...tmpfs, '--nonsense', 'x']],
    ['upper', ['--upper-ext4', '/none/such']],
    ['lower', [...tmpfs, '--lower', '/none/such']],
    ['bind', [...tmpfs, '--bind', '/none/such:inputs']],
    ['bind', [...tmpfs, '--bind', '/usr:../../etc']],
  ])('says which step failed: %s (%j)', (step, options) => {
    const { status, stderr } = launch(options, 'true');
    expect(status).toBe(125);
    expect(stderr.split('\n')).toHaveLength(2);
    expect(stderr).toMatch(new RegExp(`^launch: ${step}: `));
  });

  it('FS-04: does not follow a link of the image to where a bind goes', () => {
    rmSync(join(folder, 'image/inputs'), { recursive: true });
    spawnSync('ln', ['-s', '/etc', join(folder, 'image/inputs')]);
    const { status, stderr } = launch([...tmpfs, '--bind', `${folder}/inputs:inputs`], 'true');
    expect(status).toBe(125);
    expect(stderr).toMatch(/^launch: bind: inputs: /);
  });
});
