/**
 * What native/launch promises to any caller, on a real kernel: exact bounds, owners, attributes, a clean start for the
 * program, and nothing left behind. How the driver uses it is tested in `isolation`. Needs root.
 */
import { spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { nativeFile } from './addon.ts';

const base = 1_879_048_192;
const tmpfs = ['--upper-tmpfs', '1048576:64'];
let folder: string;
let mountsBefore: string;
let loopsBefore: string[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-launcher-'));
  chmodSync(folder, 0o755);
  for (const name of ['target', 'scratch', 'lower', 'input']) mkdirSync(join(folder, name));
  writeFileSync(join(folder, 'lower/file'), 'lower\n');
  writeFileSync(join(folder, 'input/file'), 'input\n');
  mountsBefore = mounts();
  loopsBefore = loops();
});

afterEach(async () => {
  expect(mounts()).toBe(mountsBefore);
  // the kernel clears a loop device when the last mount of it is really gone
  await expect.poll(loops).toEqual(loopsBefore);
  rmSync(folder, { recursive: true });
});

const mounts = (): string => readFileSync('/proc/self/mountinfo', 'utf8');

/** Loop devices over a file of ours. */
function loops(): string[] {
  return readdirSync('/sys/block').filter((name) => backingFile(name).startsWith(folder));
}

function backingFile(device: string): string {
  const file = `/sys/block/${device}/loop/backing_file`;
  return device.startsWith('loop') && existsSync(file) ? readFileSync(file, 'utf8') : '';
}

