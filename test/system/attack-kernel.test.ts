/** Process and kernel cases (attack table 2.5) that apply to the process and container tiers. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { onEveryTier, python, shell, shoot } from './range.ts';

/** Prints `name ERRNO` for each raw call; numbers are x86-64. */
const callTable = (rows: readonly string[]): string => `
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(name, number, *args):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_void_p(a) if isinstance(a, int) else a for a in args])
    print(name, "OK" if result >= 0 else errno.errorcode.get(ctypes.get_errno(), ctypes.get_errno()), flush=True)
${rows.join('\n')}
`;

const answers = (stdout: string): Record<string, string> =>
  Object.fromEntries(
    stdout
      .trim()
      .split('\n')
      .map((line) => line.split(' '))
      .map(([name = '', errno = '']) => [name, errno]),
  );

onEveryTier('the kernel', (range) => {
  it('PX-01: /proc/sys/kernel/core_pattern cannot be opened for writing', () =>
    range().with(async (sandbox) => {
      const before = readFileSync('/proc/sys/kernel/core_pattern', 'utf8');
      const shot = await python(
        sandbox,
        'import os\ntry: os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY); print("open")\nexcept OSError as e: print(e.errno)',
      );
      expect(['13\n', '30\n']).toContain(shot.stdout);
      expect(readFileSync('/proc/sys/kernel/core_pattern', 'utf8')).toBe(before);
      expect((await shoot(sandbox, ['cat', '/proc/sys/kernel/ostype'])).stdout).toBe('Linux\n');
    }));

  it('PX-01: also for root in the sandbox', () =>
    range().with(
      async (sandbox) => {
        const shot = await shell(sandbox, 'id -u; echo x > /proc/sys/kernel/core_pattern', { user: 'root' });
        expect(shot.stdout).toBe('0\n');
        expect(shot.result.exitCode).not.toBe(0);
        expect(shot.stderr).toMatch(/Read-only|denied/i);
      },
      { class: 'rooted' },
    ));

  it('PX-02, PX-05, PX-24: the other switches and windows are read-only, masked or absent', () =>
    range().with(async (sandbox) => {
      const writable = [
        'kernel/modprobe',
        'kernel/sysrq',
        'vm/overcommit_memory',
        'vm/drop_caches',
        'net/ipv4/ip_forward',
        'kernel/hostname',
      ].map((name) => `/proc/sys/${name}`);
      const others = [
        '/proc/sysrq-trigger',
        '/proc/sys/fs/binfmt_misc/register',
        '/sys/kernel/uevent_helper',
        '/sys/kernel/mm/transparent_hugepage/enabled',
      ];
      const readable = [
        '/proc/kcore',
        '/proc/kmsg',
        '/dev/mem',
        '/dev/kmsg',
        '/proc/timer_list',
        '/proc/sched_debug',
        '/sys/kernel/debug/x',
        '/sys/firmware/efi/efivars',
        '/proc/keys',
      ];
      const shot = await python(
        sandbox,
        `
import os
for path in ${JSON.stringify([...writable, ...others])}:
    try: os.close(os.open(path, os.O_WRONLY)); print("WRITABLE", path)
    except OSError: pass
for path in ${JSON.stringify(readable)}:
    try:
        data = open(path, "rb").read(64) if not os.path.isdir(path) else "".join(os.listdir(path)).encode()
        if data: print("READABLE", path)
    except OSError: pass
symbols = [line for line in open("/proc/kallsyms")][:100] if os.path.exists("/proc/kallsyms") and os.access("/proc/kallsyms", os.R_OK) else []
print(all(line.startswith("0000000000000000") for line in symbols))
`,
      );
      expect(shot.stdout).toBe('True\n');
    }));

  it('PX-04: no cgroup can be moved, edited or seen', () =>
    range().with(async (sandbox) => {
      const shot = await shell(
        sandbox,
        'find /sys/fs/cgroup -mindepth 1 2>/dev/null | head -3; for f in $(find / -xdev -name cgroup.procs 2>/dev/null); do echo 1 > $f && echo MOVED; done; true',
      );
      expect(shot.stdout).toBe('');
    }));

  it('PX-06: neither init, nor a supervisor, nor a process of another user can be traced or read', () =>
    range().with(async (sandbox) => {
      const shot = await python(
        sandbox,
        callTable([
          'call("ptrace-attach", 101, 16, 1, 0, 0)',
          'call("ptrace-traceme", 101, 0, 0, 0, 0)',
          'call("process_vm_readv", 310, 1, 0, 0, 0, 0, 0)',
          'call("process_vm_writev", 311, 1, 0, 0, 0, 0, 0)',
          'call("kcmp", 312, 1, 1, 0, 0, 0)',
          'call("pidfd_getfd", 438, 0, 0, 0)',
          'import os\nfor path in ["/proc/1/mem", "/proc/1/environ", "/proc/1/maps", "/proc/1/fd", f"/proc/{os.getppid()}/mem", f"/proc/{os.getppid()}/environ"]:\n    try: (os.listdir if path.endswith("fd") else lambda p: open(p, "rb").read(1))(path); print("readable", path)\n    except OSError: pass',
        ]),
      );
      expect(answers(shot.stdout)).toEqual({
        'ptrace-attach': 'EPERM',
        'ptrace-traceme': 'EPERM',
        process_vm_readv: 'EPERM',
        process_vm_writev: 'EPERM',
        kcmp: 'EPERM',
        pidfd_getfd: 'EPERM',
      });
    }));

  it('PX-08, PX-09: no new user namespace by unshare, clone or clone3; twin: fork and threads work', () =>
    range().with(async (sandbox) => {
      const shot = await python(
        sandbox,
        callTable([
          'call("unshare-user", 272, 0x10000000)',
          'call("unshare-mount", 272, 0x00020000)',
          'call("unshare-net", 272, 0x40000000)',
          'call("clone-user", 56, 0x10000000 | 17, 0, 0, 0, 0)',
          'buffer = ctypes.create_string_buffer(88); ctypes.c_uint64.from_buffer(buffer).value = 0x10000000',
          'call("clone3-user", 435, buffer, 88)',
          'call("setns", 308, 0, 0)',
          'import threading, subprocess; t = threading.Thread(target=lambda: print("thread OK", flush=True)); t.start(); t.join()',
          'print("fork", "OK" if subprocess.run(["true"]).returncode == 0 else "BAD", flush=True)',
        ]),
      );
      expect(answers(shot.stdout)).toEqual({
        'unshare-user': 'EPERM',
        'unshare-mount': 'EPERM',
        'unshare-net': 'EPERM',
        'clone-user': 'EPERM',
        'clone3-user': 'ENOSYS',
        setns: 'EPERM',
        thread: 'OK',
        fork: 'OK',
      });
    }));

  it('PX-10: a setuid-root program gives nothing', () =>
    range().with(async (sandbox) => {
      const shot = await shell(
        sandbox,
        'for f in $(find /usr/bin -perm -4000 2>/dev/null); do echo $f; done | grep -c . ; sudo -n id -u 2>&1; grep NoNewPrivs /proc/self/status',
      );
      expect(shot.stdout).toContain('NoNewPrivs:\t1');
      expect(shot.stdout).not.toMatch(/^0$/m);
    }));

  it('PX-10 twin: in a class with root, sudo makes root inside the user namespace and nothing more', async (context) => {
    if (range().tier === 'process')
      context.skip("the process tier shows the host's /usr without the image's sudo rules");
    await range().with(
      async (sandbox) => {
        const shot = await shell(sandbox, 'sudo -n id -u; cat /proc/self/uid_map');
        expect(shot.stdout).toMatch(/^0\n\s+0 +\d{10} +65536\n$/);
      },
      { class: 'rooted' },
    );
  });

  it('PX-11: no capability, and what needs one fails', () =>
    range().with(async (sandbox) => {
      const shot = await shell(sandbox, 'grep -E "^Cap|^Seccomp:" /proc/self/status');
      expect(shot.stdout.replace(/\t/g, ' ')).toBe(
        ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'].map((name) => `${name}: 0000000000000000\n`).join('') +
          'Seccomp: 2\n',
      );
      const calls = await python(
        sandbox,
        callTable([
          'call("mknod-device", 133, b"/tmp/dev", 0o060600, 0x0801)',
          'call("chroot", 161, b"/tmp")',
          'call("sethostname", 170, b"x", 1)',
          'call("open_by_handle_at", 304, 0, 0, 0)',
          'call("finit_module", 313, 0, b"", 0)',
          'call("init_module", 175, 0, 0, b"")',
          'call("delete_module", 176, b"x", 0)',
        ]),
      );
      expect(new Set(Object.values(answers(calls.stdout)))).toEqual(new Set(['EPERM']));
    }));

  it('PX-13, PX-14: bpf, perf, userfaultfd, kexec, acct, swap, quotas, keyrings and io_uring are refused', () =>
    range().with(async (sandbox) => {
      const numbers = {
        bpf: 321,
        perf_event_open: 298,
        userfaultfd: 323,
        kexec_load: 246,
        kexec_file_load: 320,
        acct: 163,
        swapon: 167,
        swapoff: 168,
        quotactl: 179,
        add_key: 248,
        request_key: 249,
        keyctl: 250,
        io_uring_setup: 425,
        io_uring_enter: 426,
        io_uring_register: 427,
        reboot: 169,
        syslog: 103,
        iopl: 172,
        ioperm: 173,
      };
      const shot = await python(
        sandbox,
        callTable(Object.entries(numbers).map(([name, number]) => `call("${name}", ${number}, 0, 0, 0, 0, 0)`)),
      );
      expect(answers(shot.stdout)).toEqual(Object.fromEntries(Object.keys(numbers).map((name) => [name, 'EPERM'])));
    }));

  it('PX-17, PX-18: only unix, inet and route-netlink sockets; twin: those work', () =>
    range().with(async (sandbox) => {
      const shot = await python(
        sandbox,
        `
import errno, socket
def make(name, *args):
    try: socket.socket(*args).close(); print(name, "OK")
    except OSError as e: print(name, errno.errorcode[e.errno])
for name, family, kind, protocol in [("vsock", 40, 1, 0), ("packet", 17, 3, 0), ("alg", 38, 5, 0), ("tipc", 30, 1, 0), ("xdp", 44, 3, 0), ("bluetooth", 31, 3, 0), ("can", 29, 3, 0), ("rds", 21, 5, 0)]:
    make(name, family, kind, protocol)
make("raw", 2, 3, 1)
make("netlink-audit", 16, 3, 9)
make("netlink-uevent", 16, 3, 15)
make("netlink-netfilter", 16, 3, 12)
make("netlink-route", 16, 3, 0)
make("unix", 1, 1)
make("tcp", 2, 1)
make("udp6", 10, 2)
`,
      );
      const table = answers(shot.stdout);
      for (const name of [
        'vsock',
        'packet',
        'alg',
        'tipc',
        'xdp',
        'bluetooth',
        'can',
        'rds',
        'netlink-audit',
        'netlink-uevent',
        'netlink-netfilter',
      ]) {
        expect([name, table[name]]).toEqual([name, expect.stringMatching(/EAFNOSUPPORT|EPROTONOSUPPORT/)]);
      }
      expect(table['raw']).toBe('EPERM');
      for (const name of ['netlink-route', 'unix', 'tcp', 'udp6']) expect([name, table[name]]).toEqual([name, 'OK']);
    }));

  it('PX-19: a route cannot be added; loopback is the only interface, and it works', () =>
    range().with(async (sandbox) => {
      const shot = await python(
        sandbox,
        `
import os, socket, struct, threading
print(sorted(os.listdir("/sys/class/net")) if os.path.isdir("/sys/class/net") else [name for _, name in socket.if_nameindex()])
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
route = struct.pack("BBBBBBBBI", 2, 0, 0, 0, 254, 4, 0, 1, 0) + struct.pack("HHI", 8, 4, 1)
s.send(struct.pack("IHHII", 16 + len(route), 24, 0x605, 1, 0) + route)
print("route", struct.unpack("i", s.recv(4096)[16:20])[0])
for target in [("192.0.2.1", 80), ("198.51.100.7", 443), ("2001:db8::1", 80)]:
    family = socket.AF_INET6 if ":" in target[0] else socket.AF_INET
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(10)
    # the handshake is with the trap inside; whatever is sent to it goes nowhere
    try: s.connect(target); s.sendall(b"\\0"); print(s.recv(9))
    except ConnectionError: print("refused")
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b"pong")).start()
print(socket.create_connection(server.getsockname()).recv(4))
`,
      );
      expect(shot.stdout).toBe("['lo']\nroute -1\nrefused\nrefused\nrefused\nb'pong'\n");
    }));

  it('PX-20: an abstract unix socket of the host cannot be reached; twin: one inside can', () =>
    range().with(async (sandbox) => {
      const name = `sallyport-test-${process.pid}`;
      const server = createServer((socket) => socket.end('reached'));
      await new Promise<void>((resolve) => server.listen({ path: `\0${name}` }, resolve));
      try {
        const shot = await python(
          sandbox,
          `
import errno, socket
try: socket.socket(socket.AF_UNIX).connect("\\0${name}"); print("REACHED")
except OSError as e: print(errno.errorcode[e.errno])
own = socket.socket(socket.AF_UNIX); own.bind("\\0own"); own.listen()
socket.socket(socket.AF_UNIX).connect("\\0own"); print("own OK")
`,
        );
        expect(shot.stdout).toBe('ECONNREFUSED\nown OK\n');
      } finally {
        await new Promise((resolve) => server.close(resolve));
      }
    }));

  it('PX-21: no pathname socket of the host is there', () =>
    range().with(async (sandbox) => {
      const shot = await shell(
        sandbox,
        'find / -xdev -type s 2>/dev/null; ls /var/run/docker.sock /run/podman /run/dbus /tmp/.X11-unix /run/sallyport 2>/dev/null; true',
      );
      expect(shot.stdout).toBe('');
    }));

  it('PX-22: input cannot be pushed into a terminal; twin: the terminal works', () =>
    range().with(async (sandbox) => {
      const program = `
import errno, fcntl, os, termios
for name, number, argument in [("TIOCSTI", 0x5412, b"x"), ("TIOCLINUX", 0x541c, b"\\x02")]:
    try: fcntl.ioctl(0, number, argument); print(name, "OK")
    except OSError as e: print(name, errno.errorcode[e.errno])
print("size", os.get_terminal_size(0).columns)
`;
      const shot = await python(sandbox, program, { pty: { rows: 24, columns: 80 } });
      const table = answers(shot.stdout.replace(/\r/g, ''));
      expect(table['TIOCSTI']).toMatch(/EPERM|EIO/);
      expect(table['TIOCLINUX']).toMatch(/EPERM|EIO|ENOTTY/);
      expect(table['size']).toBe('80');
    }));

  it('PX-26: there is no exec policy to get round: any program runs under the same confinement', () =>
    range().with(async (sandbox) => {
      const shot = await python(
        sandbox,
        'import os\nfd = os.memfd_create("x"); os.write(fd, open("/bin/grep", "rb").read())\nos.execve(fd, ["grep", "-E", "Seccomp:|NoNewPrivs", "/proc/self/status"], {})',
      );
      expect(shot.stdout).toBe('NoNewPrivs:\t1\nSeccomp:\t2\n');
    }));

  it('PX-27, SX-01: environment set by one command does not reach the next; no daemon variable is inside', () =>
    range().with(async (sandbox) => {
      await shell(
        sandbox,
        'export LD_PRELOAD=/tmp/x BASH_ENV=/tmp/y; echo "export EVIL=1" >> ~/.bashrc; echo "export EVIL=1" >> ~/.profile',
      );
      const shot = await shell(sandbox, 'env; cat /proc/*/environ 2>/dev/null | tr "\\0" "\\n"');
      expect(shot.stdout).not.toMatch(/LD_PRELOAD|BASH_ENV|EVIL|SALLYPORT|npm_|NODE_/);
    }));

  it('PX-28: the request cannot switch a control off', async () => {
    await expect(range().create({ privileged: true } as never)).rejects.toMatchObject({ code: 'invalid_request' });
    await expect(range().create({ root: true })).rejects.toMatchObject({ code: 'request_widens' });
    await range().with(async (sandbox) => {
      expect(() => sandbox.exec({ argv: ['id'], user: 'root' })).toThrow(
        expect.objectContaining({ code: 'request_widens' }),
      );
    });
  });

  it('PX-29: a double fork that ignores every signal is gone with the kill, at most a second later', () =>
    range().with(async (sandbox) => {
      const script =
        'import os, signal, time\nfor s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    for fd in range(3): os.close(fd)\n    while True: time.sleep(1)\n  os._exit(0)\nprint("ready", flush=True)\nwhile True: time.sleep(1)';
      const exec = sandbox.exec({ argv: ['/usr/bin/python3', '-c', script] });
      for await (const { data } of exec.output) if (data.includes('ready')) break;
      exec.kill(100);
      expect((await exec.result).exitCode).toBeNull();
      await expect
        .poll(async () => (await shell(sandbox, 'ps -eo args 2>/dev/null | grep -c "[s]etsid" ; true')).stdout.trim(), {
          timeout: 1_000,
        })
        .toBe('0');
    }));

  it('PX-31: killing or stopping PID 1 and the supervisors does nothing; with root inside it ends the sandbox, typed', () =>
    range().with(async (sandbox) => {
      const shot = await shell(
        sandbox,
        'kill -9 1; kill -STOP 1; for p in $(ls /proc | grep -E "^[0-9]+$"); do test $p = $$ || kill -9 $p; done 2>/dev/null; echo alive',
      );
      expect(shot.stdout).toBe('alive\n');
      expect((await shoot(sandbox, ['true'])).result.exitCode).toBe(0);
    }));

  it('PX-31: the sandbox whose init is killed from the host says so', async () => {
    const sandbox = await range().create();
    const exec = sandbox.exec({ argv: ['sleep', '30'] });
    await exec.started;
    const pid = hostPidOfInit(sandbox.id);
    process.kill(pid, 'SIGKILL');
    await expect(exec.result).rejects.toMatchObject({ code: 'init_lost' });
    expect((await sandbox.ended).endReason).toBe('init-lost');
  });

  it('PX-32: the clock cannot be set', () =>
    range().with(async (sandbox) => {
      const shot = await python(
        sandbox,
        callTable([
          'call("settimeofday", 164, 0, 0)',
          'call("clock_settime", 227, 0, 0)',
          'call("clock_adjtime", 305, 0, 0)',
        ]),
      );
      expect(new Set(Object.values(answers(shot.stdout)))).toEqual(new Set(['EPERM']));
    }));

  describe('PX-25: the system call surface', () => {
    it('is the recorded one', async () => {
      const folder = mkdtempSync(join(tmpdir(), 'sallyport-surface-'));
      try {
        const probe = join(folder, 'surface');
        execFileSync('gcc', [
          '-O2',
          '-static',
          '-Wall',
          '-Werror',
          '-o',
          probe,
          new URL('./surface.c', import.meta.url).pathname,
        ]);
        const sandbox = await range().create({}, [probe]);
        try {
          const shot = await shoot(sandbox, ['/inputs/surface']);
          expect(shot.result.exitCode).toBe(0);
          const surface = shot.stdout.trim().split('\n');
          await expect(`${surface.join('\n')}\n`).toMatchFileSnapshot('./surface.snapshot.txt');
        } finally {
          await sandbox.end('finished');
        }
      } finally {
        rmSync(folder, { recursive: true });
      }
    });
  });
});

function hostPidOfInit(id: string): number {
  const home = process.env['SALLYPORT_HOME'] ?? '/var/lib/sallyport';
  const file = join(home, 'run/boxes', id, 'pid');
  if (!existsSync(file)) throw new Error(`no pid file of ${id}`);
  return Number(readFileSync(file, 'utf8'));
}
