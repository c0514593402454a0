"""Drives the built init as PID 1 of a real pid namespace and checks docs/init-protocol.md rule by rule. Wants root.

Usage: test_init.py path/to/init [name of one test]. Prints one line a test, and three measurements.
"""
import os, re, select, shutil, socket, stat, struct, subprocess, sys, tempfile, time, traceback

HELLO, SPAWN, FILE, STDIN, STDIN_EOF, CREDIT, SIGNAL, KILL, RESIZE, PING, DISCARD = range(1, 12)
READY, STARTED, STDOUT, STDERR, STDIN_CREDIT, EXIT, CLOSED, PONG, DISK, FATAL = range(0x81, 0x8B)
READ, WRITE, LIST, STAT, MKDIR, RENAME, REMOVE, CHMOD, CHOWN, WATCH = range(1, 11)
EXITED, SIGNALLED, FAILED, LOST = range(4)
STAGE = {name: number for number, name in enumerate(
    "none decode pipes fork identity capabilities cwd pty exec open read write rename list stat mkdir remove chmod chown"
    " watch limits".split())}
PTY, OPEN_STDIN, KILL_TREE, ROOT = 1, 2, 4, 8
ENOENT, EACCES, EPERM, EEXIST, ENOTDIR, EISDIR, EINVAL, ELOOP, ENOTEMPTY = 2, 13, 1, 17, 20, 21, 22, 40, 39
UID = 1000
DEADLINE = 15
PLENTY = 1 << 31


def field(tag, data):
    return struct.pack("<BI", tag, len(data)) + data


def u32(value):
    return struct.pack("<I", value)


class Stream:
    def __init__(self, number):
        self.number, self.pid, self.exit, self.late = number, None, None, None
        self.out, self.err, self.stdin_credit, self.keep = bytearray(), bytearray(), 0, True
        self.counted = 0


class Box:
    """One init with its channel. Frames are only read inside until() and friends."""

    def __init__(self, init, lifetime_ms=0, hello=True, root=None):
        ours, theirs = socket.socketpair()
        self.process = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *(["--root", root] if root else []), init],
            stdin=theirs, stdout=theirs, stderr=subprocess.PIPE)
        theirs.close()
        self.socket, self.buffer, self.streams, self.next, self.pongs, self.fatal = ours, bytearray(), {}, 1, [], None
        self.ready, self.repays, self.disks = False, True, []
        if hello:
            self.send(HELLO, 0, struct.pack("<HHQ", 1, 0, lifetime_ms))
            self.until(lambda: self.ready)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.process.wait(DEADLINE)
        self.process.stderr.close()

    def send(self, kind, stream, payload=b""):
        self.socket.sendall(struct.pack("<IBBHI", len(payload), kind, 0, 0, stream) + payload)

    def until(self, condition, seconds=DEADLINE):
        end = time.monotonic() + seconds
        while not condition():
            left = end - time.monotonic()
            assert left > 0, "deadline"
            if select.select([self.socket], [], [], min(left, 0.02))[0]:
                self.receive()

    def quiet_for(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.socket], [], [], left)[0]:
                self.receive()

    def receive(self):
        data = self.socket.recv(1 << 20)
        if not data:
            raise EOFError(f"channel ended {self.fatal}")
        self.buffer += data
        at = 0
        while len(self.buffer) - at >= 12:
            size, kind, flags, reserved, number = struct.unpack_from("<IBBHI", self.buffer, at)
            assert flags == 0 and reserved == 0 and size <= 1 << 20
            if len(self.buffer) - at - 12 < size:
                break
            self.take(kind, number, bytes(memoryview(self.buffer)[at + 12:at + 12 + size]))
            at += 12 + size
        del self.buffer[:at]

    def take(self, kind, number, payload):
        if kind == READY:
            assert payload == b"\1\0\0\0"
            self.ready = True
        elif kind == PONG:
            self.pongs.append(payload)
        elif kind == FATAL:
            self.fatal = (struct.unpack_from("<I", payload)[0], payload[4:].decode())
        elif kind == DISK:
            self.disks.append(struct.unpack("<QQQQ", payload))
        else:
            self.take_of_stream(kind, self.streams[number], payload)

    def take_of_stream(self, kind, stream, payload):
        if kind == STARTED:
            stream.pid = struct.unpack("<I", payload)[0]
        elif kind in (STDOUT, STDERR):
            assert stream.exit is None and 1 <= len(payload) <= 262144
            stream.counted += len(payload)
            if stream.keep:
                (stream.out if kind == STDOUT else stream.err).extend(payload)
            if self.repays:
                self.credit(stream, kind - STDOUT + 1, len(payload))
        elif kind == STDIN_CREDIT:
            stream.stdin_credit += struct.unpack("<I", payload)[0]
        elif kind == EXIT:
            assert stream.exit is None
            names = "kind value stage flags lost_out lost_err user_us system_us rss".split()
            stream.exit = dict(zip(names, struct.unpack("<IIIIQQQQQ", payload)))
        elif kind == CLOSED:
            assert stream.exit is not None and stream.late is None
            stream.late = struct.unpack("<Q", payload)[0]

    def credit(self, stream, channel, size):
        self.send(CREDIT, stream.number, struct.pack("<II", channel, size))

    def open(self, kind, payload):
        stream = Stream(self.next)
        self.next += 1
        self.streams[stream.number] = stream
        self.send(kind, stream.number, payload)
        return stream

    def spawn(self, *argv, flags=0, cwd=b"/", env=(b"PATH=/usr/bin:/bin",), uid=UID, gid=UID, groups=(), credit=1 << 20,
              size=None, nofile=1024):
        payload = field(1, u32(uid)) + field(2, u32(gid)) + b"".join(field(3, u32(group)) for group in groups)
        payload += field(4, u32(flags)) + field(5, cwd)
        payload += b"".join(field(6, arg.encode() if isinstance(arg, str) else arg) for arg in argv)
        payload += b"".join(field(7, entry) for entry in env) + field(9, struct.pack("<Q", nofile))
        payload += field(10, struct.pack("<II", credit, credit))
        if size:
            payload += field(8, struct.pack("<HH", *size))
        return self.open(SPAWN, payload)

    def shell(self, script, **options):
        return self.spawn("sh", "-c", script, **options)

    def file(self, op, path, uid=UID, credit=1 << 20, **fields):
        tags = {"path2": 22, "offset": 23, "length": 24, "mode": 25, "owner": 26, "flags": 27, "max": 28, "depth": 29}
        payload = field(1, u32(uid)) + field(2, u32(uid)) + field(20, u32(op)) + field(21, path)
        payload += field(10, struct.pack("<II", credit, 0))
        for name, value in fields.items():
            if isinstance(value, int):
                value = struct.pack("<Q" if name in ("offset", "length") else "<I", value)
            payload += field(tags[name], value)
        return self.open(FILE, payload)

    def end_of(self, stream, seconds=DEADLINE):
        self.until(lambda: stream.exit is not None, seconds)
        return (stream.exit["kind"], stream.exit["value"])

    def failure_of(self, stream):
        kind, value = self.end_of(stream)
        assert kind == FAILED, stream.exit
        return (value, next(name for name, number in STAGE.items() if number == stream.exit["stage"]))

    def closed(self, stream, seconds=DEADLINE):
        self.until(lambda: stream.late is not None, seconds)

    def done(self, stream):
        """A file operation that must succeed; its stdout."""
        end = self.end_of(stream)
        assert end[0] == EXITED, stream.exit
        self.closed(stream)
        return bytes(stream.out)

    def write(self, path, data, **options):
        stream = self.file(WRITE, path, **options)
        self.feed(stream, data)
        self.send(STDIN_EOF, stream.number)
        return stream

    def feed(self, stream, data):
        at = 0
        while at < len(data):
            self.until(lambda: stream.stdin_credit > 0 or stream.exit)
            if stream.exit:
                return
            size = min(stream.stdin_credit, len(data) - at, 65536)
            stream.stdin_credit -= size
            self.send(STDIN, stream.number, data[at:at + size])
            at += size

    def ping(self):
        count = len(self.pongs)
        self.send(PING, 0, b"12345678")
        self.until(lambda: len(self.pongs) > count)

    def exit_status(self):
        try:
            self.until(lambda: False)
        except (EOFError, ConnectionResetError):
            pass
        return self.process.wait(DEADLINE)

    def names(self):
        """comm of every process inside."""
        lister = self.spawn("sh", "-c", "cat /proc/[0-9]*/stat", uid=0, gid=0)
        self.end_of(lister)
        self.closed(lister)
        return re.findall(rb"^\d+ \((.*)\) (\S)", bytes(lister.out), re.M)


