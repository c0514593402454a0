/*
 * PID 1 of a sandbox. Carries commands and file operations for the host over framed streams with credit
 * (docs/init-protocol.md). Holds nothing the sandbox could use: ends, and the whole pid namespace with it, when the host's
 * end of the channel closes, when a frame is malformed, or when the sandbox's longest life is over.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "init.h"

enum {
	VERSION = 1, STREAMS_MAX = 256, DATA_MAX = 262144, QUEUE_MAX = 1 << 20, STDIN_WINDOW = 262144, RECEIVE_MIN = 65536,
	PIPE_BYTES = 262144, DISK_EVERY_MS = 200, DISK_FULL_BYTES = 4096, FILE_KILL_MS = 500,
	EXIT_MALFORMED = 70, EXIT_LOST = 71, EXIT_LIFETIME = 75
};

struct stream {
	uint32_t id;
	bool is_file, is_pty, discard, killed, exit_known, exit_sent, tree_gone;
	pid_t worker; /* supervisor or file worker; 0 when reaped */
	int control, output[2], input;
	uint64_t credit[2], discarded[2], drain[2], after_exit;
	uint8_t *stdin_data;
	uint32_t stdin_size, stdin_at, stdin_credit, stdin_owed;
	bool stdin_eof;
	int64_t file_kill_at;
	struct report result;
};

struct chunk {
	struct chunk *next;
	size_t size, at;
	uint8_t data[];
};

int proc_fd = -1;
static struct stream *streams[STREAMS_MAX];
static size_t stream_count, next_turn;
static struct chunk *queue_head, *queue_tail;
static size_t queue_bytes;
static uint8_t *receive_data;
static size_t receive_size, receive_capacity;
static uint8_t scratch[FRAME_HEADER + DATA_MAX];
static int64_t lifetime_end = -1, next_disk;
static bool greeted, disk_was_full;

static int64_t boot_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Everything in the pid namespace dies with us; the kill only makes it quicker. */
_Noreturn static void end_all(int status)
{
	kill(-1, SIGKILL);
	_exit(status);
}

/* ---- the channel out ---- */

static void enqueue(const uint8_t *data, size_t size)
{
	struct chunk *chunk = malloc(sizeof *chunk + size);
	if (chunk == NULL)
		end_all(EXIT_LOST);
	chunk->next = NULL;
	chunk->size = size;
	chunk->at = 0;
	memcpy(chunk->data, data, size);
	if (queue_tail != NULL)
		queue_tail->next = chunk;
	else
		queue_head = chunk;
	queue_tail = chunk;
	queue_bytes += size;
}

static void flush_queue(void)
{
	while (queue_head != NULL) {
		struct chunk *chunk = queue_head;
		ssize_t written = write(1, chunk->data + chunk->at, chunk->size - chunk->at);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0 && errno == EAGAIN)
			return;
		if (written < 0)
			end_all(0);
		chunk->at += (size_t)written;
		queue_bytes -= (size_t)written;
		if (chunk->at < chunk->size)
			continue;
		queue_head = chunk->next;
		if (queue_head == NULL)
			queue_tail = NULL;
		free(chunk);
	}
}

/* Sends at once when nothing waits; what the socket does not take is kept. */
static void send_bytes(const uint8_t *data, size_t size)
{
	ssize_t written = 0;
	if (queue_head == NULL) {
		written = write(1, data, size);
		if (written < 0 && errno != EAGAIN && errno != EINTR)
			end_all(0);
		if (written < 0)
			written = 0;
	}
	if ((size_t)written < size)
		enqueue(data + written, size - (size_t)written);
}

static void send_frame(uint8_t type, uint32_t stream, const uint8_t *payload, uint32_t length)
{
	uint8_t frame[FRAME_HEADER + 320];
	frame_header(frame, type, stream, length);
	memcpy(frame + FRAME_HEADER, payload, length);
	send_bytes(frame, FRAME_HEADER + length);
}

_Noreturn static void give_up(uint32_t code, const char *why, int status)
{
	uint8_t payload[260];
	size_t length = strnlen(why, 256);
	put32(payload, code);
	memcpy(payload + 4, why, length);
	send_frame(FRAME_FATAL, 0, payload, (uint32_t)(4 + length));
	for (int tries = 0; queue_head != NULL && tries < 50; tries++) {
		poll(&(struct pollfd){.fd = 1, .events = POLLOUT}, 1, 10);
		flush_queue();
	}
	end_all(status);
}

