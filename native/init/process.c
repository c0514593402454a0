/* process: see process.h. */
#define _GNU_SOURCE
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FD_BOUND = 8192 };

int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void report_send(int control, const struct report *report)
{
	if (send(control, report, sizeof *report, MSG_NOSIGNAL) != (ssize_t)sizeof *report) _exit(1);
}

static void close_from_to(int from, int to)
{
	if (from > to || close_range((unsigned)from, (unsigned)to, 0) == 0) return;
	/* a kernel without close_range: init itself never holds as many as FD_BOUND */
	for (int fd = from; fd <= to && fd < FD_BOUND; fd++) close(fd);
}

void close_others(int *keep, size_t count)
{
	for (size_t i = 1; i < count; i++)
		for (size_t j = i; j > 0 && keep[j - 1] > keep[j]; j--) {
			const int swapped = keep[j];
			keep[j] = keep[j - 1];
			keep[j - 1] = swapped;
		}
	int from = 3;
	for (size_t i = 0; i < count; i++) {
		if (keep[i] < from) continue;
		close_from_to(from, keep[i] - 1);
		from = keep[i] + 1;
	}
	close_from_to(from, INT32_MAX);
}

static int drop_bounding_set(void)
{
	for (int capability = 0; capability < 64; capability++) {
		const int held = prctl(PR_CAPBSET_READ, capability, 0, 0, 0);
		if (held < 0) return 0;
		if (held == 1 && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) return errno;
	}
	return 0;
}

/* setresuid to another uid clears the permitted set; uid 0 keeps it, and inheritable and ambient sets stay either way. */
static int drop_capabilities(bool root)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct sets[2] = {0};
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) return errno;
	if (root && syscall(SYS_capget, &header, sets) != 0) return errno;
	sets[0].inheritable = sets[1].inheritable = 0;
	if (syscall(SYS_capset, &header, sets) != 0) return errno;
	if (!root && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
	return 0;
}

int become(const struct request *request, bool root, enum stage *stage)
{
	*stage = STAGE_CAPABILITIES;
	const int bounding = root ? 0 : drop_bounding_set();
	if (bounding != 0) return bounding;
	*stage = STAGE_IDENTITY;
	if (setgroups(request->group_count, request->groups) != 0) return errno;
	if (setresgid(request->gid, request->gid, request->gid) != 0) return errno;
	if (setresuid(request->uid, request->uid, request->uid) != 0) return errno;
	*stage = STAGE_CAPABILITIES;
	const int dropped = drop_capabilities(root);
	if (dropped != 0) return dropped;
	/* the uid change set it to fs.suid_dumpable: until execve the image is init's own */
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 ? 0 : errno;
}

static bool stdio_is_set(const struct child_ends *ends)
{
	return dup2(ends->in, 0) == 0 && dup2(ends->out, 1) == 1 && dup2(ends->err, 2) == 2;
}

/* The out-of-memory killer takes commands before init and supervisors. No /proc: then the default stays. */
static void offer_to_oom_killer(void)
{
	const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0) return;
	const ssize_t ignored = write(fd, "500", 3);
	(void)ignored;
	close(fd);
}

/* Clamps rather than fails: raising a hard limit needs CAP_SYS_RESOURCE, which no sandbox has. */
static int set_limits(const struct request *request)
{
	struct rlimit limit = {0, 0};
	if (setrlimit(RLIMIT_CORE, &limit) != 0) return errno;
	if (!request_has(request, TAG_NOFILE)) return 0;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return errno;
	if (request->nofile < limit.rlim_max) limit.rlim_max = request->nofile;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? 0 : errno;
}

static int prepare_command(const struct request *request, struct child_ends ends, enum stage *stage)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	*stage = STAGE_PTY;
	if (setsid() < 0) return errno;
	if (ends.terminal && ioctl(ends.in, TIOCSCTTY, 0) != 0) return errno;
	*stage = STAGE_PIPES;
	if (!stdio_is_set(&ends)) return errno;
	offer_to_oom_killer();
	*stage = STAGE_LIMITS;
	const int limits = set_limits(request);
	if (limits != 0) return limits;
	umask(022);
	return become(request, (request->flags & SPAWN_ROOT) != 0, stage);
}

static char *copy_text(struct text text)
{
	char *copy = malloc((size_t)text.size + 1);
	if (copy == NULL) return NULL;
	memcpy(copy, text.bytes, text.size);
	copy[text.size] = 0;
	return copy;
}

static int execute(const struct request *request, uint8_t *payload, size_t size, enum stage *stage)
{
	*stage = STAGE_CWD;
	const char *cwd = copy_text(request->cwd);
	if (cwd == NULL || chdir(cwd) != 0) return errno;
	*stage = STAGE_EXEC;
	char **arguments = calloc((size_t)request->argument_count + 1, sizeof *arguments);
	char **environment = calloc((size_t)request->environment_count + 1, sizeof *environment);
	if (arguments == NULL || environment == NULL) return ENOMEM;
	request_strings(payload, size, arguments, environment);
	/* execvpe takes PATH from the caller's own environment: make that the command's */
	environ = environment;
	execvpe(arguments[0], arguments, environment);
	return errno;
}

void run_command(const struct request *request, uint8_t *payload, size_t size, struct child_ends ends, int failure)
{
	enum stage stage;
	int error = prepare_command(request, ends, &stage);
	if (error == 0) error = execute(request, payload, size, &stage);
	const struct report report = {.kind = REPORT_FAILED, .value = (uint32_t)error, .stage = stage};
	const ssize_t ignored = write(failure, &report, sizeof report);
	(void)ignored;
	_exit(127);
}