def records(data):
    at = 0
    while at < len(data):
        size, kind, mode, uid, gid, links, length, blocks, mtime, path_size, target_size = struct.unpack_from(
            "<Ic3xIIIIQQqHH", data, at)
        assert size == 48 + path_size + target_size
        path = data[at + 52:at + 52 + path_size]
        yield dict(kind=kind.decode(), mode=mode, uid=uid, gid=gid, links=links, size=length, blocks=blocks, mtime=mtime,
                   path=path, target=data[at + 52 + path_size:at + 4 + size])
        at += 4 + size
    assert at == len(data)


def events(data):
    """The whole records of a watch so far."""
    at, found = 0, []
    while len(data) - at >= 4 and len(data) - at - 4 >= (size := struct.unpack_from("<I", data, at)[0]):
        kind, path_size = struct.unpack_from("<c3xH", data, at + 4)
        assert size == 8 + path_size
        found.append((kind.decode(), bytes(data[at + 12:at + 12 + path_size])))
        at += 4 + size
    return found


# --- commands

def test_echo_reaches_the_host_with_its_exit_code(box, _):
    stream = box.shell("echo out; echo err >&2; exit 7")
    assert box.end_of(stream) == (EXITED, 7)
    assert (stream.out, stream.err) == (b"out\n", b"err\n") and stream.pid > 1
    box.closed(stream)
    assert stream.exit["rss"] > 100 and stream.exit["flags"] == 0


def test_identity_groups_umask_and_no_privileges(box, _):
    stream = box.shell("id -u; id -g; id -G; umask; grep -E '^(Cap|NoNewPrivs|SigBlk|SigIgn)' /proc/self/status;"
                       "cat /proc/self/oom_score_adj; ulimit -n; ulimit -c; ls /proc/self/fd", groups=(1001, 1002), nofile=77)
    assert box.end_of(stream) == (EXITED, 0), stream.err
    lines = stream.out.decode().split("\n")
    assert lines[:4] == ["1000", "1000", "1000 1001 1002", "0022"], lines
    status = dict(line.split(":\t") for line in lines if ":\t" in line)
    assert all(int(value, 16) == 0 for name, value in status.items() if name.startswith(("Cap", "Sig"))), status
    assert status["NoNewPrivs"] == "1"
    assert lines[-9:] == ["500", "77", "0", "0", "1", "2", "3", ""] or lines[-8:] == ["500", "77", "0", "0", "1", "2", "3", ""], lines


def test_a_class_with_root_keeps_capabilities_and_setuid(box, _):
    stream = box.shell("grep -E '^(CapBnd|CapEff|NoNewPrivs)' /proc/self/status", flags=ROOT, uid=0, gid=0)
    box.end_of(stream)
    status = dict(line.split(":\t") for line in stream.out.decode().strip().split("\n"))
    assert int(status["CapBnd"], 16) and int(status["CapEff"], 16) and status["NoNewPrivs"] == "0", status
    stream = box.shell("grep -E '^Cap' /proc/self/status", uid=0, gid=0)
    box.end_of(stream)
    assert all(int(line.split(b"\t")[1], 16) == 0 for line in stream.out.strip().split(b"\n")), stream.out