_Noreturn static void malformed(const char *why) { give_up(1, why, EXIT_MALFORMED); }

/* ---- the disk ---- */

static void report_disk(bool always_when_full)
{
	struct statfs disk;
	if (statfs("/", &disk) < 0)
		return;
	uint64_t free_bytes = (uint64_t)disk.f_bavail * (uint64_t)disk.f_bsize;
	bool is_full = free_bytes < DISK_FULL_BYTES || (disk.f_files > 0 && disk.f_ffree == 0);
	bool is_news = is_full && (always_when_full || !disk_was_full);
	disk_was_full = is_full;
	if (!is_news)
		return;
	uint8_t payload[32];
	put64(payload, free_bytes);
	put64(payload + 8, (uint64_t)disk.f_blocks * (uint64_t)disk.f_bsize);
	put64(payload + 16, disk.f_ffree);
	put64(payload + 24, disk.f_files);
	send_frame(FRAME_DISK, 0, payload, sizeof payload);
}

/* ---- streams ---- */

static struct stream *find_stream(uint32_t id)
{
	for (size_t i = 0; i < stream_count; i++)
		if (streams[i]->id == id)
			return streams[i];
	return NULL;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void send_exit(struct stream *s)
{
	uint8_t payload[56];
	if (!s->is_file)
		report_disk(true);
	put32(payload, s->result.kind);
	put32(payload + 4, s->result.value);
	put32(payload + 8, s->result.stage);
	put32(payload + 12, s->killed ? 1 : 0);
	put64(payload + 16, s->discarded[0]);
	put64(payload + 24, s->discarded[1]);
	put64(payload + 32, s->result.user_us);
	put64(payload + 40, s->result.system_us);
	put64(payload + 48, s->result.max_rss_kib);
	send_frame(FRAME_EXIT, s->id, payload, sizeof payload);
	s->exit_sent = true;
}

static void remove_stream(size_t index)
{
	struct stream *s = streams[index];
	uint8_t payload[8];
	put64(payload, s->after_exit);
	send_frame(FRAME_CLOSED, s->id, payload, sizeof payload);
	close_fd(&s->control);
	close_fd(&s->output[0]);
	close_fd(&s->output[1]);
	close_fd(&s->input);
	free(s->stdin_data);
	free(s);
	streams[index] = streams[--stream_count];
	if (stream_count > 0)
		return;
	/* idle again: give the pages of large buffers back */
	madvise((void *)(((uintptr_t)scratch + 4095) & ~(uintptr_t)4095), DATA_MAX - 4096, MADV_DONTNEED);
	if (receive_size == 0) {
		free(receive_data);
		receive_data = NULL;
		receive_capacity = 0;
	}
}

/* An EXIT for a stream that never came to be. */
static void refuse_stream(uint32_t id, int error, enum stage stage)
{
	struct stream refused = {.id = id, .is_file = true, .result = {.kind = KIND_FAILED, .value = (uint32_t)error, .stage = stage}};
	uint8_t none[8] = {0};
	send_exit(&refused);
	send_frame(FRAME_CLOSED, id, none, sizeof none);
}

static void know_exit(struct stream *s, const struct report *report)
{
	s->result = *report;
	s->exit_known = true;
	close_fd(&s->input);
	for (int i = 0; i < 2; i++) {
		int pending = 0;
		if (s->output[i] >= 0 && ioctl(s->output[i], FIONREAD, &pending) == 0 && pending > 0)
			s->drain[i] = (uint64_t)pending;
	}
}

static void read_report(struct stream *s)
{
	struct report report;
	ssize_t size = recv(s->control, &report, sizeof report, MSG_DONTWAIT);
	/* ECONNRESET: it ended with an order of ours unread; what it said before is still to be read (RX-21) */
	if (size < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET))
		return;
	if (size == (ssize_t)sizeof report && report.type == 'X') {
		know_exit(s, &report);
		return;
	}
	if (size == (ssize_t)sizeof report) {
		uint8_t payload[4];
		put32(payload, s->is_file ? 0 : report.value);
		send_frame(FRAME_STARTED, s->id, payload, sizeof payload);
		if (s->input >= 0) {
			put32(payload, STDIN_WINDOW);
			s->stdin_credit = STDIN_WINDOW;
			send_frame(FRAME_STDIN_CREDIT, s->id, payload, sizeof payload);
		}
		return;
	}
	/* the worker is gone: how did it end? */
	int status = 0;
	if (s->worker > 0)
		waitpid(s->worker, &status, 0);
	s->worker = 0;
	close_fd(&s->control);
	s->tree_gone = true;
	if (s->exit_known)
		return;
	if (!s->is_file)
		give_up(2, "the supervisor of a command was killed", EXIT_LOST);
	know_exit(s, &(struct report){.kind = KIND_SIGNALLED, .value = WIFSIGNALED(status) ? (uint32_t)WTERMSIG(status) : SIGKILL});
}

