/*
 * init: PID 1 of a sandbox. Speaks docs/init-protocol.md over stdin and stdout. It never outlives its host's end of the
 * channel or its lifetime, and with it ends every process of its pid namespace.
 */
#define _GNU_SOURCE
#include "stream.h"
#include "out.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	EXIT_SETUP = 64,
	PAGE = 4096,
	/* one whole frame, and room for the byte that request_strings writes past the last text */
	INPUT_BYTES = FRAME_MAX + PAGE,
	INPUT_STEP = 256 << 10,
	SOCKET_BYTES = 1 << 20,
	EVENTS = 64,
	TICK_MS = 200,
	FAREWELL_MS = 500,
	FATAL_TEXT_MAX = 256,
};

static _Alignas(PAGE) uint8_t input[INPUT_BYTES];
static size_t input_first, input_end;
static bool greeted;
static int events_fd = -1;
static struct source channel_in = {.fd = 0}, channel_out = {.fd = 1}, signals, lifetime;

bool source_watch(struct source *source, uint32_t events)
{
	struct epoll_event event = {.events = events | EPOLLET, .data.ptr = source};
	return epoll_ctl(events_fd, EPOLL_CTL_ADD, source->fd, &event) == 0;
}

/* Deleted by hand: a child that was just forked may hold a copy, and with it keep a closed descriptor in the set. */
void source_close(struct source *source)
{
	if (source->fd < 0) return;
	epoll_ctl(events_fd, EPOLL_CTL_DEL, source->fd, NULL);
	close(source->fd);
	*source = (struct source){.fd = -1};
}

void buffers_release(void)
{
	madvise(input, sizeof input, MADV_DONTNEED);
	streams_release();
	out_release();
}

/* The C library's start touches most of the program once: unmapped again, an idle init maps only what its loop needs. */
static void forget_code(void)
{
	extern char __executable_start[], etext[];
	const uintptr_t from = (uintptr_t)__executable_start, to = (uintptr_t)etext & ~(uintptr_t)(PAGE - 1);
	madvise((void *)from, to - from, MADV_DONTNEED);
}

static void log_line(const char *text)
{
	const char *parts[] = {"init: ", text, "\n"};
	for (int i = 0; i < 3; i++)
		if (write(2, parts[i], strlen(parts[i])) < 0) return;
}

_Noreturn static void end_sandbox(int status)
{
	/* never as anything but the init of a namespace: there -1 means the host */
	if (getpid() == 1) kill(-1, SIGKILL);
	_exit(status);
}

void fatal(uint32_t code, const char *text)
{
	uint8_t payload[4 + FATAL_TEXT_MAX];
	const size_t size = strnlen(text, FATAL_TEXT_MAX);
	memcpy(put_u32(payload, code), text, size);
	out_frame(FATAL, 0, payload, (uint32_t)(4 + size));
	log_line(text);
	const int64_t until = now_ms() + FAREWELL_MS;
	bool blocked;
	while (out_flush(1, &blocked) && blocked && now_ms() < until) poll(&(struct pollfd){.fd = 1, .events = POLLOUT}, 1, 50);
	end_sandbox((int)code);
}

static void greet(const uint8_t *payload)
{
	if (greeted) fatal(EXIT_MALFORMED, "a second HELLO");
	greeted = true;
	const uint64_t lifetime_ms = get_u64(payload + 4);
	const struct itimerspec timer = {
		.it_value = {.tv_sec = (time_t)(lifetime_ms / 1000), .tv_nsec = (long)(lifetime_ms % 1000) * 1000000}};
	if (timerfd_settime(lifetime.fd, 0, &timer, NULL) != 0) fatal(EXIT_SETUP, "the lifetime cannot be timed");
	uint8_t answer[4];
	put_u16(put_u16(answer, PROTOCOL_VERSION), 0);
	out_frame(READY, 0, answer, sizeof answer);
}

static void open_stream(const struct frame *frame)
{
	struct request request;
	if (stream_find(frame->stream) != NULL) fatal(EXIT_MALFORMED, "a SPAWN or FILE for an open stream");
	if (!request_parse(frame->type, frame->payload, frame->size, &request)) fatal(EXIT_MALFORMED, "a malformed SPAWN or FILE");
	stream_open(frame->stream, frame->type, &request, input + (frame->payload - input), frame->size);
}

static void resize(struct stream *stream, const uint8_t *payload)
{
	const struct winsize size = {.ws_row = get_u16(payload), .ws_col = get_u16(payload + 2)};
	const int fd = stream->channels[0].source.fd;
	if (stream->terminal && fd >= 0) ioctl(fd, TIOCSWINSZ, &size);
}

static void handle_of_stream(struct stream *stream, const struct frame *frame)
{
	const uint8_t *payload = frame->payload;
	switch (frame->type) {
	case STDIN:
		if (!stream_input(stream, payload, frame->size)) fatal(EXIT_MALFORMED, "more STDIN than its credit");
		return;
	case STDIN_EOF: stream_input_end(stream); return;
	case CREDIT: stream->channels[get_u32(payload) - 1].credit += get_u32(payload + 4); return;
	case SIGNAL: stream_order(stream, get_u32(payload + 4) == 0 ? ORDER_SIGNAL_MAIN : ORDER_SIGNAL_TREE, get_u32(payload)); return;
	case KILL: stream_kill(stream, get_u32(payload)); return;
	case RESIZE: resize(stream, payload); return;
	default: stream->discards = true;
	}
}