def test_a_death_by_signal_is_told(box, _):
    assert box.end_of(box.shell("kill -9 $$")) == (SIGNALLED, 9)


def test_signals_reach_the_main_process_or_the_tree(box, _):
    stream = box.shell("trap 'echo main; exit 3' USR1; sleep 60 & echo go; wait; wait")
    box.until(lambda: b"go" in stream.out)
    box.send(SIGNAL, stream.number, struct.pack("<II", 10, 0))
    assert box.end_of(stream) == (EXITED, 3) and b"main" in stream.out
    box.send(SIGNAL, stream.number, struct.pack("<II", 15, 1))
    box.closed(stream)


def test_a_missing_program_fails_at_exec(box, _):
    stream = box.spawn("no-such-program")
    assert box.failure_of(stream) == (ENOENT, "exec") and stream.pid is None
    box.closed(stream)
    assert box.failure_of(box.spawn("/etc/passwd")) == (EACCES, "exec")


def test_a_missing_cwd_fails_at_cwd(box, _):
    assert box.failure_of(box.spawn("true", cwd=b"/no/such")) == (ENOENT, "cwd")
    assert box.failure_of(box.spawn("true", cwd=b"/root")) == (EACCES, "cwd")


def test_stdin_goes_through_cat(box, _):
    data = os.urandom(3 << 20)
    stream = box.spawn("cat", flags=OPEN_STDIN, credit=8 << 20)
    box.feed(stream, data)
    box.send(STDIN_EOF, stream.number)
    assert box.end_of(stream) == (EXITED, 0) and stream.out == data


def test_without_stdin_a_command_reads_nothing(box, _):
    stream = box.spawn("cat")
    assert box.end_of(stream) == (EXITED, 0) and stream.out == b""


def test_stdin_that_nobody_reads_waits_and_is_dropped_at_the_end(box, _):
    stream = box.shell("exec <&-; sleep 0.3", flags=OPEN_STDIN)
    box.feed(stream, bytes(1 << 20))
    assert box.end_of(stream) == (EXITED, 0)
    stream = box.spawn("sleep", "60", flags=OPEN_STDIN)
    box.feed(stream, bytes(262144))
    box.quiet_for(0.1)
    assert stream.stdin_credit < 262144
    box.send(KILL, stream.number, u32(0))
    assert box.end_of(stream) == (SIGNALLED, 9)
    box.closed(stream)


def test_arguments_and_environment_are_bytes(box, _):
    stream = box.spawn("sh", "-c", 'printf %s "$1$X"', "sh", b"\xff\n\x01", env=(b"PATH=/bin", b"X=\xfe="))
    assert box.end_of(stream) == (EXITED, 0) and stream.out == b"\xff\n\x01\xfe=", stream.out


def test_a_huge_argument_list_arrives_or_is_refused(box, _):
    stream = box.spawn("sh", "-c", "echo $#", "sh", *["x" * 100] * 5000)
    assert box.end_of(stream) == (EXITED, 0) and stream.out == b"5000\n"
    assert box.failure_of(box.spawn("echo", "x" * 200000)) == (7, "exec")


def test_init_and_supervisors_are_out_of_reach(box, _):
    stream = box.shell("kill -9 1; kill -9 $PPID; cat /proc/1/environ /proc/$PPID/maps; ls /proc/1/fd /proc/$PPID/fd; echo still")
    assert box.end_of(stream)[0] == EXITED and stream.out == b"still\n", (stream.out, stream.err)
    assert stream.err.count(b"ermi") == 6, stream.err
    assert box.end_of(box.shell("kill -TERM 1; kill -CHLD 1; kill -USR1 1; kill -KILL 1; kill -STOP 1", uid=0, gid=0))[0] == EXITED
    box.ping()


# --- terminals

def test_a_terminal_is_one(box, _):
    stream = box.shell("tty; stty size; test -t 0 && test -t 1 && test -t 2 && echo yes; echo x >/dev/tty", flags=PTY | OPEN_STDIN,
                       size=(31, 99))
    assert box.end_of(stream) == (EXITED, 0), stream.out
    assert re.match(rb"/dev/pts/\d+\r\n31 99\r\nyes\r\nx\r\n$", stream.out), stream.out
    box.closed(stream)


def test_a_terminal_can_be_reopened_by_its_user(box, _):
    stream = box.shell("echo again > $(tty)", flags=PTY | OPEN_STDIN)
    assert box.end_of(stream) == (EXITED, 0) and stream.out == b"again\r\n", stream.out


def test_a_terminal_is_resized(box, _):
    stream = box.shell("trap 'stty size; exit' WINCH; echo go; while :; do sleep 0.05; done", flags=PTY | OPEN_STDIN, size=(24, 80))
    box.until(lambda: b"go" in stream.out)
    box.send(RESIZE, stream.number, struct.pack("<HH", 50, 132))
    assert box.end_of(stream) == (EXITED, 0) and b"50 132" in stream.out


def test_a_terminal_takes_input_and_its_end(box, _):
    stream = box.spawn("cat", flags=PTY | OPEN_STDIN)
    box.feed(stream, b"hello\n")
    box.send(STDIN_EOF, stream.number)
    assert box.end_of(stream) == (EXITED, 0) and stream.out == b"hello\r\nhello\r\n", stream.out


def test_a_terminals_last_output_is_not_lost(box, _):
    for _ in range(20):
        stream = box.shell("seq 1 3000", flags=PTY | OPEN_STDIN)
        assert box.end_of(stream) == (EXITED, 0)
        assert stream.out.split()[-1] == b"3000", stream.out[-50:]