static bool may_read(const struct stream *s, int i)
{
	if (s->output[i] < 0)
		return false;
	return s->discard || s->exit_sent || (s->credit[i] > 0 && queue_bytes < QUEUE_MAX);
}

static void read_output(struct stream *s, int i)
{
	bool counts_only = s->discard || s->exit_sent;
	uint64_t room = counts_only ? DATA_MAX : s->credit[i] < DATA_MAX ? s->credit[i] : DATA_MAX;
	if (s->exit_known && !s->exit_sent && s->drain[i] < room)
		room = s->drain[i];
	if (room == 0)
		return;
	ssize_t size = read(s->output[i], scratch + FRAME_HEADER, room);
	if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
		s->drain[i] = 0;
		return;
	}
	if (size <= 0) { /* end of the pipe; EIO: no process holds the terminal */
		s->drain[i] = 0;
		close_fd(&s->output[i]);
		return;
	}
	if (s->exit_known && !s->exit_sent)
		s->drain[i] -= (uint64_t)size;
	if (s->exit_sent)
		s->after_exit += (uint64_t)size;
	else if (s->discard)
		s->discarded[i] += (uint64_t)size;
	else {
		s->credit[i] -= (uint64_t)size;
		frame_header(scratch, i == 0 ? FRAME_STDOUT : FRAME_STDERR, s->id, (uint32_t)size);
		send_bytes(scratch, FRAME_HEADER + (size_t)size);
	}
}

static void write_stdin(struct stream *s)
{
	while (s->stdin_at < s->stdin_size) {
		ssize_t written = write(s->input, s->stdin_data + s->stdin_at, s->stdin_size - s->stdin_at);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0 && errno == EAGAIN)
			break;
		if (written < 0) { /* EPIPE: nobody reads; what is left goes nowhere */
			s->stdin_owed += s->stdin_size - s->stdin_at;
			s->stdin_at = s->stdin_size;
			close_fd(&s->input);
			break;
		}
		s->stdin_at += (uint32_t)written;
		s->stdin_owed += (uint32_t)written;
	}
	if (s->stdin_at == s->stdin_size) {
		s->stdin_at = s->stdin_size = 0;
		if (s->stdin_eof && s->input >= 0) {
			if (s->is_pty && write(s->input, "\004", 1) < 0 && errno == EAGAIN)
				return;
			close_fd(&s->input);
		}
	}
	if (s->stdin_owed >= STDIN_WINDOW / 4 || (s->stdin_owed > 0 && s->stdin_size == 0)) {
		uint8_t payload[4];
		put32(payload, s->stdin_owed);
		s->stdin_credit += s->stdin_owed;
		s->stdin_owed = 0;
		send_frame(FRAME_STDIN_CREDIT, s->id, payload, sizeof payload);
	}
}

static void take_stdin(struct stream *s, const struct frame *frame)
{
	if (frame->length > s->stdin_credit || s->stdin_eof)
		malformed("stdin beyond its credit");
	s->stdin_credit -= frame->length;
	if (s->input < 0) { /* nobody reads any more: the host must not wait for credit */
		s->stdin_owed += frame->length;
		write_stdin(s);
		return;
	}
	if (s->stdin_data == NULL && (s->stdin_data = malloc(2 * STDIN_WINDOW)) == NULL)
		end_all(EXIT_LOST);
	if (s->stdin_at > 0) {
		memmove(s->stdin_data, s->stdin_data + s->stdin_at, s->stdin_size - s->stdin_at);
		s->stdin_size -= s->stdin_at;
		s->stdin_at = 0;
	}
	memcpy(s->stdin_data + s->stdin_size, frame->payload, frame->length);
	s->stdin_size += frame->length;
	write_stdin(s);
}

/* ---- starting ---- */

static bool nonblocking(int fd) { return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0; }

static bool make_pipe(int *ours, int *theirs, bool ours_reads)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return false;
	*ours = fds[ours_reads ? 0 : 1];
	*theirs = fds[ours_reads ? 1 : 0];
	if (ours_reads)
		fcntl(fds[0], F_SETPIPE_SZ, PIPE_BYTES); /* refused past the user's share: then smaller */
	return nonblocking(*ours);
}

