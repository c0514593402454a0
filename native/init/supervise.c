/*
 * supervise: one process a command, uid 0, between init and the command. As a subreaper it inherits whatever the command
 * leaves behind, also what was double-forked and setsid, so "the tree" is always its descendants. It ends with status 0
 * when none is left, never before; anything else makes init give up the sandbox.
 */
#define _GNU_SOURCE
#include "process.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process in an uninterruptible wait outlives many rounds: then slower, so that waiting for it costs little. */
enum { KILL_ROUND_MS = 2, SLOW_KILL_ROUND_MS = 20, FAST_KILL_ROUNDS = 100 };
enum killing { NOT_KILLING, GRACE, KILLING };

struct supervisor {
	int control, proc, signals, failure;
	pid_t main;
	bool main_is_reaped, kills_tree;
	enum killing killing;
	int64_t kill_at_ms;
	int kill_rounds;
};

static void report_failed(int control, int error, enum stage stage)
{
	report_send(control, &(struct report){.kind = REPORT_FAILED, .value = (uint32_t)error, .stage = stage});
}

/* The pipe closes with execve (CLOEXEC) or carries the reason why not: one of both has happened when this is called. */
static void settle_start(struct supervisor *self)
{
	struct report report;
	const ssize_t size = read(self->failure, &report, sizeof report);
	if (size < 0 && errno == EINTR) return;
	if (size != (ssize_t)sizeof report) report = (struct report){.kind = REPORT_STARTED, .value = (uint32_t)self->main};
	report_send(self->control, &report);
	close(self->failure);
	self->failure = -1;
	/* nothing more is to be said about a command that never ran */
	if (report.kind == REPORT_FAILED) self->main_is_reaped = true;
}

static uint64_t micros(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

static void report_end(struct supervisor *self, int status, const struct rusage *usage)
{
	/* it has ended, so the pipe has an answer now */
	while (self->failure >= 0) settle_start(self);
	if (self->main_is_reaped) return;
	self->main_is_reaped = true;
	const bool exited = WIFEXITED(status);
	report_send(self->control, &(struct report){
		.kind = exited ? REPORT_EXITED : REPORT_SIGNALLED,
		.value = (uint32_t)(exited ? WEXITSTATUS(status) : WTERMSIG(status)),
		.user_us = micros(usage->ru_utime), .system_us = micros(usage->ru_stime),
		.max_rss_kib = (uint64_t)usage->ru_maxrss});
	if (self->kills_tree) self->killing = KILLING;
}

static void reap(struct supervisor *self)
{
	for (;;) {
		int status;
		struct rusage usage;
		const pid_t pid = wait4(-1, &status, WNOHANG, &usage);
		if (pid == 0) return;
		if (pid < 0 && errno == ECHILD) _exit(0);
		if (pid == self->main) report_end(self, status, &usage);
	}
}

static void scan_or_give_up(const struct supervisor *self)
{
	if (tree_scan(self->proc) < 0) _exit(1);
}

/* Stopped processes cannot fork: what a fork bomb bears between the two scans is all that escapes this round. */
static void kill_round(struct supervisor *self)
{
	if (self->kill_rounds < FAST_KILL_ROUNDS) self->kill_rounds++;
	const int found = tree_scan(self->proc);
	if (found < 0) _exit(1);
	if (found > 1) {
		tree_signal(SIGSTOP);
		scan_or_give_up(self);
	}
	tree_signal(SIGKILL);
}

static void begin_kill(struct supervisor *self, uint32_t grace_ms)
{
	const int64_t at = now_ms() + grace_ms;
	if (self->killing == KILLING || (self->killing == GRACE && at >= self->kill_at_ms)) return;
	self->kill_at_ms = at;
	self->killing = grace_ms == 0 ? KILLING : GRACE;
	if (grace_ms == 0) return;
	scan_or_give_up(self);
	tree_signal(SIGTERM);
	tree_signal(SIGCONT);
}

static void obey(struct supervisor *self, const struct order *order)
{
	switch (order->kind) {
	case ORDER_KILL:
		begin_kill(self, order->value);
		return;
	case ORDER_SIGNAL_TREE:
		scan_or_give_up(self);
		tree_signal((int)order->value);
		return;
	case ORDER_SIGNAL_MAIN:
		if (!self->main_is_reaped) kill(self->main, (int)order->value);
	}
}

static void take_orders(struct supervisor *self)
{
	struct order order;
	ssize_t size;
	while ((size = recv(self->control, &order, sizeof order, MSG_DONTWAIT)) == (ssize_t)sizeof order) obey(self, &order);
	/* init is gone, and with it, a moment later, the whole pid namespace */
	if (size == 0) _exit(1);
}

static int wait_ms(const struct supervisor *self)
{
	if (self->killing == NOT_KILLING) return -1;
	if (self->killing == KILLING) return self->kill_rounds < FAST_KILL_ROUNDS ? KILL_ROUND_MS : SLOW_KILL_ROUND_MS;
	const int64_t left = self->kill_at_ms - now_ms();
	if (left <= 0) return 0;
	return left > 60000 ? 60000 : (int)left;
}

_Noreturn static void keep_watch(struct supervisor *self)
{
	for (;;) {
		struct pollfd polled[] = {
			{.fd = self->failure, .events = POLLIN}, {.fd = self->control, .events = POLLIN}, {.fd = self->signals, .events = POLLIN}};
		poll(polled, 3, wait_ms(self));
		if (polled[0].revents != 0) settle_start(self);
		struct signalfd_siginfo info;
		while (polled[2].revents != 0 && read(self->signals, &info, sizeof info) > 0) continue;
		reap(self);
		if (polled[1].revents != 0) take_orders(self);
		if (self->killing == GRACE && now_ms() >= self->kill_at_ms) self->killing = KILLING;
		if (self->killing == KILLING) kill_round(self);
	}
}

static void fork_command(struct supervisor *self, const struct request *request, uint8_t *payload, size_t size, struct child_ends ends)
{
	int failure[2];
	if (pipe2(failure, O_CLOEXEC) != 0) {
		report_failed(self->control, errno, STAGE_PIPES);
		_exit(0);
	}
	self->main = fork();
	if (self->main == 0) run_command(request, payload, size, ends, failure[1]);
	if (self->main < 0) {
		report_failed(self->control, errno, STAGE_FORK);
		_exit(0);
	}
	close(failure[1]);
	self->failure = failure[0];
	/* whoever keeps an end of a command's pipe keeps its reader from seeing the end */
	close(ends.in);
	close(ends.out);
	close(ends.err);
}

void supervise(const struct request *request, uint8_t *payload, size_t size, struct child_ends ends)
{
	int keep[] = {ends.in, ends.out, ends.err, ends.control};
	close_others(keep, sizeof keep / sizeof *keep);
	/* not closed: a number below 3 must stay taken until the command's own descriptors are put there */
	dup2(2, 0);
	dup2(2, 1);
	prctl(PR_SET_NAME, "sallyport-exec");
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	sigset_t child;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	struct supervisor self = {
		.control = ends.control, .proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK), .kills_tree = (request->flags & SPAWN_KILL_TREE) != 0};
	if (self.signals < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
		report_failed(self.control, errno, STAGE_FORK);
		_exit(0);
	}
	fork_command(&self, request, payload, size, ends);
	buffers_release();
	keep_watch(&self);
}