def test_control_c_interrupts(box, _):
    stream = box.shell("trap 'exit 9' INT; echo go; while :; do sleep 0.02; done", flags=PTY | OPEN_STDIN)
    box.until(lambda: b"go" in stream.out)
    box.feed(stream, b"\x03")
    assert box.end_of(stream) == (EXITED, 9)


# --- the tree

STUBBORN = "(trap '' TERM HUP; setsid sh -c 'trap \"\" TERM HUP; echo up; while :; do sleep 60; done' &) ; "


def test_a_kill_takes_what_was_double_forked_and_ignores_sigterm(box, _):
    stream = box.shell(STUBBORN + "trap '' TERM; sleep 61; sleep 61; sleep 61")
    box.until(lambda: b"up" in stream.out)
    began = time.monotonic()
    box.send(KILL, stream.number, u32(200))
    assert box.end_of(stream) == (SIGNALLED, 9) and stream.exit["flags"] == 1
    box.closed(stream)
    assert 0.15 < time.monotonic() - began < 2
    assert not any(name == b"sleep" for name, _ in box.names())


def test_sigterm_comes_first_and_wakes_what_is_stopped(box, _):
    stream = box.shell("trap 'echo bye; exit 5' TERM; echo go; kill -STOP $$; sleep 1; :")
    box.until(lambda: b"go" in stream.out)
    time.sleep(0.05)
    box.send(KILL, stream.number, u32(5000))
    assert box.end_of(stream) == (EXITED, 5) and b"bye" in stream.out and stream.exit["flags"] == 1


def test_a_daemon_survives_a_normal_exit_and_closed_comes_when_it_dies(box, _):
    stream = box.shell("(setsid sh -c 'sleep 0.5; echo late' &); echo done")
    assert box.end_of(stream) == (EXITED, 0) and stream.out == b"done\n"
    assert stream.late is None
    box.quiet_for(0.15)
    assert stream.late is None
    box.closed(stream)
    assert stream.late == 5 and stream.out == b"done\n"


def test_a_daemon_that_floods_after_the_exit_never_blocks(box, _):
    stream = box.shell("(setsid head -c 30000000 /dev/zero &); echo done")
    assert box.end_of(stream) == (EXITED, 0)
    box.closed(stream)
    assert 5 + 30000000 == stream.late + len(stream.out)


def test_the_rest_of_the_tree_goes_with_the_main_process_when_asked(box, _):
    stream = box.shell(STUBBORN + "sleep 0.1; exit 4", flags=KILL_TREE)
    assert box.end_of(stream) == (EXITED, 4) and stream.exit["flags"] == 0
    box.closed(stream, 2)


def test_a_fork_bomb_ends(box, _):
    stream = box.spawn("python3", "-c", BOMB, env=(b"PATH=/usr/bin:/bin",))
    box.until(lambda: stream.out.count(b"x") > 200)
    box.ping()
    box.send(KILL, stream.number, u32(0))
    box.end_of(stream)
    box.closed(stream)


BOMB = """
import os, resource, time
resource.setrlimit(resource.RLIMIT_NPROC, (600, 600))
os.write(1, b'go')
while True:
    try:
        if os.fork() == 0: os.setsid()
    except OSError: pass
    os.write(1, b'x')
"""


def test_zombies_are_reaped(box, _):
    stream = box.shell("for i in 1 2 3 4 5 6 7 8 9; do (sleep 0.05 &) ; done; sleep 0.3; cat /proc/[0-9]*/stat")
    box.end_of(stream)
    assert not re.search(rb"\) Z ", stream.out), stream.out


def test_the_pipes_of_one_command_are_not_held_by_another(box, _):
    first = box.spawn("cat", flags=OPEN_STDIN)
    box.until(lambda: first.pid)
    second = box.spawn("sleep", "60")
    box.until(lambda: second.pid)
    box.send(STDIN_EOF, first.number)
    assert box.end_of(first, 3) == (EXITED, 0)
    box.send(KILL, second.number, u32(0))
    box.closed(second)


def test_256_streams_and_no_more(box, _):
    streams = [box.spawn("sleep", "60") for _ in range(256)]
    box.until(lambda: all(stream.pid for stream in streams), 30)
    assert box.failure_of(box.spawn("true"))[0] == 11
    for stream in streams:
        box.send(KILL, stream.number, u32(0))
    for stream in streams:
        box.closed(stream, 30)
    assert box.end_of(box.spawn("true")) == (EXITED, 0)


# --- output

def test_a_gigabyte_is_counted(box, _):
    stream = box.spawn("head", "-c", str(1 << 30), "/dev/zero", credit=1 << 22)
    stream.keep = False
    assert box.end_of(stream, 30) == (EXITED, 0)
    assert stream.counted == 1 << 30


def test_no_credit_blocks_and_credit_resumes(box, _):
    box.repays = False
    stream = box.spawn("head", "-c", "300000", "/dev/zero", credit=1000)
    box.quiet_for(0.3)
    assert len(stream.out) == 1000 and stream.exit is None
    box.credit(stream, 1, 1)
    box.until(lambda: len(stream.out) == 1001)
    box.credit(stream, 1, 1 << 20)
    assert box.end_of(stream) == (EXITED, 0) and len(stream.out) == 300000
    box.repays = True


def test_the_exit_waits_for_credit_but_a_kill_and_a_discard_do_not(box, folder):
    box.repays = False
    stream = box.shell("head -c 1000 /dev/zero; echo > written; exec sleep 60", cwd=folder, credit=0)
    box.until(lambda: os.path.exists(folder + b"/written"))
    box.send(KILL, stream.number, u32(0))
    box.quiet_for(0.3)
    assert stream.exit is None
    box.send(DISCARD, stream.number)
    assert box.end_of(stream) == (SIGNALLED, 9) and stream.exit["lost_out"] == 1000
    box.closed(stream)
    box.repays = True


