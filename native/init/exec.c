/*
 * A command and its supervisor. The supervisor is the subreaper of everything that the command starts, stays root (in the
 * sandbox's user namespace) so that the command cannot signal it, and holds no pipe of the command.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "init.h"

enum { PROCS_MAX = 65536, KILL_EVERY_MS = 2, STOP_PASSES = 3 };

struct exec_error {
	int number;
	uint32_t stage;
};

void close_all_but(int *keep, size_t count)
{
	for (size_t i = 1; i < count; i++)
		for (size_t j = i; j > 0 && keep[j - 1] > keep[j]; j--) {
			int swap = keep[j];
			keep[j] = keep[j - 1];
			keep[j - 1] = swap;
		}
	int next = 0;
	for (size_t i = 0; i < count; i++) {
		if (keep[i] < next)
			continue;
		if (keep[i] > next)
			syscall(SYS_close_range, (unsigned)next, (unsigned)keep[i] - 1, 0U);
		next = keep[i] + 1;
	}
	syscall(SYS_close_range, (unsigned)next, ~0U, 0U);
}

static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}, {0}};
	syscall(SYS_capset, &header, none);
}

enum stage become(const struct identity *identity, bool keep_root)
{
	gid_t groups[GROUPS_MAX];
	for (size_t i = 0; i < identity->group_count; i++)
		groups[i] = identity->groups[i];
	/* the bounding set first: dropping from it needs CAP_SETPCAP, which the uid change takes away */
	for (int capability = 0; !keep_root && capability <= CAP_LAST_CAP; capability++)
		if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0 && errno != EINVAL)
			return STAGE_CAPABILITIES;
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (setgroups(identity->group_count, groups) < 0 || setresgid(identity->gid, identity->gid, identity->gid) < 0 ||
	    setresuid(identity->uid, identity->uid, identity->uid) < 0)
		return STAGE_IDENTITY;
	if (keep_root)
		return STAGE_NONE;
	drop_capabilities();
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? STAGE_CAPABILITIES : STAGE_NONE;
}

/* What runs in the sandbox is what the OOM killer takes before init (RX-17); raising needs no privilege. */
static void prefer_for_oom(void)
{
	int fd = openat(proc_fd, "self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, "500", 3) != 3) {
		/* a lower preference is no reason not to run */
	}
	close(fd);
}