static bool open_pty(struct stream *s, const struct spawn_spec *spec, struct child_io *io)
{
	/* the terminal belongs to who will sit at it */
	setfsuid(spec->identity.uid);
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	int unlocked = master < 0 ? -1 : unlockpt(master);
	int slave = unlocked < 0 ? -1 : ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	setfsuid(0);
	if (slave < 0) {
		close_fd(&master);
		return false;
	}
	struct winsize size = {.ws_row = spec->rows ? spec->rows : 24, .ws_col = spec->columns ? spec->columns : 80};
	ioctl(master, TIOCSWINSZ, &size);
	s->output[0] = master;
	s->input = fcntl(master, F_DUPFD_CLOEXEC, 3);
	io->stdin_fd = io->stdout_fd = io->stderr_fd = slave;
	io->is_pty = s->is_pty = true;
	return nonblocking(master);
}

static bool open_pipes(struct stream *s, bool has_stdin, bool has_stderr, struct child_io *io)
{
	if (!make_pipe(&s->output[0], &io->stdout_fd, true) || (has_stderr && !make_pipe(&s->output[1], &io->stderr_fd, true)))
		return false;
	return !has_stdin || make_pipe(&s->input, &io->stdin_fd, false);
}

static void close_theirs(struct child_io *io)
{
	int seen = -1;
	for (int *fd = &io->stdin_fd; fd <= &io->stderr_fd; fd++) {
		if (*fd >= 0 && *fd != seen)
			close(*fd);
		seen = *fd >= 0 ? *fd : seen;
	}
	close_fd(&io->control_fd);
}

static struct stream *new_stream(const struct frame *frame, bool is_file, const uint32_t credit[2])
{
	if (find_stream(frame->stream) != NULL)
		malformed("stream is open already");
	if (stream_count == STREAMS_MAX) {
		refuse_stream(frame->stream, EAGAIN, STAGE_NONE);
		return NULL;
	}
	struct stream *s = calloc(1, sizeof *s);
	if (s == NULL) {
		refuse_stream(frame->stream, ENOMEM, STAGE_NONE);
		return NULL;
	}
	*s = (struct stream){.id = frame->stream, .is_file = is_file, .control = -1, .output = {-1, -1}, .input = -1,
	                     .credit = {credit[0], credit[1]}, .file_kill_at = -1};
	return s;
}

static void abandon(struct stream *s, struct child_io *io, int error, enum stage stage)
{
	close_theirs(io);
	close_fd(&s->control);
	close_fd(&s->output[0]);
	close_fd(&s->output[1]);
	close_fd(&s->input);
	refuse_stream(s->id, error, stage);
	free(s);
}

static void start(const struct frame *frame, bool is_file)
{
	const char *why;
	struct spawn_spec spawn;
	struct file_spec file;
	if (is_file ? !file_parse(frame->payload, frame->length, &file, &why) : !spawn_parse(frame->payload, frame->length, &spawn, &why))
		malformed(why);
	struct stream *s = new_stream(frame, is_file, is_file ? file.credit : spawn.credit);
	if (s == NULL)
		return;
	struct child_io io = {.stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1, .control_fd = -1};
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		abandon(s, &io, errno, STAGE_PIPES);
		return;
	}
	s->control = pair[0];
	io.control_fd = pair[1];
	bool is_pty = !is_file && (spawn.flags & SPAWN_PTY) != 0;
	bool has_stdin = is_file ? file.op == FILE_WRITE : (spawn.flags & SPAWN_STDIN) != 0;
	if (is_pty ? !open_pty(s, &spawn, &io) : !open_pipes(s, has_stdin, !is_file, &io)) {
		abandon(s, &io, errno, is_pty ? STAGE_PTY : STAGE_PIPES);
		return;
	}
	pid_t worker = fork();
	if (worker == 0 && is_file)
		file_worker(&file, io.stdin_fd, io.stdout_fd, io.control_fd);
	if (worker == 0)
		supervise(&spawn, frame->payload, frame->length, &io);
	if (worker < 0) {
		abandon(s, &io, errno, STAGE_FORK);
		return;
	}
	s->worker = worker;
	close_theirs(&io);
	streams[stream_count++] = s;
}

/* ---- frames ---- */