def test_discarded_output_is_counted(box, _):
    stream = box.shell("head -c 5000000 /dev/zero; head -c 3000000 /dev/zero >&2", credit=0)
    box.send(DISCARD, stream.number)
    assert box.end_of(stream) == (EXITED, 0)
    assert (stream.exit["lost_out"], stream.exit["lost_err"]) == (5000000, 3000000)


def test_a_flood_starves_nobody(box, _):
    flood = box.spawn("cat", "/dev/zero", credit=PLENTY)
    flood.keep, box.repays = False, False
    box.until(lambda: flood.counted > 1 << 24)
    other = box.shell("echo hi")
    box.end_of(other, 3)
    box.ping()
    box.send(KILL, flood.number, u32(0))
    box.end_of(flood)
    box.closed(flood)
    box.repays = True


def test_a_full_disk_is_told_once_and_before_each_exit(init, folder):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=777", "none", folder], check=True)
    try:
        for name in (b"usr", b"dev", b"proc"):
            os.mkdir(folder + b"/" + name)
        for name in (b"bin", b"lib", b"lib64"):
            os.symlink(b"usr/" + name, folder + b"/" + name)
        for name in (b"usr", b"dev"):
            subprocess.run(["mount", "--rbind", b"/" + name, folder + b"/" + name], check=True)
        shutil.copy(init, folder + b"/init")
        with Box("/init", root=folder.decode()) as box:
            box.end_of(box.spawn("true"))
            assert box.disks == []
            stream = box.shell("head -c 9000000 /dev/zero > /big; exec sleep 60")
            box.until(lambda: box.disks)
            free, total, _, inodes = box.disks[0]
            assert free < 4096 and total == 4 << 20 and inodes > 0
            box.quiet_for(0.5)
            assert len(box.disks) == 1 and stream.exit is None
            box.send(KILL, stream.number, u32(0))
            box.end_of(stream)
            assert len(box.disks) == 2
            box.end_of(box.spawn("rm", "/big"))
            box.end_of(box.spawn("true"))
            assert len(box.disks) == 2
    finally:
        subprocess.run(["umount", "--recursive", "--lazy", folder], check=True)


# --- files

def test_a_file_is_written_and_read_back(box, folder):
    data = os.urandom(1 << 20)
    stream = box.write(folder + b"/file", data)
    assert box.end_of(stream) == (EXITED, 0) and stream.pid == 0
    status = os.stat(folder + b"/file")
    assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o644, UID)
    assert box.done(box.file(READ, folder + b"/file", credit=4 << 20)) == data
    assert box.done(box.file(READ, folder + b"/file", offset=10, length=5)) == data[10:15]
    assert box.done(box.file(READ, folder + b"/file", offset=1 << 40)) == b""
    box.done(box.write(folder + b"/a/b/c", b"x", flags=2, mode=0o4711))
    assert stat.S_IMODE(os.stat(folder + b"/a/b/c").st_mode) == 0o4711
    assert box.failure_of(box.write(folder + b"/q/b/c", b"")) == (ENOENT, "open")
    assert box.failure_of(box.write(folder + b"/a", b"")) == (EISDIR, "open")
    assert os.listdir(folder + b"/a") == [b"b"]


def test_hostile_names_are_only_bytes(box, folder):
    names = [b"line\nbreak", b"\xff\xfe", b"n" * 255, b" ", b"-rf", b"\x1b[2J", b"$(id)"]
    for name in names:
        box.done(box.write(folder + b"/" + name, name))
        assert box.done(box.file(READ, folder + b"/" + name)) == name
    found = list(records(box.done(box.file(LIST, folder, depth=1, max=100))))
    assert sorted(entry["path"] for entry in found) == sorted(names)
    assert box.failure_of(box.write(folder + b"/" + b"n" * 256, b""))[0] == 36


def test_special_files_are_refused_without_a_hang(box, folder):
    os.mkfifo(folder + b"/fifo")
    os.chown(folder + b"/fifo", UID, UID)
    assert box.failure_of(box.file(READ, folder + b"/fifo")) == (EINVAL, "open")
    assert box.failure_of(box.file(READ, folder)) == (EISDIR, "open")
    assert box.failure_of(box.file(READ, b"/dev/zero")) == (EINVAL, "open")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(folder + b"/socket")
        assert box.failure_of(box.file(READ, folder + b"/socket"))[0] in (6, EACCES)
    [entry] = records(box.done(box.file(STAT, folder + b"/fifo", flags=4)))
    assert entry["kind"] == "p"


def test_links_stay_in_the_root_and_magic_links_lead_nowhere(box, folder):
    box.done(box.write(folder + b"/real", b"real"))
    os.symlink(b"real", folder + b"/link")
    os.symlink(b"../../../../../../../../etc/hostname", folder + b"/up")
    os.symlink(folder, folder + b"/loop")
    os.symlink(b"self", folder + b"/self")
    assert box.done(box.file(READ, folder + b"/link")) == b"real"
    assert box.done(box.file(READ, folder + b"/loop/loop/link")) == b"real"
    assert box.done(box.file(READ, folder + b"/up")) == open("/etc/hostname", "rb").read()
    assert box.failure_of(box.file(READ, folder + b"/self"))[0] == ELOOP
    assert box.failure_of(box.file(READ, b"/proc/self/root/etc/hostname"))[0] == ELOOP
    assert box.failure_of(box.file(STAT, b"/proc/self/exe"))[0] == ELOOP
    [entry] = records(box.done(box.file(STAT, folder + b"/link", flags=4)))
    assert (entry["kind"], entry["target"], entry["path"]) == ("l", b"real", folder + b"/link")
    [entry] = records(box.done(box.file(STAT, folder + b"/link")))
    assert (entry["kind"], entry["size"], entry["uid"]) == ("f", 4, UID)
    box.done(box.write(folder + b"/link", b"new"))
    assert not os.path.islink(folder + b"/link") and open(folder + b"/real", "rb").read() == b"real"
    found = {entry["path"]: entry for entry in records(box.done(box.file(LIST, folder, depth=9, max=100)))}
    assert found[b"loop"]["kind"] == "l" and found[b"loop"]["target"] == folder and len(found) == 5


