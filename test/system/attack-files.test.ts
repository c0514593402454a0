/** Filesystem cases (attack table 2.4) that apply to the process and container tiers. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { exportArtifacts } from '../../src/artifacts/export.ts';
import type { Sandbox } from '../../src/sandbox/types.ts';
import { plantCanary } from './canary.ts';
import { onEveryTier, python, shell, shoot } from './range.ts';
import { callWitness } from './witness.ts';

async function readAll(content: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of content) parts.push(part);
  return Buffer.concat(parts).toString('utf8');
}

async function* once(text: string): AsyncGenerator<Buffer> {
  yield Buffer.from(text);
}

async function withFolder<T>(body: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-export-'));
  try {
    return await body(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const exportLimits = { bytes: 8 << 20, files: 100 };
const path = (text: string): Buffer => Buffer.from(text);

onEveryTier('files', (range) => {
  const exportFrom = (sandbox: Sandbox, into: string, ...patterns: string[]) =>
    exportArtifacts({ files: sandbox.files, patterns, into, limits: exportLimits });

  it('FS-01: a link to a host file is resolved inside only; twin: a link to a file inside is read', () =>
    range().with(async (sandbox) => {
      const canary = plantCanary();
      try {
        await shell(
          sandbox,
          `ln -s ${canary.path} outside; ln -s /etc/shadow shadow; echo fine > real; ln -s real inside`,
        );
        await expect(readAll(sandbox.files.read(path('outside')))).rejects.toMatchObject({ code: 'file_not_found' });
        await expect(readAll(sandbox.files.read(path('shadow')))).rejects.toMatchObject({
          code: expect.stringMatching(/file_denied|file_not_found/),
        });
        expect(await readAll(sandbox.files.read(path('inside')))).toBe('fine\n');
        canary.check();
      } finally {
        canary.remove();
      }
    }));

  it('FS-02: an upload through a linked folder lands inside or nowhere; twin: through a real one it lands', () =>
    range().with(async (sandbox) => {
      await shell(sandbox, 'ln -s /etc d; ln -s /tmp t; mkdir real');
      await expect(
        sandbox.files.write(path('d/cron.d/sallyport-attack'), once('x'), { makeParents: true }),
      ).rejects.toMatchObject({ code: 'file_denied' });
      await sandbox.files.write(path('t/inside'), once('x'));
      expect((await shoot(sandbox, ['cat', '/tmp/inside'])).stdout).toBe('x');
      expect(statSync('/tmp/inside', { throwIfNoEntry: false })).toBeUndefined();
      expect(statSync('/etc/cron.d/sallyport-attack', { throwIfNoEntry: false })).toBeUndefined();
      await sandbox.files.write(path('real/file'), once('y'));
      expect(await readAll(sandbox.files.read(path('real/file')))).toBe('y');
    }));

  it('FS-05: /proc/self/root, /proc/self/cwd and /proc/1/root show nothing that the plain path does not', () =>
    range().with(async (sandbox) => {
      const canary = plantCanary();
      try {
        const shot = await shell(
          sandbox,
          `cat /proc/self/root${canary.path}; cat /proc/1/root${canary.path}; ls /proc/1/root /proc/1/cwd; cat /proc/self/root/etc/shadow`,
        );
        expect(shot.stdout).toBe('');
        await expect(readAll(sandbox.files.read(path(`/proc/self/root${canary.path}`)))).rejects.toMatchObject({
          code: expect.stringMatching(/^file_/),
        });
        expect((await shoot(sandbox, ['cat', '/proc/self/root/etc/hostname'])).stdout).toBe('sandbox\n');
        canary.check(shot.stdout, shot.stderr);
      } finally {
        canary.remove();
      }
    }));

  it('FS-06: a command starts with fds 0, 1, 2 only, none of them a folder of the host', () =>
    range().with(async (sandbox) => {
      const shot = await python(
        sandbox,
        'import os\nfor fd in sorted(os.listdir("/proc/self/fd"), key=int):\n  try: print(fd, os.readlink(f"/proc/self/fd/{fd}"))\n  except OSError: pass',
      );
      const lines = shot.stdout.trim().split('\n');
      expect(lines.map((line) => line.split(' ')[0])).toEqual(['0', '1', '2']);
      for (const line of lines) expect(line).toMatch(/^\d (\/dev\/null|pipe:\[\d+\])$/);
    }));

  it('FS-13: the mount family is refused', () =>
    range().with(async (sandbox) => {
      const shot = await python(
        sandbox,
        `
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(name, number, *args):
    ctypes.set_errno(0)
    result = libc.syscall(number, *args)
    print(name, errno.errorcode.get(ctypes.get_errno(), "OK") if result < 0 else "OK")
call("mount", 165, b"none", b"/tmp", b"tmpfs", 0, 0)
call("umount2", 166, b"/proc", 2)
call("remount", 165, b"none", b"/", 0, 32, 0)
call("pivot_root", 155, b"/", b"/tmp")
call("open_tree", 428, -100, b"/", 1)
call("move_mount", 429, -100, b"/", -100, b"/tmp", 0)
call("fsopen", 430, b"tmpfs", 0)
call("mount_setattr", 442, -100, b"/", 0, 0, 0)
`,
      );
      expect(shot.stdout.trim().split('\n')).toEqual(
        ['mount', 'umount2', 'remount', 'pivot_root', 'open_tree', 'move_mount', 'fsopen', 'mount_setattr'].map(
          (name) => `${name} EPERM`,
        ),
      );
    }));

  it('FS-14: an overlay in a fresh user namespace cannot be made', () =>
    range().with(async (sandbox) => {
      const shot = await shell(sandbox, 'unshare --user --map-root-user --mount true');
      expect(shot.result.exitCode).not.toBe(0);
    }));

  it('FS-15: what is protected stays protected when an ancestor is renamed; twin: own folders can be renamed', () =>
    range().with(async (sandbox) => {
      const shot = await shell(
        sandbox,
        'mv /proc/sys /proc/x; mv /.sallyport /x; mv /inputs /y; mkdir a && mv a b && echo moved',
      );
      expect(shot.stdout).toBe('moved\n');
      expect((await shell(sandbox, 'echo x > /proc/sys/kernel/core_pattern')).result.exitCode).not.toBe(0);
    }));

  it('FS-20: names with newline, invalid UTF-8, leading dash, backslash and 255 bytes survive every operation', () =>
    range().with(async (sandbox) => {
      const hostile = [
        path('new\nline'),
        Buffer.from([0x61, 0xff, 0xfe]),
        path('-rf'),
        path('back\\slash'),
        path('x'.repeat(255)),
        path('%2e%2e'),
        path(' '),
      ];
      for (const name of hostile) {
        await sandbox.files.write(name, once(name.toString('hex')));
        expect(await readAll(sandbox.files.read(name))).toBe(name.toString('hex'));
        expect((await sandbox.files.stat(name)).kind).toBe('file');
      }
      const { entries } = await sandbox.files.list(path('.'));
      const listed = entries.map((entry) => entry.path.toString('hex'));
      for (const name of hostile) expect(listed).toContain(name.toString('hex'));
      const first = hostile[0] ?? path('');
      await sandbox.files.change({ op: 'rename', path: first, to: path('plain') });
      await sandbox.files.change({ op: 'remove', path: path('plain'), recursive: false });
      await expect(sandbox.files.write(path('x'.repeat(256)), once(''))).rejects.toMatchObject({
        code: 'path_invalid',
      });
      await expect(sandbox.files.write(path('a\0b'), once(''))).rejects.toMatchObject({ code: 'path_invalid' });
    }));

  it('FS-23, FS-24: the export takes regular files of fair size and lists the rest; it does not hang on a FIFO', () =>
    range().with((sandbox) =>
      withFolder(async (into) => {
        await shell(
          sandbox,
          `mkdir out; cd out; echo ok > ok.txt; mkfifo pipe; ln -s /etc/passwd link; ln ok.txt hard; cp /bin/true suid; chmod 4755 suid; truncate -s 1T sparse; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'; printf x > "$(printf 'new\\nline')"`,
        );
        const { artifacts, skipped } = await exportFrom(sandbox, into, 'out/*');
        expect(artifacts.map(({ path: name }) => name).sort()).toEqual(['out/hard', 'out/new%0Aline', 'out/ok.txt']);
        expect(Object.fromEntries(skipped.map(({ path: name, reason }) => [name, reason]))).toEqual({
          'out/link': 'symlink',
          'out/pipe': 'fifo',
          'out/sock': 'socket',
          'out/sparse': 'size-limit',
          'out/suid': 'setuid',
        });
        expect(readFileSync(join(into, 'out/ok.txt'), 'utf8')).toBe('ok\n');
        const sha256 = execFileSync('sha256sum', [join(into, 'out/ok.txt')], { encoding: 'utf8' }).slice(0, 64);
        expect(artifacts.find(({ path: name }) => name === 'out/ok.txt')?.sha256).toBe(sha256);
      }),
    ));

  it('FS-21: names made to collide with ours, to be too long for the host, or to be very many do not undo the export', () =>
    range().with((sandbox) =>
      withFolder(async (into) => {
        await python(
          sandbox,
          'import os\nopen("good.txt", "w").write("good")\nopen("record.json.partial", "w").close()\nos.mkdir("manifest.json"); open("manifest.json/x", "w").close()\nos.chdir("/home/user")\nfor i in range(19): os.mkdir("n" * 200); os.chdir("n" * 200)\nopen("f" * 200, "w").close()\nos.chdir("/home/user"); os.mkdir("zz")\nfor i in range(1500): os.symlink("x", f"zz/{i}")',
        );
        const result = await exportFrom(sandbox, into, '**');
        expect(result.artifacts.map(({ path: name }) => name)).toContain('good.txt');
        expect(result.skipped).toContainEqual({ path: 'record.json.partial', reason: 'reserved-name' });
        expect(result.skipped).toContainEqual({ path: 'manifest.json/x', reason: 'reserved-name' });
        expect(result.skipped).toHaveLength(1_000);
        expect(result.skippedOmitted).toBeGreaterThan(500);
      }),
    ));

  it('FS-24: a file that grows while it is read is cut off at the limit, not followed for ever', () =>
    range().with((sandbox) =>
      withFolder(async (into) => {
        const writer = sandbox.exec({
          argv: ['sh', '-c', 'while :; do head -c 1048576 /dev/zero >> grow 2>/dev/null || :; done'],
          timeoutMs: 20_000,
        });
        writer.discard();
        await expect.poll(async () => (await shell(sandbox, 'test -s grow && echo yes')).stdout).toBe('yes\n');
        const result = await exportFrom(sandbox, into, 'grow');
        expect(result.artifacts.length + result.skipped.length).toBe(1);
        writer.kill(0);
      }),
    ));

  it('FS-26: a 5 000-deep tree, a loop of links and 20 000 files in one folder are listed and removed within bounds', () =>
    range().with(async (sandbox) => {
      const made = await python(
        sandbox,
        'import os\nos.mkdir("deep"); fd = os.open("deep", 0)\nfor i in range(5000):\n  os.mkdir("d", dir_fd=fd); n = os.open("d", 0, dir_fd=fd); os.close(fd); fd = n\nos.symlink("..", "deep/loop")\nos.mkdir("many")\nfor i in range(20000): open(f"many/{i}", "w").close()',
      );
      expect(made.result.exitCode).toBe(0);
      const deep = await sandbox.files.list(path('deep'), { depth: 100_000, max: 100_000 });
      expect(deep.entries.length).toBeGreaterThan(1_000);
      const many = await sandbox.files.list(path('many'), { max: 30_000 });
      expect(many.entries).toHaveLength(20_000);
      expect((await sandbox.files.list(path('many'), { max: 100 })).truncated).toBe(true);
      for (const name of ['deep', 'many'])
        await sandbox.files.change({ op: 'remove', path: path(name), recursive: true });
      expect((await sandbox.files.list(path('.'))).entries.map((entry) => entry.path.toString())).not.toContain('deep');
    }));

  it('FS-29: mounts of the host and of the sandbox do not reach each other', () =>
    range().with(async (sandbox) => {
      const host = readFileSync('/proc/self/mountinfo', 'utf8');
      const inside = (await shoot(sandbox, ['cat', '/proc/self/mountinfo'])).stdout;
      expect(inside).not.toMatch(/shared:|master:/);
      expect(host).not.toContain(sandbox.id);
      const mountPoints = inside
        .trim()
        .split('\n')
        .map((line) => line.split(' ')[4] ?? '');
      expect(mountPoints.filter((point) => !/^\/($|proc|dev|sys|usr$|inputs$)/.test(point))).toEqual([]);
    }));

  it('FS-33: no device but the harmless ones', () =>
    range().with(async (sandbox) => {
      const shot = await shell(
        sandbox,
        'ls /dev; for d in fuse cuse kvm loop-control mem kmsg net/tun vhost-vsock; do test -e /dev/$d && echo FOUND $d; done; head -c 4 /dev/zero | wc -c',
      );
      expect(shot.stdout).not.toContain('FOUND');
      expect(shot.stdout).toMatch(/\n4\n$/);
      const names = shot.stdout.split('\n').slice(0, -2);
      expect(
        names.filter(
          (name) =>
            ![
              'console',
              'core',
              'fd',
              'full',
              'mqueue',
              'null',
              'ptmx',
              'pts',
              'random',
              'shm',
              'stderr',
              'stdin',
              'stdout',
              'tty',
              'urandom',
              'zero',
            ].includes(name),
        ),
      ).toEqual([]);
    }));

  it('FS-34: a shared read-only layer cannot be written; a witness sees the same bytes', () =>
    range().with((sandbox) =>
      range().with(async (other) => {
        const witness = await callWitness(other);
        const program = '/usr/bin/env';
        const before = (await shoot(other, ['sha256sum', program])).stdout;
        const shot = await python(
          sandbox,
          `
import os, socket
try: socket.socket(38, socket.SOCK_SEQPACKET, 0); print("AF_ALG open")
except OSError as e: print("AF_ALG", e.errno)
try: os.open("${program}", os.O_WRONLY); print("opened")
except OSError as e: print("write", e.errno)
`,
        );
        expect(shot.stdout).toMatch(/^AF_ALG 97\nwrite (13|30|26)\n$/);
        expect((await shoot(other, ['sha256sum', program])).stdout).toBe(before);
        expect((await witness.testify()).isUnchanged).toBe(true);
      }),
    ));

  describe('inputs', () => {
    it('are shown read-only with their bytes; links are kept as links and never followed on the host', () =>
      withFolder(async (folder) => {
        const canary = plantCanary();
        writeFileSync(join(folder, 'data.csv'), 'a,b\n1,2\n');
        execFileSync('ln', ['-s', canary.path, join(folder, 'link')]);
        const sandbox = await range().create({}, [folder]);
        try {
          const name = folder.split('/').at(-1) ?? '';
          const shot = await shell(
            sandbox,
            `cat /inputs/${name}/data.csv; readlink /inputs/${name}/link; cat /inputs/${name}/link; echo x > /inputs/${name}/data.csv; touch /inputs/new`,
          );
          expect(shot.stdout).toBe(`a,b\n1,2\n${canary.path}\n`);
          canary.check(shot.stdout, shot.stderr);
          expect(readFileSync(join(folder, 'data.csv'), 'utf8')).toBe('a,b\n1,2\n');
          const { inputs } = sandbox;
          expect(inputs.find((input) => input.path.endsWith('data.csv'))).toMatchObject({ kind: 'file', bytes: 8 });
        } finally {
          await sandbox.end('finished');
          canary.remove();
        }
      }));
  });
});
