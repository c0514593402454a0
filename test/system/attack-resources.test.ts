/** Resource cases (attack table 2.6) that apply to the process and container tiers, with a witness where a neighbour could suffer. */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import type { Sandbox } from '../../src/sandbox/types.ts';
import { onEveryTier, python, type Range, shell, shoot } from './range.ts';
import { callWitness, type Testimony } from './witness.ts';

/** A pause of the witness that a busy two-core test host shows by itself; an unbounded neighbour makes it stop for seconds. */
const heartbeatBoundMs = 750;

async function whileWitnessed(range: Range, attack: (sandbox: Sandbox) => Promise<void>): Promise<Testimony> {
  return range.with(async (other) => {
    const witness = await callWitness(other);
    await range.with(attack);
    return witness.testify();
  });
}

const expectUnharmed = (testimony: Testimony): void => {
  expect(testimony.isUnchanged).toBe(true);
  expect(testimony.worstMs).toBeLessThan(heartbeatBoundMs);
};

onEveryTier('resources', (range) => {
  it('RX-01: a fork bomb and a thread bomb end by the pids limit within two seconds; the witness beats on', async () => {
    expectUnharmed(
      await whileWitnessed(range(), async (sandbox) => {
        const began = performance.now();
        const shot = await shoot(sandbox, ['bash', '-c', 'bomb() { bomb | bomb & }; bomb; sleep 30']);
        expect(shot.result.limit).toBe('pids');
        await sandbox.ended;
        expect(performance.now() - began).toBeLessThan(6_000);
      }),
    );
    await range().with(async (sandbox) => {
      const shot = await python(
        sandbox,
        'import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,)).start()',
      );
      expect(shot.result.limit).toBe('pids');
    });
  });

  it('RX-02: the tasks of all sandboxes together stay below what the host can hold', async () => {
    const pidMax = Number(readFileSync('/proc/sys/kernel/pid_max', 'utf8'));
    const greedy = { class: 'greedy' } as const;
    const first = await range().create(greedy);
    try {
      expect(first.stamped.grant.limits.pids).toBeGreaterThan(pidMax / 4);
      const rest = await Promise.allSettled([range().create(greedy), range().create(greedy), range().create(greedy)]);
      const refused = rest.filter((outcome) => outcome.status === 'rejected');
      for (const outcome of rest) if (outcome.status === 'fulfilled') await outcome.value.end('finished');
      expect(refused.length).toBeGreaterThan(0);
      expect(refused[0]?.status === 'rejected' && refused[0].reason).toMatchObject({ code: 'too_many_sandboxes' });
    } finally {
      await first.end('finished');
    }
    await range().with(async (sandbox) => expect((await shoot(sandbox, ['true'])).result.exitCode).toBe(0));
  });

  it('RX-04: tmpfs, /dev/shm and memfd count as memory of the sandbox', () =>
    range().with(async (sandbox) => {
      const shm = await shell(
        sandbox,
        'dd if=/dev/zero of=/dev/shm/x bs=1M count=4096 2>&1 | tail -1; rm -f /dev/shm/x',
      );
      expect(shm.result.limit).toBeNull();
      const memfd = await python(
        sandbox,
        'import os\nfd = os.memfd_create("x")\nwhile True: os.write(fd, bytes(1 << 20))',
      );
      expect(memfd.result.limit).toBe('oom');
    }));

  it('RX-05: pipes, sockets, inotify and epoll are bounded by the sandbox’s own limits', async () => {
    expectUnharmed(
      await whileWitnessed(range(), async (sandbox) => {
        const before = slabKib();
        await python(
          sandbox,
          'import os, socket, select\nkept = []\ntry:\n  while True:\n    kept.append(os.pipe()); os.set_blocking(kept[-1][1], False)\n    try:\n      while True: os.write(kept[-1][1], bytes(65536))\n    except BlockingIOError: pass\n    kept.append(select.epoll())\nexcept OSError as e: print(e.errno)',
        );
        expect(slabKib() - before).toBeLessThan(512 * 1024);
      }),
    );
  });

  it('RX-05: socket buffers are bounded, also where cgroup v1 counts them apart from memory', () =>
    range().with(async (sandbox) => {
      const before = tcpMemoryMib();
      const exec = sandbox.exec({
        argv: [
          '/usr/bin/python3',
          '-c',
          'import socket, time\nkept, sent, end = [], 0, time.monotonic() + 6\nserver = socket.create_server(("127.0.0.1", 0), backlog=200)\nwhile time.monotonic() < end and sent < 400 << 20:\n  client = socket.create_connection(server.getsockname(), timeout=1); kept += [client, server.accept()[0]]; client.setblocking(False)\n  try:\n    while True: sent += client.send(bytes(1 << 16))\n  except (BlockingIOError, socket.timeout): pass\nprint("sent", sent >> 20, flush=True)\ntime.sleep(30)',
        ],
        timeoutMs: 20_000,
      });
      for await (const { data } of exec.output) if (data.includes('sent')) break;
      expect(tcpMemoryMib() - before).toBeLessThan(sandbox.stamped.grant.limits.memoryBytes / (1 << 20) / 2);
      exec.kill(0);
    }));

  it('RX-07: fds run out inside only', () =>
    range().with(async (sandbox) => {
      const shot = await python(
        sandbox,
        'import os\nkept = []\ntry:\n  while True: kept.append(os.open("/dev/null", 0))\nexcept OSError as e: print(e.errno, len(kept))',
      );
      const [errno, count] = shot.stdout.trim().split(' ').map(Number);
      expect(errno).toBe(24);
      expect(count).toBeLessThanOrEqual(sandbox.stamped.grant.limits.openFiles);
      expect((await shoot(sandbox, ['true'])).result.exitCode).toBe(0);
    }));

  it('RX-10: a long line, NULs and bytes that are not UTF-8 arrive as they are', () =>
    range().with(async (sandbox) => {
      const shot = await python(
        sandbox,
        'import sys\nsys.stdout.buffer.write(b"x" * 3000000 + b"\\0\\xff\\xc3" + "ü".encode() * 100000)',
      );
      const expected = Buffer.concat([
        Buffer.alloc(3_000_000, 'x'),
        Buffer.from([0, 0xff, 0xc3]),
        Buffer.from('ü'.repeat(100_000)),
      ]);
      expect(shot.bytes.equals(expected)).toBe(true);
    }));

  it('RX-11: a command that ignores every signal and stops itself is gone after its time and the grace', () =>
    range().with(async (sandbox) => {
      const began = performance.now();
      const shot = await python(
        sandbox,
        'import os, signal\nfor s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\nos.kill(os.getpid(), signal.SIGSTOP)',
        { timeoutMs: 500, graceMs: 300 },
      );
      expect(shot.result.limit).toBe('time');
      expect(performance.now() - began).toBeLessThan(3_000);
    }));

  it('RX-12: the CPU quota holds however many threads burn', async () => {
    expectUnharmed(
      await whileWitnessed(range(), async (sandbox) => {
        const shot = await shell(
          sandbox,
          'for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; sleep 2; kill 0',
          { timeoutMs: 2_500, graceMs: 0 },
        );
        const { cpuMicros, throttledPeriods } = sandbox.stats();
        expect(cpuMicros / 1000).toBeLessThan(
          shot.result.durationMs * (sandbox.stamped.grant.limits.cpuMillis / 1000) * 1.3 + 200,
        );
        expect(throttledPeriods).toBeGreaterThan(0);
      }),
    );
  });

  it('RX-13: no real-time class, no negative nice, no locked memory', () =>
    range().with(async (sandbox) => {
      const shot = await python(
        sandbox,
        `
import ctypes, errno, os
def attempt(name, call):
    try: call(); print(name, "OK")
    except OSError as e: print(name, errno.errorcode[e.errno])
attempt("fifo", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
attempt("rr", lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1)))
attempt("nice", lambda: os.setpriority(os.PRIO_PROCESS, 0, -20))
libc = ctypes.CDLL(None, use_errno=True)
def mlockall():
    if libc.mlockall(3) < 0: raise OSError(ctypes.get_errno(), "")
attempt("mlockall", mlockall)
attempt("batch", lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)))
attempt("nicer", lambda: os.setpriority(os.PRIO_PROCESS, 0, 5))
`,
      );
      expect(shot.stdout).toMatch(
        /^fifo EPERM\nrr EPERM\nnice (EPERM|EACCES)\nmlockall (EPERM|ENOMEM)\nbatch OK\nnicer OK\n$/,
      );
    }));

  it('RX-14: argv and environment that are too large are refused before anything starts, with the limit named', () =>
    range().with(async (sandbox) => {
      expect(() => sandbox.exec({ argv: ['echo', 'x'.repeat(2 << 20)] })).toThrow(
        expect.objectContaining({ code: 'argv_too_large' }),
      );
      const many = Array.from({ length: 100_000 }, (_, index) => `argument-number-${index}`);
      expect(() => sandbox.exec({ argv: ['echo', ...many] })).toThrow(
        expect.objectContaining({ code: 'argv_too_large' }),
      );
      const shot = await shoot(sandbox, ['sh', '-c', 'printf %s "$1" | wc -c', 'sh', 'x'.repeat(100_000)]);
      expect(shot.stdout).toBe('100000\n');
    }));

  it('RX-15: a storm of creations and removals leaves the witness its pace', async () => {
    expectUnharmed(
      await whileWitnessed(range(), async (sandbox) => {
        const shot = await python(
          sandbox,
          'import os, time\nend, n = time.monotonic() + 3, 0\nwhile time.monotonic() < end:\n  open("f", "w").close(); os.unlink("f"); n += 1\nprint(n)',
        );
        expect(Number(shot.stdout)).toBeGreaterThan(100);
      }),
    );
  });

  it('RX-17: the commands of a sandbox are what the OOM killer prefers, not its init and not the daemon', () =>
    range().with(async (sandbox) => {
      const shot = await shell(sandbox, 'cat /proc/self/oom_score_adj; echo -500 > /proc/self/oom_score_adj');
      expect(Number(shot.stdout)).toBeGreaterThan(Number(readFileSync('/proc/self/oom_score_adj', 'utf8')));
      expect(shot.result.exitCode).not.toBe(0);
    }));
});

/** TCP buffers of the whole host (/proc/net/sockstat counts pages). */
function tcpMemoryMib(): number {
  return (Number(/^TCP: .* mem (\d+)/m.exec(readFileSync('/proc/net/sockstat', 'utf8'))?.[1] ?? 0) * 4096) / (1 << 20);
}

function slabKib(): number {
  return Number(/Slab:\s+(\d+)/.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1] ?? 0);
}