def test_the_users_own_permissions_decide(box, folder):
    assert box.failure_of(box.file(READ, b"/etc/shadow")) == (EACCES, "open")
    assert box.failure_of(box.write(b"/etc/passwd", b"")) == (EACCES, "open")
    assert box.failure_of(box.file(CHOWN, folder, owner=struct.pack("<II", 0, 0))) == (EPERM, "chown")
    assert box.failure_of(box.file(CHMOD, b"/etc/passwd", mode=0o777)) == (EPERM, "chmod")
    assert box.failure_of(box.file(READ, b"/etc/shadow", uid=1)) == (EACCES, "open")


def test_folders_are_made_moved_and_removed(box, folder):
    assert box.done(box.file(MKDIR, folder + b"/one", mode=0o3750)) == b""
    assert stat.S_IMODE(os.stat(folder + b"/one").st_mode) == 0o3750
    assert box.failure_of(box.file(MKDIR, folder + b"/one")) == (EEXIST, "mkdir")
    box.done(box.file(MKDIR, folder + b"/one", flags=2))
    box.done(box.file(MKDIR, folder + b"/one/two/three", flags=2))
    assert stat.S_IMODE(os.stat(folder + b"/one/two").st_mode) & 0o777 == 0o755
    box.done(box.file(RENAME, folder + b"/one/two", path2=folder + b"/moved"))
    assert os.path.isdir(folder + b"/moved/three")
    assert box.failure_of(box.file(REMOVE, folder + b"/moved")) == (ENOTEMPTY, "remove")
    box.done(box.file(REMOVE, folder + b"/moved/three"))
    box.done(box.file(REMOVE, folder + b"/moved", flags=1))
    assert box.failure_of(box.file(REMOVE, folder + b"/moved")) == (ENOENT, "remove")
    for path in (b"/", folder + b"/", folder + b"/.", folder + b"/.."):
        assert box.failure_of(box.file(REMOVE, path, flags=1)) == (EINVAL, "remove")
    box.done(box.write(folder + b"/file", b"x", mode=0o600))
    box.done(box.file(CHMOD, folder + b"/file", mode=0))
    box.done(box.file(CHMOD, folder + b"/file", mode=0o755))
    assert stat.S_IMODE(os.stat(folder + b"/file").st_mode) == 0o755
    assert box.failure_of(box.file(MKDIR, folder + b"/file/below", flags=2)) == (ENOTDIR, "mkdir")
    os.symlink(folder + b"/one", folder + b"/link")
    box.done(box.file(REMOVE, folder + b"/link", flags=1))
    assert os.path.isdir(folder + b"/one")


def test_a_list_has_a_depth_and_a_limit(box, folder):
    os.makedirs(folder + b"/1/2/3")
    for i in range(300):
        os.mkdir(folder + b"/1/%d-%s" % (i, b"x" * 60))
    closed = folder + b"/1/closed"
    os.makedirs(closed + b"/below")
    os.chmod(closed, 0)
    half = folder + b"/1/half"
    os.makedirs(half + b"/below")
    os.chmod(half, 0o744)
    paths = lambda data: {entry["path"] for entry in records(data)}
    assert paths(box.done(box.file(LIST, folder, depth=1, max=10))) == {b"1"}
    assert len(paths(box.done(box.file(LIST, folder, depth=2, max=1000)))) == 304
    stream = box.file(LIST, folder, depth=99, max=1000)
    found = box.done(stream)
    assert b"1/2/3" in paths(found) and len(paths(found)) == len(list(records(found))) == 305 and stream.exit["value"] == 1
    stream = box.file(LIST, folder, depth=99, max=7)
    assert len(paths(box.done(stream))) == 7 and stream.exit["value"] == 1
    stream = box.file(LIST, folder + b"/1/2", depth=1, max=1)
    assert paths(box.done(stream)) == {b"3"} and stream.exit["value"] == 0
    assert box.failure_of(box.file(LIST, folder + b"/none", depth=1, max=1)) == (ENOENT, "open")


def test_a_tree_50000_deep_is_listed_and_removed(box, folder):
    maker = box.spawn("python3", "-c", "import os\nfor i in range(50000): os.mkdir('d'); os.chdir('d')\nopen('end','w')", cwd=folder)
    assert box.end_of(maker) == (EXITED, 0)
    stream = box.file(LIST, folder, depth=1 << 31, max=1 << 20)
    found = list(records(box.done(stream)))
    assert stream.exit["value"] == 1 and len(found) > 1500 and len(found[-1]["path"]) <= 4095
    began = time.monotonic()
    box.done(box.file(REMOVE, folder + b"/d", flags=1))
    assert os.listdir(folder) == []
    return f"removed in {time.monotonic() - began:.2f} s"


def test_a_wide_folder_is_listed_once_and_removed(box, folder):
    for i in range(3000):
        os.makedirs(folder + b"/wide/%d" % i)
        open(folder + b"/wide/%d/file" % i, "w").close()
    found = [entry["path"] for entry in records(box.done(box.file(LIST, folder + b"/wide", depth=2, max=1 << 20, credit=4 << 20)))]
    assert len(found) == len(set(found)) == 6000
    subprocess.run(["chown", "-R", str(UID), folder], check=True)
    box.done(box.file(REMOVE, folder + b"/wide", flags=1))
    assert os.listdir(folder) == []