static void handle(const struct frame *frame)
{
	if (frame->type != HELLO && !greeted) fatal(EXIT_MALFORMED, "a frame before HELLO");
	switch (frame->type) {
	case HELLO: greet(frame->payload); return;
	case PING: out_frame(PONG, 0, frame->payload, frame->size); return;
	case SPAWN:
	case FILE_OP: open_stream(frame); return;
	default: break;
	}
	struct stream *stream = stream_find(frame->stream);
	if (stream != NULL) handle_of_stream(stream, frame);
}

/* @return whether a frame was handled */
static bool handle_input(void)
{
	bool any = false;
	while (!out_is_congested()) {
		struct frame frame;
		const enum frame_result result = frame_take(input + input_first, input_end - input_first, &frame);
		if (result == FRAME_MALFORMED) fatal(EXIT_MALFORMED, "a malformed frame");
		if (result == FRAME_INCOMPLETE) break;
		handle(&frame);
		input_first += FRAME_HEADER + (size_t)frame.size;
		any = true;
	}
	if (input_first == input_end) input_first = input_end = 0;
	return any;
}

/* @return whether bytes came in */
static bool read_input(void)
{
	if (!channel_in.ready || out_is_congested()) return false;
	size_t space = INPUT_BYTES - 1 - input_end;
	if (space < INPUT_STEP && input_first > 0) {
		memmove(input, input + input_first, input_end - input_first);
		input_end -= input_first;
		input_first = 0;
		space = INPUT_BYTES - 1 - input_end;
	}
	const ssize_t size = read(channel_in.fd, input + input_end, space < INPUT_STEP ? space : INPUT_STEP);
	if (size == 0) end_sandbox(0);
	if (size > 0) {
		input_end += (size_t)size;
		return true;
	}
	if (errno == EAGAIN) channel_in.ready = false;
	else if (errno != EINTR) end_sandbox(0);
	return false;
}

/* @return whether bytes went out */
static bool write_output(void)
{
	if (!channel_out.ready || out_is_empty()) return false;
	bool blocked;
	if (!out_flush(channel_out.fd, &blocked)) end_sandbox(0);
	if (blocked) channel_out.ready = false;
	return !blocked;
}

static void reap(void)
{
	struct signalfd_siginfo info;
	while (read(signals.fd, &info, sizeof info) > 0) continue;
	int status;
	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) stream_reaped(pid, status);
	signals.ready = false;
}

/* @return ms that the loop may sleep */
static int patience(bool moved, bool idle)
{
	if (moved) return 0;
	const int next = streams_deadline();
	if (idle && !streams_have_spawn()) return next;
	return next >= 0 && next < TICK_MS ? next : TICK_MS;
}

static int wait_for_events(int timeout_ms)
{
	struct epoll_event events[EVENTS];
	const int count = epoll_wait(events_fd, events, EVENTS, timeout_ms);
	for (int i = 0; i < count; i++) ((struct source *)events[i].data.ptr)->ready = true;
	return count;
}

_Noreturn static void run(void)
{
	bool moved = false, clean = true;
	for (int64_t disk_at = 0;;) {
		const int timeout = patience(moved, clean);
		const int count = wait_for_events(timeout);
		if (lifetime.ready) fatal(EXIT_LIFETIME, "the sandbox's lifetime is over");
		if (signals.ready) reap();
		moved = read_input();
		moved |= handle_input();
		moved |= streams_turn();
		moved |= write_output();
		if (moved) clean = false;
		else if (count == 0 && !clean && timeout != 0 && input_end == 0 && out_is_empty()) {
			buffers_release();
			forget_code();
			clean = true;
		}
		if (!streams_have_spawn() || now_ms() < disk_at) continue;
		disk_check(false);
		disk_at = now_ms() + TICK_MS;
	}
}

static void raise_open_files(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static bool prepare_signals(void)
{
	/*
	 * The raw call: what a parent ignored stays ignored through execve, and libc's signal() refuses the two numbers that
	 * it keeps for its threads (make starts its children with those ignored).
	 */
	const uint64_t by_default[4] = {0}; /* struct kernel_sigaction: SIG_DFL, no flags, no restorer, empty mask */
	for (int number = 1; number < NSIG; number++) syscall(SYS_rt_sigaction, number, by_default, NULL, sizeof(uint64_t));
	signal(SIGPIPE, SIG_IGN);
	sigset_t child;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	signals.fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	return signals.fd >= 0 && sigprocmask(SIG_SETMASK, &child, NULL) == 0;
}

static bool prepare_channel(void)
{
	const int bytes = SOCKET_BYTES;
	/* a pipe has no such option: then it stays as it is */
	setsockopt(channel_out.fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	return fcntl(channel_in.fd, F_SETFL, O_NONBLOCK) == 0 && fcntl(channel_out.fd, F_SETFL, O_NONBLOCK) == 0;
}

static bool prepare(void)
{
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	prctl(PR_SET_NAME, "sallyport-init");
	close_others(NULL, 0);
	raise_open_files();
	events_fd = epoll_create1(EPOLL_CLOEXEC);
	lifetime.fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (events_fd < 0 || lifetime.fd < 0 || !prepare_signals() || !prepare_channel()) return false;
	return source_watch(&signals, EPOLLIN) && source_watch(&lifetime, EPOLLIN) &&
		source_watch(&channel_in, EPOLLIN | EPOLLRDHUP) && source_watch(&channel_out, EPOLLOUT);
}

int main(void)
{
	if (getpid() != 1 || fcntl(0, F_GETFD) < 0 || fcntl(1, F_GETFD) < 0 || fcntl(2, F_GETFD) < 0) {
		log_line("must be PID 1 of a sandbox, with a channel as stdin and stdout and a log as stderr");
		return EXIT_SETUP;
	}
	if (!prepare()) {
		log_line("cannot set up");
		return EXIT_SETUP;
	}
	forget_code();
	run();
}