static void set_limits(uint64_t nofile)
{
	struct rlimit limit;
	if (nofile > 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		/* never above the hard limit: that would need CAP_SYS_RESOURCE */
		limit.rlim_max = nofile < limit.rlim_max ? nofile : limit.rlim_max;
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
}

static void reset_signals(void)
{
	sigset_t none;
	sigemptyset(&none);
	for (int number = 1; number <= SIGRTMAX; number++)
		signal(number, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Strings of the payload as NULL-terminated vectors. Freed by execve or the end of the process. */
static bool make_vectors(const struct spawn_spec *spec, const uint8_t *payload, uint32_t length, char ***argv, char ***envp)
{
	char *strings = malloc(spec->string_bytes);
	*argv = calloc(spec->arg_count + 1u, sizeof **argv);
	*envp = calloc(spec->env_count + 1u, sizeof **envp);
	if (strings == NULL || *argv == NULL || *envp == NULL)
		return false;
	struct cursor cursor = {payload, length};
	struct field field;
	const char *why;
	size_t args = 0, envs = 0;
	while (field_next(&cursor, &field, &why)) {
		if (field.tag != TAG_ARG && field.tag != TAG_ENV)
			continue;
		*(field.tag == TAG_ARG ? &(*argv)[args++] : &(*envp)[envs++]) = strings;
		memcpy(strings, field.value.data, field.value.length);
		strings[field.value.length] = '\0';
		strings += field.value.length + 1;
	}
	return true;
}

static const char *path_of(char **envp)
{
	for (; *envp != NULL; envp++)
		if (strncmp(*envp, "PATH=", 5) == 0)
			return *envp + 5;
	return "/usr/local/bin:/usr/bin:/bin";
}

/* execve along PATH as a shell does: EACCES is remembered, other errors of a candidate go on to the next. */
static void exec_along_path(char **argv, char **envp)
{
	if (strchr(argv[0], '/') != NULL || argv[0][0] == '\0') {
		execve(argv[0], argv, envp);
		return;
	}
	int remembered = ENOENT;
	char candidate[PATH_BYTES_MAX + 1];
	for (const char *part = path_of(envp); part != NULL; part = strchr(part, ':') ? strchr(part, ':') + 1 : NULL) {
		int folder = (int)strcspn(part, ":");
		int length = snprintf(candidate, sizeof candidate, "%.*s/%s", folder ? folder : 1, folder ? part : ".", argv[0]);
		if (length < 0 || (size_t)length >= sizeof candidate)
			continue;
		execve(candidate, argv, envp);
		if (errno == EACCES)
			remembered = EACCES;
		else if (errno != ENOENT && errno != ENOTDIR) {
			remembered = errno;
			break;
		}
	}
	errno = remembered;
}

_Noreturn static void fail_exec(int error_fd, enum stage stage)
{
	struct exec_error error = {errno, stage};
	if (write(error_fd, &error, sizeof error) < 0)
		_exit(126);
	_exit(127);
}

_Noreturn static void run_command(const struct spawn_spec *spec, const uint8_t *payload, uint32_t length, const struct child_io *io, int error_fd)
{
	bool is_root = (spec->flags & SPAWN_ROOT) != 0;
	char **argv, **envp, cwd[PATH_BYTES_MAX + 1];
	if (!make_vectors(spec, payload, length, &argv, &envp))
		fail_exec(error_fd, STAGE_DECODE);
	memcpy(cwd, spec->cwd.data, spec->cwd.length);
	cwd[spec->cwd.length] = '\0';
	reset_signals();
	setsid();
	if (io->is_pty && ioctl(io->stdin_fd, TIOCSCTTY, 0) < 0)
		fail_exec(error_fd, STAGE_PTY);
	int null_fd = io->stdin_fd >= 0 ? io->stdin_fd : open("/dev/null", O_RDONLY);
	if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(io->stdout_fd, 1) < 0 || dup2(io->stderr_fd, 2) < 0)
		fail_exec(error_fd, STAGE_PIPES);
	prefer_for_oom();
	set_limits(spec->nofile);
	enum stage failed = become(&spec->identity, is_root);
	if (failed != STAGE_NONE)
		fail_exec(error_fd, failed);
	if (chdir(cwd) < 0)
		fail_exec(error_fd, STAGE_CWD);
	umask(022);
	syscall(SYS_close_range, 3U, ~0U, 4U /* CLOSE_RANGE_CLOEXEC: error_fd must live until execve */);
	exec_along_path(argv, envp);
	fail_exec(error_fd, STAGE_EXEC);
}

struct proc {
	pid_t pid, parent;
	bool is_descendant;
};
static struct proc procs[PROCS_MAX];

/* Field 4 of /proc/<pid>/stat; comm may hold anything, so from the last ')'. */
static pid_t parent_of(const char *name)
{
	char path[32], text[512];
	snprintf(path, sizeof path, "%s/stat", name);
	int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t size = read(fd, text, sizeof text - 1);
	close(fd);
	if (size <= 0)
		return -1;
	text[size] = '\0';
	const char *end = strrchr(text, ')');
	int parent;
	char state;
	return end != NULL && sscanf(end + 1, " %c %d", &state, &parent) == 2 ? parent : -1;
}

/* There is no /proc/<pid>/task/<tid>/children on every kernel: the tree is computed from the parents of all. */
static size_t find_descendants(void)
{
	size_t count = 0;
	int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	if (folder == NULL)
		return 0;
	struct dirent *entry;
	while (count < PROCS_MAX && (entry = readdir(folder)) != NULL) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		pid_t parent = parent_of(entry->d_name);
		if (parent > 0)
			procs[count++] = (struct proc){(pid_t)atoi(entry->d_name), parent, false};
	}
	closedir(folder);
	pid_t self = getpid();
	for (bool found = true; found;) {
		found = false;
		for (size_t i = 0; i < count; i++) {
			bool is = procs[i].parent == self;
			for (size_t j = 0; !is && j < count; j++)
				is = procs[j].is_descendant && procs[j].pid == procs[i].parent;
			if (is && !procs[i].is_descendant)
				procs[i].is_descendant = found = true;
		}
	}
	return count;
}

static void signal_tree(int number)
{
	size_t count = find_descendants();
	for (size_t i = 0; i < count; i++)
		if (procs[i].is_descendant)
			kill(procs[i].pid, number);
}

/* A stopped process does not fork: so a bomb is stopped before it is killed (RX-01). */
static void kill_tree(void)
{
	for (int pass = 0; pass < STOP_PASSES; pass++)
		signal_tree(SIGSTOP);
	signal_tree(SIGKILL);
}

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static uint64_t micros(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000u + (uint64_t)time.tv_usec;
}

struct supervisor {
	int control, signals;
	pid_t main_pid;
	bool kill_rest;
	int64_t kill_at; /* -1: no kill under way */
};

static void send_report(int control, const struct report *report)
{
	if (send(control, report, sizeof *report, MSG_NOSIGNAL) < 0)
		_exit(1); /* init is gone, and with it everything */
}

/* Reaps what has ended; exits when no child is left: then the tree is gone. */
static void reap(struct supervisor *s)
{
	for (;;) {
		int status;
		struct rusage usage;
		pid_t pid = wait4(-1, &status, WNOHANG, &usage);
		if (pid == 0)
			return;
		if (pid < 0)
			_exit(0);
		if (pid != s->main_pid)
			continue;
		bool signalled = WIFSIGNALED(status);
		send_report(s->control, &(struct report){
			.type = 'X', .kind = signalled ? KIND_SIGNALLED : KIND_EXITED,
			.value = (uint32_t)(signalled ? WTERMSIG(status) : WEXITSTATUS(status)),
			.user_us = micros(usage.ru_utime), .system_us = micros(usage.ru_stime), .max_rss_kib = (uint64_t)usage.ru_maxrss,
		});
		s->main_pid = -1;
		if (s->kill_rest && s->kill_at < 0)
			s->kill_at = 0;
	}
}

static void obey(struct supervisor *s)
{
	struct order order;
	ssize_t size = recv(s->control, &order, sizeof order, MSG_DONTWAIT);
	if (size == 0)
		_exit(1); /* init closed: it is ending */
	if (size != (ssize_t)sizeof order)
		return;
	if (order.type == 's') {
		if (order.scope == 1)
			signal_tree((int)order.number);
		else if (s->main_pid > 0)
			kill(s->main_pid, (int)order.number);
		return;
	}
	if (order.number > 0) {
		signal_tree(SIGTERM);
		signal_tree(SIGCONT);
	}
	int64_t at = now_ms() + order.number;
	s->kill_at = s->kill_at < 0 || at < s->kill_at ? at : s->kill_at;
}

_Noreturn static void watch_over(struct supervisor *s)
{
	struct pollfd fds[2] = {{.fd = s->control, .events = POLLIN}, {.fd = s->signals, .events = POLLIN}};
	for (;;) {
		reap(s);
		int timeout = -1;
		if (s->kill_at >= 0) {
			int64_t left = s->kill_at - now_ms();
			if (left <= 0)
				kill_tree();
			timeout = left <= 0 ? KILL_EVERY_MS : (int)(left < 60000 ? left : 60000);
		}
		if (poll(fds, 2, timeout) <= 0)
			continue;
		struct signalfd_siginfo info;
		while (fds[1].revents != 0 && read(s->signals, &info, sizeof info) > 0)
			;
		if (fds[0].revents != 0)
			obey(s);
	}
}

_Noreturn void supervise(const struct spawn_spec *spec, const uint8_t *payload, uint32_t length, const struct child_io *io)
{
	int error_pipe[2];
	prctl(PR_SET_NAME, "sallyport-exec");
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct report failed = {.type = 'X', .kind = KIND_FAILED};
	if (pipe2(error_pipe, O_CLOEXEC) < 0) {
		failed.value = (uint32_t)errno;
		failed.stage = STAGE_PIPES;
		send_report(io->control_fd, &failed);
		_exit(0);
	}
	pid_t child = fork();
	if (child == 0) {
		close(io->control_fd);
		run_command(spec, payload, length, io, error_pipe[1]);
	}
	int fork_error = errno;
	int keep[] = {io->control_fd, error_pipe[0], proc_fd};
	close_all_but(keep, 3);
	if (child < 0) {
		failed.value = (uint32_t)fork_error;
		failed.stage = STAGE_FORK;
		send_report(io->control_fd, &failed);
		_exit(0);
	}
	struct exec_error error;
	if (read(error_pipe[0], &error, sizeof error) == (ssize_t)sizeof error) {
		waitpid(child, NULL, 0);
		failed.value = (uint32_t)error.number;
		failed.stage = error.stage;
		send_report(io->control_fd, &failed);
		_exit(0);
	}
	close(error_pipe[0]);
	send_report(io->control_fd, &(struct report){.type = 'S', .value = (uint32_t)child});
	sigset_t child_signal;
	sigemptyset(&child_signal);
	sigaddset(&child_signal, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child_signal, NULL);
	struct supervisor s = {
		.control = io->control_fd, .signals = signalfd(-1, &child_signal, SFD_CLOEXEC | SFD_NONBLOCK),
		.main_pid = child, .kill_rest = (spec->flags & SPAWN_KILL_TREE) != 0, .kill_at = -1,
	};
	watch_over(&s);
}