def test_a_killed_write_leaves_no_temp_file(box, folder):
    box.done(box.write(folder + b"/file", b"old"))
    stream = box.file(WRITE, folder + b"/file")
    box.feed(stream, b"half" * 1000)
    box.until(lambda: len(os.listdir(folder)) == 2)
    box.send(KILL, stream.number, u32(0))
    assert box.end_of(stream) == (SIGNALLED, 15) and stream.exit["flags"] == 1
    box.closed(stream)
    assert os.listdir(folder) == [b"file"] and open(folder + b"/file").read() == "old"


def test_a_failed_write_leaves_no_temp_file(init, folder):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=777", "none", folder], check=True)
    try:
        with Box(init) as box:
            assert box.failure_of(box.write(folder + b"/big", bytes(1 << 20))) == (28, "write")
            assert os.listdir(folder) == []
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_killed_read_frees_its_stream(box, folder):
    box.done(box.write(folder + b"/file", bytes(1 << 20)))
    box.repays = False
    stream = box.file(READ, folder + b"/file", credit=10)
    box.until(lambda: len(stream.out) == 10)
    box.send(KILL, stream.number, u32(0))
    assert box.end_of(stream) == (SIGNALLED, 15)
    box.closed(stream)
    box.repays = True


def test_a_watch_tells_what_happens_below(box, folder):
    os.mkdir(folder + b"/old")
    os.chown(folder + b"/old", UID, UID)
    stream = box.file(WATCH, folder, flags=1)
    box.until(lambda: ("R", b"") in events(stream.out))
    box.done(box.write(folder + b"/old/file", b"x"))
    box.until(lambda: ("t", b"old/file") in events(stream.out))
    box.done(box.file(MKDIR, folder + b"/new/deep/er", flags=2))
    box.until(lambda: ("c", b"new/deep/er") in events(stream.out))
    box.until(lambda: ("c", b"new/deep") in events(stream.out))
    box.quiet_for(0.05)
    box.end_of(box.shell("echo > new/deep/er/f; mv new moved; sleep 0.05; echo >> moved/deep/er/f; rm moved/deep/er/f", cwd=folder))
    for event in (("f", b"new"), ("t", b"moved"), ("m", b"moved/deep/er/f"), ("d", b"moved/deep/er/f")):
        box.until(lambda: event in events(stream.out))
    box.done(box.file(CHMOD, folder + b"/old", mode=0o700))
    box.until(lambda: ("a", b"old") in events(stream.out))
    box.send(KILL, stream.number, u32(0))
    assert box.end_of(stream) == (SIGNALLED, 15) and stream.exit["flags"] == 1


def test_a_watch_without_recursion_and_of_one_file(box, folder):
    box.done(box.write(folder + b"/file", b"x"))
    os.mkdir(folder + b"/sub")
    os.chown(folder + b"/sub", UID, UID)
    streams = [box.file(WATCH, folder), box.file(WATCH, folder + b"/file", flags=1)]
    box.until(lambda: all(events(stream.out) for stream in streams))
    box.end_of(box.shell("echo > sub/quiet; echo >> file; rm file", cwd=folder))
    box.until(lambda: ("d", b"file") in events(streams[0].out) and ("d", b"") in events(streams[1].out))
    assert not any(b"quiet" in path for _, path in events(streams[0].out))
    assert box.failure_of(box.file(WATCH, folder + b"/none")) == (ENOENT, "watch")


def test_a_watch_that_nobody_reads_says_that_events_were_lost(box, folder):
    box.repays = False
    stream = box.file(WATCH, folder, credit=12)
    box.until(lambda: len(stream.out) == 12)
    box.end_of(box.spawn("python3", "-c", "import os\nfor i in range(60000): open('a%d' % (i % 2), 'w').close()", cwd=folder))
    box.repays = True
    box.credit(stream, 1, PLENTY)
    box.until(lambda: ("o", b"") in events(stream.out))
    box.send(KILL, stream.number, u32(0))
    box.closed(stream)


# --- the end

def test_the_end_of_the_channel_ends_everything(init, _):
    box = Box(init)
    stream = box.shell(STUBBORN + "sleep 1000")
    box.until(lambda: b"up" in stream.out)
    marker = subprocess.run(["pgrep", "-P", str(box.process.pid)], capture_output=True, text=True).stdout.split()[0]
    box.socket.close()
    assert box.process.wait(3) == 0
    box.process.stderr.close()
    assert not os.path.exists(f"/proc/{marker}")


def test_malformed_frames_end_with_70(init, _):
    good = struct.pack("<HHQ", 1, 0, 0)
    hello = struct.pack("<IBBHI", 12, HELLO, 0, 0, 0) + good
    spawn = struct.pack("<IBBHI", 0, SPAWN, 0, 0, 5)
    for sent in (struct.pack("<IBBHI", 0, 99, 0, 0, 0), struct.pack("<IBBHI", 1 << 21, STDIN, 0, 0, 1), hello + hello,
                 hello + spawn, struct.pack("<IBBHI", 8, PING, 0, 0, 0) + bytes(8), hello.replace(good, struct.pack("<HHQ", 2, 0, 0))):
        with Box(init, hello=False) as box:
            box.socket.sendall(sent)
            assert box.exit_status() == 70 and box.fatal[0] == 70, box.fatal
    with Box(init) as box:
        stream = box.spawn("sleep", "60", flags=OPEN_STDIN)
        box.until(lambda: stream.stdin_credit)
        box.send(STDIN, stream.number, bytes(262145))
        assert box.exit_status() == 70
    with Box(init) as box:
        stream = box.spawn("sleep", "60")
        box.open(SPAWN, b"")
        box.next = stream.number
        assert box.exit_status() == 70


