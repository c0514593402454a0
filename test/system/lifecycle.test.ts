/** Lifecycle and limits on every tier: each way to end, with its reason, and its positive twin. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { onEveryTier, python, shell, shoot } from './range.ts';

onEveryTier('a sandbox', (range) => {
  describe('runs commands', () => {
    it('and passes the exit code and both streams through', () =>
      range().with(async (sandbox) => {
        const shot = await shell(sandbox, 'echo out; echo err >&2; exit 7');
        expect(shot).toMatchObject({ stdout: 'out\n', stderr: 'err\n' });
        expect(shot.result).toMatchObject({
          exitCode: 7,
          signal: null,
          limit: null,
          stdoutBytes: 4,
          stderrBytes: 4,
          discardedBytes: 0,
        });
      }));

    it('as user 1000 in its home, with the environment of the Grant and nothing else', () =>
      range().with(async (sandbox) => {
        process.env['SALLYPORT_TEST_SECRET'] = 'canary-of-the-daemon';
        const shot = await shell(sandbox, 'id -u; pwd; env');
        delete process.env['SALLYPORT_TEST_SECRET'];
        expect(shot.stdout).toMatch(/^1000\n\/home\/user\n/);
        expect(shot.stdout).not.toContain('canary-of-the-daemon');
        const names = shot.stdout
          .split('\n')
          .slice(2, -1)
          .map((line) => line.split('=')[0]);
        expect(
          names.filter(
            (name) =>
              !['PATH', 'HOME', 'USER', 'LANG', 'PWD', 'SHLVL', '_', 'OLDPWD', 'LOGNAME', 'SHELL'].includes(name ?? ''),
          ),
        ).toEqual([]);
      }));

    it('that are not there with a clear refusal', () =>
      range().with(async (sandbox) => {
        await expect(shoot(sandbox, ['no-such-program'])).rejects.toMatchObject({ code: 'exec_failed' });
        await expect(shoot(sandbox, ['true'], { cwd: '/no/such/folder' })).rejects.toMatchObject({
          code: 'exec_failed',
        });
        await expect(shoot(sandbox, ['/etc/passwd'])).rejects.toMatchObject({ code: 'exec_failed' });
      }));

    it('with standard input, and /dev/null without', () =>
      range().with(async (sandbox) => {
        const exec = sandbox.exec({ argv: ['cat'], stdin: true });
        await exec.write(Buffer.from('hello'));
        exec.endStdin();
        const parts: Buffer[] = [];
        for await (const { data } of exec.output) parts.push(data);
        expect(Buffer.concat(parts).toString()).toBe('hello');
        expect((await shoot(sandbox, ['cat'])).result.exitCode).toBe(0);
      }));

    it('on a terminal that knows its size', () =>
      range().with(async (sandbox) => {
        const shot = await shoot(sandbox, ['sh', '-c', 'test -t 0 && stty size'], { pty: { rows: 33, columns: 111 } });
        expect(shot.stdout.trim()).toBe('33 111');
      }));

    it('and leaves a wanted daemon alive after a normal exit', () =>
      range().with(async (sandbox) => {
        await shell(sandbox, 'setsid sleep 300 >/dev/null 2>&1 & echo $! > daemon.pid');
        expect((await shell(sandbox, 'kill -0 $(cat daemon.pid)')).result.exitCode).toBe(0);
      }));
  });

  describe('ends by its own limit', () => {
    it('time: the command only, the sandbox stays', () =>
      range().with(async (sandbox) => {
        const { result } = await python(sandbox, 'while True: pass', { timeoutMs: 500, graceMs: 100 });
        expect(result).toMatchObject({ limit: 'time', exitCode: null });
        expect(result.durationMs).toBeLessThan(3_000);
        expect((await shoot(sandbox, ['true'])).result.exitCode).toBe(0);
      }));

    it('RX-03 oom: the sandbox, not the host, and it says so', () =>
      range().with(async (sandbox) => {
        const shot = await python(sandbox, 'x = []\nwhile True: x.append(bytearray(8 << 20))');
        expect(shot.result).toMatchObject({ limit: 'oom', exitCode: null });
        expect((await sandbox.ended).endReason).toBe('oom');
      }));

    it('RX-03 oom: also when a grandchild is killed and its parent goes on', () =>
      range().with(async (sandbox) => {
        const shot = await shell(sandbox, `python3 -c 'x = bytearray(1 << 30)'; sleep 30`);
        expect(shot.result.limit).toBe('oom');
        expect((await sandbox.ended).endReason).toBe('oom');
      }));

    it('twin: memory below the limit is fine', () =>
      range().with(async (sandbox) => {
        expect((await python(sandbox, 'x = bytearray(64 << 20); print(len(x))')).stdout).toBe(`${64 << 20}\n`);
      }));

    it('disk: bytes', () =>
      range().with(async (sandbox) => {
        const { result } = await shell(sandbox, 'dd if=/dev/zero of=big bs=1M count=10240; sleep 30');
        expect(result.limit).toBe('disk');
        expect((await shoot(sandbox, ['rm', 'big'])).result.exitCode).toBe(0);
        expect((await shell(sandbox, 'dd if=/dev/zero of=small bs=1M count=4')).result.exitCode).toBe(0);
      }));

    it('disk: inodes', () =>
      range().with(async (sandbox) => {
        const { result } = await python(sandbox, 'i = 0\nwhile True:\n  open(f"f{i}", "w").close(); i += 1');
        expect(result.limit).toBe('disk');
      }));

    it('output: what fits arrives, the rest is counted', () =>
      range().with(async (sandbox) => {
        const { bytes, result } = await shell(sandbox, 'yes');
        expect(result.limit).toBe('output');
        expect(bytes.length).toBe(sandbox.stamped.grant.limits.outputBytes);
        expect(result.stdoutBytes).toBe(bytes.length);
      }));

    it('output: also when the command has ended before its reader looks', () =>
      range().with(async (sandbox) => {
        const { outputBytes } = sandbox.stamped.grant.limits;
        const exec = sandbox.exec({
          argv: ['sh', '-c', `head -c ${outputBytes - 500_000} /dev/zero; head -c 900000 /dev/zero >&2`],
        });
        let bytes = 0;
        for await (const { data } of exec.output) {
          bytes += data.length;
          if (bytes >= outputBytes - 500_000) await sleep(200);
        }
        expect(bytes).toBe(outputBytes);
        const { limit, stdoutBytes, stderrBytes } = await exec.result;
        expect([limit, stdoutBytes + stderrBytes]).toEqual(['output', outputBytes]);
      }));

    it('RX-01 pids: a fork bomb', () =>
      range().with(async (sandbox) => {
        const { result } = await shoot(sandbox, ['bash', '-c', 'bomb() { bomb | bomb & }; bomb; sleep 30']);
        expect(result.limit).toBe('pids');
        expect((await sandbox.ended).endReason).toBe('pids');
      }));

    it('wall: its longest life', async () => {
      const sandbox = await range().create({ lifetime: { wallMs: 1_000, idleMs: 1_000 } });
      const { result } = await shoot(sandbox, ['sleep', '30']);
      expect(result.limit).toBe('wall');
      expect((await sandbox.ended).endReason).toBe('wall');
    });

    it('idle: nothing ran; and a running command is no idleness', async () => {
      const sandbox = await range().create({ lifetime: { idleMs: 400 } });
      expect((await shoot(sandbox, ['sleep', '1'])).result.exitCode).toBe(0);
      const info = await Promise.race([sandbox.ended, sleep(3_000).then(() => undefined)]);
      expect(info?.endReason).toBe('idle');
    });
  });

  describe('ends for its caller', () => {
    it('killed: running commands say so', async () => {
      const sandbox = await range().create();
      const exec = sandbox.exec({ argv: ['sleep', '30'] });
      await exec.started;
      await sandbox.end('killed');
      expect(await exec.result).toMatchObject({ exitCode: null, signal: 'SIGKILL', limit: null });
      expect(() => sandbox.exec({ argv: ['true'] })).toThrow(expect.objectContaining({ code: 'sandbox_ended' }));
      expect(() => range().sandboxes.get(sandbox.id)).toThrow(expect.objectContaining({ code: 'sandbox_not_found' }));
    });

    it('not at all when what is killed has ended already', () =>
      range().with(async (sandbox) => {
        const exec = sandbox.exec({ argv: ['true'] });
        for await (const _ of exec.output);
        await exec.result;
        exec.kill(0);
        // as long as init has to report the exit of something that was killed
        await sleep(5_500);
        expect((await shoot(sandbox, ['true'])).result.exitCode).toBe(0);
      }));

    it('once, with the first reason', async () => {
      const sandbox = await range().create();
      await Promise.all([sandbox.end('finished'), sandbox.end('killed')]);
      expect((await sandbox.ended).endReason).toBe('finished');
    });
  });

  it('RX-21: a command that ends as its time runs out has exactly one result', () =>
    range().with(async (sandbox) => {
      for (let round = 0; round < 40; round++) {
        const { result } = await shoot(sandbox, ['sleep', '0.05'], { timeoutMs: 52, graceMs: 0 });
        const finished = result.limit === null && result.exitCode === 0;
        const expired = result.limit === 'time' && result.exitCode === null;
        expect(finished !== expired).toBe(true);
      }
    }));
});