function makeImage(file: string, bytes: number): void {
  writeFileSync(file, '');
  truncateSync(file, bytes);
  const { status, stderr } = spawnSync('sh', ['-c', `mkfs.ext4 -q -F ${file}`], { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
}

interface Outcome {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const paths = (): string[] => ['--target', join(folder, 'target'), '--scratch', join(folder, 'scratch')];
const usual = (): string[] => [...paths(), '--map', `${base}:65536`, '--lower', join(folder, 'lower')];

/** The launcher with a shell script in place of the runtime, which starts in the target. */
function launch(options: readonly string[], script = 'true'): Outcome {
  const command = ['sh', '-c', `cd ${folder}/target; ${script}`];
  return run([...usual(), ...options, '--', ...command]);
}

function run(words: readonly string[]): Outcome {
  const { status, stdout, stderr } = spawnSync(nativeFile('launch'), words, { encoding: 'utf8', timeout: 20_000 });
  return { status, stdout, stderr };
}

describe('the upper', () => {
  it('a tmpfs holds exactly its bytes', () => {
    const { stdout, stderr } = launch(tmpfs, 'head -c 1048576 /dev/zero > a && echo fits; printf x > b || echo full');
    expect(stdout).toBe('fits\nfull\n');
    expect(stderr).toContain('I/O error');
  });

  it.each([1, 64, 200])('a tmpfs holds exactly its %i inodes, whatever the launcher and the overlay need', (inodes) => {
    const second = join(folder, 'second');
    mkdirSync(second);
    const script = 'i=0; while touch new$i 2>/dev/null; do i=$((i+1)); done; ls | grep -c new';
    expect(launch(['--lower', second, '--upper-tmpfs', `1048576:${inodes}`], script).stdout).toBe(`${inodes}\n`);
  });

  it('an ext4 image is mounted without devices, loses its name at once and its loop device at the end', () => {
    const image = join(folder, 'upper.ext4');
    makeImage(image, 16 << 20);
    const { stdout, stderr } = launch(
      ['--upper-ext4', image],
      `ls ${image} 2>/dev/null; echo new > file; cat file; grep " ${folder}/scratch " /proc/self/mountinfo`,
    );
    expect(stderr).toBe('');
    expect(stdout).toMatch(/^new\n.* rw,nodev,noatime .*- ext4 \/dev\/loop/);
    expect(existsSync(image)).toBe(false);
  });

  it('an image that is no filesystem is refused and keeps its name', () => {
    const image = join(folder, 'noise');
    writeFileSync(image, Buffer.alloc(1 << 20, 7));
    const { status, stderr } = launch(['--upper-ext4', image]);
    expect([status, stderr]).toEqual([125, `launch: upper: ${image}: Invalid argument\n`]);
    expect(existsSync(image)).toBe(true);
  });

  it('many at once get a loop device each', async () => {
    const places = Array.from({ length: 8 }, (_, index) => join(folder, `many${index}`));
    const ends = places.map((place) => {
      for (const name of ['', 'target', 'scratch']) mkdirSync(join(place, name));
      const image = join(place, 'image');
      makeImage(image, 4 << 20);
      const own = ['--target', join(place, 'target'), '--scratch', join(place, 'scratch'), '--upper-ext4', image];
      const words = [...own, '--map', `${base}:65536`, '--lower', join(folder, 'lower'), '--', 'true'];
      return new Promise((resolve) => spawn(nativeFile('launch'), words, { stdio: 'inherit' }).once('exit', resolve));
    });
    expect(await Promise.all(ends)).toEqual(places.map(() => 0));
  });
});

describe('owners', () => {
  it("what root owns is root's inside, what it makes is root's too, and the image stays as it is", () => {
    chownSync(join(folder, 'lower/file'), 1000, 1000);
    const { stdout } = launch(tmpfs, 'stat -c "%u" file .; rm file; ls');
    expect(stdout).toBe(`${base + 1000}\n${base}\n`);
    expect(statSync(join(folder, 'lower/file')).uid).toBe(1000);
    expect(readFileSync(join(folder, 'lower/file'), 'utf8')).toBe('lower\n');
  });

  it('inside a user namespace with the same map they are 0, and root there may write', () => {
    const inside = `
      unshare --user sleep 20 & holder=$!
      until [ "$(readlink /proc/$holder/ns/user)" != "$(readlink /proc/$$/ns/user)" ]; do sleep 0.01; done
      for kind in uid gid; do echo 0 ${base} 65536 > /proc/$holder/\${kind}_map; done
      nsenter --user -t $holder -S 0 -G 0 sh -c 'stat -c %u:%g file .; echo x > made; stat -c %u:%g made'
      kill $holder`;
    const { stdout, stderr } = launch(tmpfs, inside);
    expect([stdout, stderr]).toEqual(['0:0\n0:0\n0:0\n', '']);
  });

  it("the root folder's mode does not depend on the caller's mask", () => {
    const before = process.umask(0o077);
    try {
      expect(launch(tmpfs, 'stat -c %a .; umask').stdout).toBe('755\n0022\n');
    } finally {
      process.umask(before);
    }
  });
});

describe('mounts', () => {
  const attributes = (name: string): string =>
    `grep " ${folder}/target${name} " /proc/self/mountinfo | cut -d " " -f 6 | tr -d "\\n"`;

  it('a bind is read-only, without devices and setuid, and idmapped', () => {
    const { stdout } = launch([...tmpfs, '--bind', `${folder}/input:in`], `cat in/file; ${attributes('/in')}`);
    expect(stdout).toBe('input\nro,nosuid,nodev,relatime,idmapped');
  });

  it('a bind makes its folder on the upper, as root inside, and nothing in the image', () => {
    const { stdout } = launch([...tmpfs, '--bind', `${folder}/input:a/b/c`], 'stat -c "%u %a" a a/b; ls a/b/c');
    expect(stdout).toBe(`${base} 755\n${base} 755\nfile\n`);
    expect(readdirSync(join(folder, 'lower'))).toEqual(['file']);
  });

  it('the overlay has no devices, and no setuid when that is asked for', () => {
    expect(launch(tmpfs, attributes('')).stdout).toBe('rw,nodev,noatime');
    expect(launch([...tmpfs, '--nosuid'], attributes('')).stdout).toBe('rw,nosuid,nodev,noatime');
  });

  it('a filesystem that cannot be idmapped is refused, not shown as it is', () => {
    const { status, stderr } = launch([...tmpfs, '--bind', '/proc/self:in']);
    expect([status, stderr]).toEqual([125, 'launch: bind: /proc/self: Invalid argument\n']);
  });

  it('none is seen outside while it runs', async () => {
    const words = [...usual(), ...tmpfs, '--', 'sh', '-c', 'echo ready; read -r line'];
    const child = spawn(nativeFile('launch'), words, { stdio: ['pipe', 'pipe', 'inherit'] });
    await new Promise((resolve) => child.stdout.once('data', resolve));
    expect(mounts()).toBe(mountsBefore);
    expect(readFileSync(`/proc/${child.pid}/mountinfo`, 'utf8')).toContain(`${folder}/target`);
    child.kill('SIGKILL');
    await new Promise((resolve) => child.once('exit', resolve));
  });

  it('FS-04: a link, an absolute path and ".." lead nowhere', () => {
    symlinkSync('/etc', join(folder, 'lower/link'));
    const refusal = (target: string): string => launch([...tmpfs, '--bind', `${folder}/input:${target}`]).stderr;
    expect(refusal('link')).toBe('launch: bind: link: Too many levels of symbolic links\n');
    expect(refusal('link/new')).toMatch(/^launch: bind: link\/new: Too many levels/);
    expect(refusal('../up')).toBe('launch: bind: ../up: Invalid cross-device link\n');
    expect(refusal('a/../../up')).toMatch(/^launch: bind: a\/..\/..\/up: /);
    expect(refusal('/abs')).toMatch(/^launch: arguments: --bind: /);
    expect(refusal('file')).toBe('launch: bind: file: Not a directory\n');
  });
});

describe('the program', () => {
  it('gets no signal ignored or blocked, whatever its caller had', () => {
    const script = `trap '' INT PIPE USR1; exec "$@"`;
    const words = [...usual(), ...tmpfs, '--', 'grep', '-E', '^Sig(Blk|Ign)', '/proc/self/status'];
    const { stdout } = spawnSync('sh', ['-c', script, 'sh', nativeFile('launch'), ...words], { encoding: 'utf8' });
    expect(stdout).toBe(`SigBlk:\t${'0'.repeat(16)}\nSigIgn:\t${'0'.repeat(16)}\n`);
  });

  it('inherits the three standard fds and those it is meant to keep', () => {
    const fd = openSync('/etc/hostname', 'r');
    const stdio = ['ignore', 'pipe', 'pipe', fd, fd, fd, fd] as const;
    const command = [...usual(), ...tmpfs, '--keep-fd', '4', '--keep-fd', '6', '--', 'ls', '/proc/self/fd'];
    const { stdout } = spawnSync(nativeFile('launch'), command, { encoding: 'utf8', stdio: [...stdio] });
    closeSync(fd);
    // 3 is the folder that ls itself opens
    expect(stdout.split('\n')).toEqual(['0', '1', '2', '3', '4', '6', '']);
  });

  it('is looked up in PATH, and its exit status is the status', () => {
    expect(launch(tmpfs, 'exit 7').status).toBe(7);
    expect(run([...usual(), ...tmpfs, '--', 'no-such-program'])).toEqual({
      status: 125,
      stdout: '',
      stderr: 'launch: exec: no-such-program: No such file or directory\n',
    });
  });
});

describe('arguments', () => {
  it.each([
    ['--upper-tmpfs', '0:64'],
    ['--upper-tmpfs', '1048576:0'],
    ['--upper-tmpfs', '010485760:64'],
    ['--upper-tmpfs', '0x100000:64'],
    ['--upper-tmpfs', '+1048576:64'],
    ['--upper-tmpfs', ' 1048576:64'],
    ['--upper-tmpfs', '18446744073709551616:64'],
    ['--upper-tmpfs', '1048576'],
    ['--upper-tmpfs', '1:2:3'],
    ['--keep-fd', '2'],
    ['--keep-fd', '1000'],
    ['--bind', ':in'],
    ['--bind', '/usr:'],
    ['--lower', ''],
    ['--target', '/elsewhere'],
    ['--map', '100000:65536'],
  ])('%s %j is refused', (option, value) => {
    const { status, stderr } = launch(option === '--upper-tmpfs' ? [option, value] : [...tmpfs, option, value]);
    expect(status).toBe(125);
    expect(stderr).toMatch(new RegExp(`^launch: arguments: ${option}: .+\n$`));
  });

  it.each(['0:65536', '4294967295:1', '4294901760:65536', '1:0'])('--map %s is refused', (map) => {
    const words = [...paths(), '--map', map, '--lower', join(folder, 'lower'), ...tmpfs, '--', 'true'];
    expect(run(words).stderr).toMatch(/^launch: arguments: --map: .+\n$/);
  });

  it.each([':', ',', '\\'])('a scratch folder with %s in its name is refused, as is a missing one', (odd) => {
    const odds = join(folder, `scratch${odd}`);
    mkdirSync(odds);
    const rest = ['--map', `${base}:65536`, '--lower', join(folder, 'lower'), ...tmpfs, '--', 'true'];
    const start = ['--target', join(folder, 'target'), '--scratch'];
    expect(run([...start, odds, ...rest]).stderr).toMatch(/^launch: arguments: --scratch: /);
    expect(run([...start, '/none/such', ...rest]).stderr).toBe(
      'launch: upper: /none/such: No such file or directory\n',
    );
  });

  it('are needed: a program, an upper, a value', () => {
    expect(run([...usual(), ...tmpfs, '--']).stderr).toBe('launch: arguments: --: no program after it\n');
    expect(run([...usual(), '--', 'true']).stderr).toMatch(/one of them is needed\n$/);
    expect(run(['--target']).stderr).toBe('launch: arguments: --target: no value\n');
    expect(run(['--', 'true']).stderr).toMatch(/each is needed\n$/);
  });

  it('a target that is missing names its step', () => {
    rmSync(join(folder, 'target'), { recursive: true });
    const { status, stderr } = launch(tmpfs);
    expect([status, stderr]).toEqual([125, `launch: overlay: ${folder}/target: No such file or directory\n`]);
  });

  it('a mount to drop that is none is no error, one that is missing is', () => {
    expect(launch([...tmpfs, '--drop-mount', folder]).status).toBe(0);
    expect(launch([...tmpfs, '--drop-mount', '/none/such']).stderr).toMatch(/^launch: drop: \/none\/such: /);
  });
});