def test_frames_for_unknown_streams_are_ignored(box, _):
    for kind, payload in ((STDIN, b"x"), (STDIN_EOF, b""), (CREDIT, struct.pack("<II", 1, 1)), (SIGNAL, struct.pack("<II", 9, 1)),
                          (KILL, u32(0)), (RESIZE, u32(0)), (DISCARD, b"")):
        box.send(kind, 4000000000, payload)
    box.ping()


def test_the_lifetime_ends_with_75(init, _):
    with Box(init, lifetime_ms=300) as box:
        box.spawn("sleep", "60")
        began = time.monotonic()
        assert box.exit_status() == 75 and box.fatal[0] == 75
        assert 0.2 < time.monotonic() - began < 1.5


def test_a_lost_supervisor_ends_with_71(init, _):
    with Box(init) as box:
        stream = box.spawn("sleep", "60")
        box.until(lambda: stream.pid)
        box.spawn("sh", "-c", f"kill -9 $(cut -d' ' -f4 /proc/{stream.pid}/stat)", uid=0, gid=0, flags=ROOT)
        assert box.exit_status() == 71 and box.fatal[0] == 71
        assert stream.exit["kind"] == LOST


def test_init_refuses_to_be_anything_but_pid_1(init, _):
    # in a pid namespace as its second process: an init without the check would kill(-1) all that it can see
    script = 'test $$ = 1 || exit 90; "$0" < /dev/null; exit $?'
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, init]
    assert subprocess.run(command, capture_output=True, timeout=DEADLINE).returncode == 64


def test_frames_arrive_in_any_pieces(box, _):
    payload = field(1, u32(UID)) + field(2, u32(UID)) + field(5, b"/") + field(6, b"echo") + field(6, b"x" * 50) + \
        field(7, b"PATH=/bin") + field(10, struct.pack("<II", 1000, 1000))
    stream = Stream(box.next)
    box.next += 1
    box.streams[stream.number] = stream
    for byte in struct.pack("<IBBHI", len(payload), SPAWN, 0, 0, stream.number) + payload:
        box.socket.sendall(bytes([byte]))
    assert box.end_of(stream) == (EXITED, 0) and stream.out == b"x" * 50 + b"\n"


# --- measurements

def memory_of(pid):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return {match[1]: int(match[2]) for match in re.finditer(r"^(\w+): +(\d+) kB", file.read(), re.M)}


def measure_idle_memory(init):
    with Box(init) as box:
        pid = subprocess.run(["pgrep", "-P", str(box.process.pid)], capture_output=True, text=True).stdout.split()[0]
        fresh = memory_of(pid)
        stream = box.spawn("head", "-c", "200000000", "/dev/zero", credit=PLENTY)
        stream.keep, box.repays = False, False
        box.closed(stream)
        box.quiet_for(0.6)
        after = memory_of(pid)
    shown = lambda memory: f"RSS {memory['Rss']} kB, of it {memory['Anonymous']} kB its own, PSS {memory['Pss']} kB"
    assert after["Anonymous"] < fresh["Anonymous"] + 64, (fresh, after)
    return f"idle: {shown(fresh)}; after a flood: {shown(after)}"


def measure_latency(init):
    with Box(init) as box:
        times = []
        for _ in range(200):
            began = time.monotonic()
            stream = box.spawn("/bin/true")
            box.end_of(stream)
            times.append(time.monotonic() - began)
            box.closed(stream)
    times.sort()
    return f"/bin/true, SPAWN to EXIT: median {times[100] * 1000:.2f} ms, p95 {times[190] * 1000:.2f} ms"


def measure_throughput(init):
    """The channel is only emptied, not taken apart: a reader in Python would be what is measured."""
    with Box(init) as box:
        stream, sink, total, goal = box.spawn("cat", "/dev/zero", credit=PLENTY), bytearray(1 << 20), 0, (1 << 31) - (1 << 24)
        began = time.monotonic()
        while total < goal:
            total += box.socket.recv_into(sink)
        seconds = time.monotonic() - began
    return f"cat /dev/zero: {total / seconds / 1e6:.0f} MB/s"


def run(name, test, init):
    folder = tempfile.mkdtemp(prefix="sallyport-init-").encode()
    os.chown(folder, UID, UID)
    began = time.monotonic()
    try:
        if test.__code__.co_varnames[0] == "box":
            with Box(init) as box:
                note = test(box, folder)
        else:
            note = test(init, folder)
        print(f"  ok   {name[5:].replace('_', ' ')} ({(time.monotonic() - began) * 1000:.0f} ms){'  ' + note if note else ''}", flush=True)
        return True
    except Exception as error:
        traceback.print_exc()
        print(f"  FAIL {name[5:].replace('_', ' ')}: {error!r}", flush=True)
        return False
    finally:
        subprocess.run(["rm", "-rf", folder], check=False)


def main():
    init = os.path.abspath(sys.argv[1])
    if os.environ.get("SALLYPORT_TEST_MOUNTS") != "private":
        # the tests' files are on a tmpfs of their own, as a sandbox's are, and it goes when this process does
        os.environ["SALLYPORT_TEST_MOUNTS"] = "private"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_") and only in name]
    tempfile.tempdir = tempfile.mkdtemp(prefix="sallyport-init-")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "none", tempfile.tempdir], check=True)
    try:
        failed = [name for name, test in tests if not run(name, test, init)]
        for measure in () if only else (measure_idle_memory, measure_latency, measure_throughput):
            print(f"  {measure(init)}", flush=True)
    finally:
        subprocess.run(["umount", "--lazy", tempfile.tempdir], check=False)
        os.rmdir(tempfile.tempdir)
    print(f"test_init: {len(tests) - len(failed)} of {len(tests)} rules hold")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