static void order(struct stream *s, uint8_t type, uint32_t number, uint32_t scope)
{
	if (s->control < 0)
		return;
	if (s->is_file) {
		if (type == 'k' && s->worker > 0 && kill(s->worker, SIGTERM) == 0 && s->file_kill_at < 0)
			s->file_kill_at = boot_ms() + FILE_KILL_MS;
		return;
	}
	if (send(s->control, &(struct order){type, number, scope}, sizeof(struct order), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EPIPE && errno != EAGAIN)
		give_up(2, "a supervisor cannot be reached", EXIT_LOST);
}

static void hello(const struct frame *frame)
{
	if (greeted || get16(frame->payload) != VERSION || get16(frame->payload + 2) != 0)
		malformed("bad HELLO");
	greeted = true;
	uint64_t lifetime = get64(frame->payload + 4);
	if (lifetime > 0)
		lifetime_end = boot_ms() + (int64_t)(lifetime < INT64_MAX / 2 ? lifetime : INT64_MAX / 2);
	uint8_t payload[4] = {VERSION, 0, 0, 0};
	send_frame(FRAME_READY, 0, payload, sizeof payload);
}

static void about_stream(struct stream *s, const struct frame *frame)
{
	const uint8_t *p = frame->payload;
	switch (frame->type) {
	case FRAME_STDIN: take_stdin(s, frame); break;
	case FRAME_STDIN_EOF:
		s->stdin_eof = true;
		if (s->input >= 0)
			write_stdin(s);
		break;
	case FRAME_CREDIT:
		if (get32(p) < 1 || get32(p) > 2)
			malformed("bad channel of CREDIT");
		s->credit[get32(p) - 1] += get32(p + 4);
		break;
	case FRAME_SIGNAL:
		if (get32(p) < 1 || get32(p) > 64 || get32(p + 4) > 1)
			malformed("bad SIGNAL");
		order(s, 's', get32(p), get32(p + 4));
		break;
	case FRAME_KILL:
		s->killed = s->killed || !s->exit_known;
		order(s, 'k', get32(p), 0);
		break;
	case FRAME_RESIZE:
		if (s->is_pty && s->output[0] >= 0)
			ioctl(s->output[0], TIOCSWINSZ, &(struct winsize){.ws_row = get16(p), .ws_col = get16(p + 2)});
		break;
	default: s->discard = true;
	}
}

static void take_frame(const struct frame *frame)
{
	if (!greeted && frame->type != FRAME_HELLO)
		malformed("the first frame is not HELLO");
	switch (frame->type) {
	case FRAME_HELLO: hello(frame); return;
	case FRAME_SPAWN: start(frame, false); return;
	case FRAME_FILE: start(frame, true); return;
	case FRAME_PING: send_frame(FRAME_PONG, 0, frame->payload, 8); return;
	default: break;
	}
	struct stream *s = find_stream(frame->stream);
	if (s != NULL)
		about_stream(s, frame);
}

static void receive(void)
{
	if (receive_capacity - receive_size < RECEIVE_MIN / 2) {
		receive_capacity = receive_capacity == 0 ? RECEIVE_MIN : receive_capacity * 2;
		receive_data = realloc(receive_data, receive_capacity);
		if (receive_data == NULL)
			end_all(EXIT_LOST);
	}
	ssize_t size = read(0, receive_data + receive_size, receive_capacity - receive_size);
	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (size <= 0)
		end_all(0);
	receive_size += (size_t)size;
	size_t at = 0;
	for (;;) {
		struct frame frame;
		size_t used;
		const char *why;
		enum parse parse = frame_parse(receive_data + at, receive_size - at, &frame, &used, &why);
		if (parse == PARSE_BAD)
			malformed(why);
		if (parse == PARSE_MORE)
			break;
		take_frame(&frame);
		at += used;
	}
	memmove(receive_data, receive_data + at, receive_size - at);
	receive_size -= at;
	if (receive_size == 0 && receive_capacity > RECEIVE_MIN) {
		free(receive_data);
		receive_data = NULL;
		receive_capacity = 0;
	}
}

/* ---- the loop ---- */

struct place {
	struct stream *stream;
	int what; /* 0, 1 output; 2 input; 3 control */
};
static struct pollfd fds[2 + 4 * STREAMS_MAX];
static struct place places[2 + 4 * STREAMS_MAX];

static size_t add_fd(size_t count, struct stream *s, int what, int fd, short events)
{
	fds[count] = (struct pollfd){.fd = fd, .events = events};
	places[count] = (struct place){s, what};
	return count + 1;
}

static size_t gather(void)
{
	size_t count = add_fd(0, NULL, 0, 0, POLLIN);
	count = add_fd(count, NULL, 1, 1, queue_head != NULL ? POLLOUT : 0);
	for (size_t turn = 0; turn < stream_count; turn++) {
		struct stream *s = streams[(turn + next_turn) % stream_count];
		for (int i = 0; i < 2; i++)
			if (may_read(s, i))
				count = add_fd(count, s, i, s->output[i], POLLIN);
		if (s->input >= 0 && (s->stdin_at < s->stdin_size || s->stdin_eof))
			count = add_fd(count, s, 2, s->input, POLLOUT);
		if (s->control >= 0)
			count = add_fd(count, s, 3, s->control, POLLIN);
	}
	next_turn++;
	return count;
}

static int sooner(int timeout, int64_t at, int64_t now)
{
	int64_t left = at - now < 0 ? 0 : at - now > 60000 ? 60000 : at - now;
	return timeout < 0 || left < timeout ? (int)left : timeout;
}

static int next_timeout(void)
{
	int64_t now = boot_ms();
	int timeout = lifetime_end < 0 ? -1 : sooner(-1, lifetime_end, now);
	bool has_spawn = false;
	for (size_t i = 0; i < stream_count; i++) {
		has_spawn = has_spawn || (!streams[i]->is_file && !streams[i]->exit_sent);
		if (streams[i]->file_kill_at >= 0)
			timeout = sooner(timeout, streams[i]->file_kill_at, now);
	}
	return has_spawn ? sooner(timeout, next_disk, now) : timeout;
}

static void keep_time(void)
{
	int64_t now = boot_ms();
	if (lifetime_end >= 0 && now >= lifetime_end)
		end_all(EXIT_LIFETIME);
	if (now >= next_disk) {
		next_disk = now + DISK_EVERY_MS;
		report_disk(false);
	}
	for (size_t i = 0; i < stream_count; i++)
		if (streams[i]->file_kill_at >= 0 && now >= streams[i]->file_kill_at && streams[i]->worker > 0) {
			kill(streams[i]->worker, SIGKILL);
			streams[i]->file_kill_at = -1;
		}
}

/* What is known but waits for its turn: the drained exits and the ended trees. */
static void settle(void)
{
	for (size_t i = stream_count; i-- > 0;) {
		struct stream *s = streams[i];
		/* bytes that are to be discarded need no poll to be read */
		if (s->exit_known && !s->exit_sent)
			for (int j = 0; j < 2; j++)
				while (s->drain[j] > 0 && may_read(s, j))
					read_output(s, j);
		if (s->exit_known && !s->exit_sent && s->drain[0] == 0 && s->drain[1] == 0)
			send_exit(s);
		if (s->exit_sent && s->tree_gone)
			remove_stream(i);
	}
}

static void handle(struct place place, short events)
{
	if (events == 0 || place.stream == NULL)
		return;
	if (place.what < 2 && place.stream->output[place.what] >= 0)
		read_output(place.stream, place.what);
	else if (place.what == 2 && place.stream->input >= 0)
		write_stdin(place.stream);
	else if (place.what == 3 && place.stream->control >= 0)
		read_report(place.stream);
}

/* Orphans of the sandbox; workers are waited for where their control socket closes. */
static void reap_orphans(void)
{
	siginfo_t info;
	for (;;) {
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
			return;
		for (size_t i = 0; i < stream_count; i++)
			if (streams[i]->worker == info.si_pid && streams[i]->control >= 0)
				return; /* read_report reaps it, soon */
		waitpid(info.si_pid, NULL, WNOHANG);
	}
}

int main(void)
{
	prctl(PR_SET_DUMPABLE, 0);
	signal(SIGPIPE, SIG_IGN);
	proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (proc_fd < 0 || !nonblocking(0) || !nonblocking(1) || fcntl(0, F_SETFD, FD_CLOEXEC) < 0 || fcntl(1, F_SETFD, FD_CLOEXEC) < 0) {
		fprintf(stderr, "init: cannot start: %s\n", strerror(errno));
		return EXIT_LOST;
	}
	for (;;) {
		size_t count = gather();
		if (poll(fds, count, next_timeout()) < 0 && errno != EINTR)
			end_all(EXIT_LOST);
		keep_time();
		if (fds[1].revents & (POLLERR | POLLHUP | POLLNVAL))
			end_all(0);
		flush_queue();
		for (size_t i = 2; i < count; i++)
			handle(places[i], fds[i].revents);
		settle();
		reap_orphans();
		if (fds[0].revents != 0)
			receive();
	}
}
