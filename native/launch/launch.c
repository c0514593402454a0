/*
 * launch: puts the root of one sandbox together in a mount namespace of its own, then becomes the OCI runtime. What it
 * mounts is seen by nobody else and goes when the sandbox goes. It reads no byte that a sandbox wrote. A step that fails
 * says so in one line, "launch: <step>: <object>: <reason>", and ends it with status 125: nothing is tried in its place.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Inodes of a tmpfs upper that are not the sandbox's: its root, u, w, and what an overlay makes in w. */
enum { MAX_LOWERS = 8, MAX_BINDS = 8, MAX_DROPS = 4, MAX_KEPT = 8, LOOP_TRIES = 64, OWN_INODES = 7, FAILED = 125 };

struct bind {
	const char *source;
	const char *target;
};

struct plan {
	const char *target;
	const char *scratch;
	uint64_t map_base;
	uint64_t map_count;
	uint64_t tmpfs_bytes;
	uint64_t tmpfs_inodes;
	const char *ext4;
	const char *lowers[MAX_LOWERS];
	int lower_count;
	struct bind binds[MAX_BINDS];
	int bind_count;
	const char *drops[MAX_DROPS];
	int drop_count;
	unsigned int kept[MAX_KEPT];
	int kept_count;
	bool nosuid;
	char **command;
};

_Noreturn static void die(const char *step, const char *object)
{
	fprintf(stderr, "launch: %s: %s: %s\n", step, object, strerror(errno));
	exit(FAILED);
}

_Noreturn static void refuse(const char *option, const char *reason)
{
	fprintf(stderr, "launch: arguments: %s: %s\n", option, reason);
	exit(FAILED);
}

/* --- the command line --- */

/* Digits only and no leading zero: the kernel would read such a one as octal. */
static uint64_t number(const char *text, const char *option, uint64_t least, uint64_t most)
{
	uint64_t value = 0;
	if (*text == '\0' || (*text == '0' && text[1] != '\0'))
		refuse(option, "not a decimal number");
	for (; *text != '\0'; text++) {
		if (*text < '0' || *text > '9')
			refuse(option, "not a decimal number");
		if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
			refuse(option, "number out of range");
	}
	if (value < least || value > most)
		refuse(option, "number out of range");
	return value;
}

/* Cuts "left:right" in two. @returns right */
static char *split(char *text, const char *option)
{
	char *colon = strchr(text, ':');
	if (colon == NULL || colon == text || colon[1] == '\0' || strchr(colon + 1, ':') != NULL)
		refuse(option, "not of the form a:b");
	*colon = '\0';
	return colon + 1;
}

static void once(const char **place, const char *value, const char *option)
{
	if (*place != NULL || *value == '\0')
		refuse(option, "empty or given twice");
	*place = value;
}

static void append(const char **list, int *count, int most, const char *value, const char *option)
{
	if (*count >= most || *value == '\0')
		refuse(option, "empty or given too often");
	list[(*count)++] = value;
}

/* Base 0 would make root inside the host's root. */
static void take_map(struct plan *plan, char *value, const char *option)
{
	char *count = split(value, option);
	if (plan->map_count != 0)
		refuse(option, "given twice");
	plan->map_base = number(value, option, 1, UINT32_MAX - 1);
	plan->map_count = number(count, option, 1, UINT32_MAX - plan->map_base);
}

/* 0 would be a tmpfs without a limit. */
static void take_tmpfs(struct plan *plan, char *value, const char *option)
{
	char *inodes = split(value, option);
	if (plan->tmpfs_bytes != 0)
		refuse(option, "given twice");
	plan->tmpfs_bytes = number(value, option, 1, INT64_MAX);
	plan->tmpfs_inodes = number(inodes, option, 1, INT32_MAX);
}

static void take_bind(struct plan *plan, char *value, const char *option)
{
	char *target = split(value, option);
	if (plan->bind_count >= MAX_BINDS)
		refuse(option, "given too often");
	plan->binds[plan->bind_count++] = (struct bind){value, target};
}

/* Ascending, as close_all_others needs them. */
static void take_kept(struct plan *plan, const char *value, const char *option)
{
	uint64_t least = plan->kept_count == 0 ? STDERR_FILENO + 1 : plan->kept[plan->kept_count - 1] + 1ULL;
	if (plan->kept_count >= MAX_KEPT)
		refuse(option, "given too often");
	unsigned int fd = (unsigned int)number(value, option, least, INT_MAX);
	if (fcntl((int)fd, F_GETFD) < 0)
		refuse(option, strerror(errno));
	plan->kept[plan->kept_count++] = fd;
}

static void take(struct plan *plan, const char *option, char *value)
{
	if (strcmp(option, "--target") == 0) once(&plan->target, value, option);
	else if (strcmp(option, "--scratch") == 0) once(&plan->scratch, value, option);
	else if (strcmp(option, "--map") == 0) take_map(plan, value, option);
	else if (strcmp(option, "--upper-tmpfs") == 0) take_tmpfs(plan, value, option);
	else if (strcmp(option, "--upper-ext4") == 0) once(&plan->ext4, value, option);
	else if (strcmp(option, "--lower") == 0) append(plan->lowers, &plan->lower_count, MAX_LOWERS, value, option);
	else if (strcmp(option, "--bind") == 0) take_bind(plan, value, option);
	else if (strcmp(option, "--drop-mount") == 0) append(plan->drops, &plan->drop_count, MAX_DROPS, value, option);
	else if (strcmp(option, "--keep-fd") == 0) take_kept(plan, value, option);
	else refuse(option, "unknown option");
}

static void parse(int argc, char **argv, struct plan *plan)
{
	int i = 1;
	for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--nosuid") == 0)
			plan->nosuid = true;
		else if (i + 1 < argc)
			take(plan, argv[i], argv[i + 1]), i++;
		else
			refuse(argv[i], "no value");
	}
	if (plan->target == NULL || plan->scratch == NULL || plan->map_count == 0 || plan->lower_count == 0)
		refuse("--target, --scratch, --map, --lower", "each is needed");
	/* the overlay's options are text in which these divide: the path would name other folders */
	if (strpbrk(plan->scratch, ":,\\") != NULL)
		refuse("--scratch", "a path with ':', ',' or '\\'");
	if ((plan->ext4 == NULL) == (plan->tmpfs_bytes == 0))
		refuse("--upper-tmpfs, --upper-ext4", "one of them is needed");
	if (i + 1 >= argc)
		refuse("--", "no program after it");
	plan->command = &argv[i + 1];
}

/* --- the steps, in the order they run --- */

/* Private before anything is mounted: a shared tree would carry our mounts back to the host. */
static void leave_mount_namespace(const struct plan *plan)
{
	if (unshare(CLONE_NEWNS) < 0)
		die("unshare", "mount namespace");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		die("private", "/");
	/* EINVAL: not a mount point, so nothing is to be hidden */
	for (int i = 0; i < plan->drop_count; i++)
		if (umount2(plan->drops[i], MNT_DETACH) < 0 && errno != EINVAL)
			die("drop", plan->drops[i]);
}

static void write_map(pid_t pid, const char *file, const char *map)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, map, strlen(map)) != (ssize_t)strlen(map))
		die("id map", path);
	close(fd);
}

/*
 * An idmapped mount takes its mapping from a user namespace, and one begins with a process: a child that only waits
 * for the end of its pipe, so that it goes also when we fail. @returns an fd that keeps the namespace
 */
static int user_namespace(const struct plan *plan)
{
	int gate[2];
	char map[64], path[64], byte;
	if (pipe2(gate, O_CLOEXEC) < 0)
		die("id map", "pipe");
	pid_t child = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
	if (child < 0)
		die("id map", "clone");
	if (child == 0) {
		close(gate[1]);
		_exit(read(gate[0], &byte, 1) == 0 ? 0 : 1);
	}
	close(gate[0]);
	snprintf(map, sizeof map, "0 %llu %llu", (unsigned long long)plan->map_base, (unsigned long long)plan->map_count);
	write_map(child, "uid_map", map);
	write_map(child, "gid_map", map);
	snprintf(path, sizeof path, "/proc/%d/ns/user", child);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die("id map", path);
	close(gate[1]);
	waitpid(child, NULL, 0);
	return fd;
}

/* A read-only clone of `source` (nothing that is mounted below it) at the folder `target`, ids shifted. */
static void attach_idmapped(const char *step, const char *source, int target, int userns, uint64_t attributes)
{
	int tree = (int)syscall(SYS_open_tree, AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		die(step, source);
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | attributes,
		.userns_fd = (unsigned int)userns,
	};
	/* a filesystem that cannot be idmapped answers EINVAL: without the map its root would be the host's */
	if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
		die(step, source);
	if (syscall(SYS_move_mount, tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		die(step, source);
	close(tree);
}

/* @returns false when another process took the device first */
static bool try_loop(const struct plan *plan, int file, int index)
{
	char device[32];
	snprintf(device, sizeof device, "/dev/loop%d", index);
	int loop = open(device, O_RDWR | O_CLOEXEC);
	if (loop < 0)
		die("upper", device);
	/* autoclear: the device goes with the mount, so with the sandbox */
	struct loop_config config = {.fd = (uint32_t)file, .info = {.lo_flags = LO_FLAGS_AUTOCLEAR}};
	if (ioctl(loop, LOOP_CONFIGURE, &config) < 0) {
		if (errno != EBUSY)
			die("upper", device);
		close(loop);
		return false;
	}
	if (mount(device, plan->scratch, "ext4", MS_NODEV | MS_NOATIME, "") < 0)
		die("upper", plan->ext4);
	close(loop);
	return true;
}

/* The image's name goes at once: from here on it lives as long as the mount, whoever dies. */
static void mount_ext4(const struct plan *plan)
{
	int file = open(plan->ext4, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (file < 0)
		die("upper", plan->ext4);
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	if (control < 0)
		die("upper", "/dev/loop-control");
	for (int i = 0, index = ioctl(control, LOOP_CTL_GET_FREE); index < 0 || !try_loop(plan, file, index);) {
		if (index < 0 || ++i >= LOOP_TRIES)
			die("upper", "/dev/loop-control");
		index = ioctl(control, LOOP_CTL_GET_FREE);
	}
	close(control);
	close(file);
	if (unlink(plan->ext4) < 0)
		die("upper", plan->ext4);
}

static void mount_tmpfs(const struct plan *plan)
{
	char text[128];
	uint64_t inodes = plan->tmpfs_inodes + OWN_INODES + (uint64_t)plan->lower_count;
	snprintf(text, sizeof text, "size=%llu,nr_inodes=%llu,mode=0755", (unsigned long long)plan->tmpfs_bytes,
	         (unsigned long long)inodes);
	if (mount("tmpfs", plan->scratch, "tmpfs", MS_NODEV | MS_NOATIME, text) < 0)
		die("upper", plan->scratch);
}

/* @returns an fd of the new folder scratch/name */
static int make_in_scratch(const struct plan *plan, const char *step, const char *name, mode_t mode)
{
	char path[PATH_MAX];
	if ((size_t)snprintf(path, sizeof path, "%s/%s", plan->scratch, name) >= sizeof path) {
		errno = ENAMETOOLONG;
		die(step, plan->scratch);
	}
	if (mkdir(path, mode) < 0)
		die(step, path);
	int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		die(step, path);
	return fd;
}

static void make_upper(const struct plan *plan)
{
	if (plan->ext4 != NULL)
		mount_ext4(plan);
	else
		mount_tmpfs(plan);
	/* u is the root folder that the sandbox sees; w must be its root's too, for the overlay works there on its behalf */
	static const struct { const char *name; mode_t mode; } folders[] = {{"u", 0755}, {"w", 0700}};
	for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
		int fd = make_in_scratch(plan, "upper", folders[i].name, folders[i].mode);
		if (fchownat(fd, "", (uid_t)plan->map_base, (gid_t)plan->map_base, AT_EMPTY_PATH) < 0)
			die("upper", folders[i].name);
		close(fd);
	}
}

/* An overlay takes idmapped layers only where they are attached in this namespace: below scratch. */
static void make_overlay(const struct plan *plan, int userns)
{
	char text[PATH_MAX * 2] = "lowerdir=";
	size_t length = strlen(text);
	for (int i = 0; i < plan->lower_count; i++) {
		char name[16];
		snprintf(name, sizeof name, "l%d", i);
		int folder = make_in_scratch(plan, "lower", name, 0700);
		attach_idmapped("lower", plan->lowers[i], folder, userns, 0);
		close(folder);
		if (length < sizeof text)
			length += (size_t)snprintf(text + length, sizeof text - length, "%s%s/%s", i ? ":" : "", plan->scratch, name);
	}
	/* volatile: nothing of the upper outlives the sandbox, so it need not be synced (Linux 5.10; idmapped layers need 5.19) */
	if (length < sizeof text)
		length += (size_t)snprintf(text + length, sizeof text - length,
		                           ",upperdir=%s/u,workdir=%s/w,index=off,metacopy=off,xino=off,volatile", plan->scratch,
		                           plan->scratch);
	if (length >= sizeof text) {
		errno = ENAMETOOLONG;
		die("overlay", plan->scratch);
	}
	unsigned long flags = MS_NODEV | MS_NOATIME | (plan->nosuid ? MS_NOSUID : 0UL);
	if (mount("overlay", plan->target, "overlay", flags, text) < 0)
		die("overlay", plan->target);
}

/* An image may hold a link where a bind goes (FS-04): the kernel follows none, and no "..". */
static int enter(int folder, const char *name)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
	};
	return (int)syscall(SYS_openat2, folder, name, &how, sizeof how);
}

/* @returns an fd of the folder target/relative; what is missing of it is made, as root inside */
static int open_bind_target(const struct plan *plan, const char *relative)
{
	char path[PATH_MAX], *rest;
	int folder = open(plan->target, O_PATH | O_DIRECTORY | O_CLOEXEC);
	errno = folder < 0 ? errno : EINVAL;
	if (folder < 0 || relative[0] == '/' || (size_t)snprintf(path, sizeof path, "%s", relative) >= sizeof path)
		die("bind", relative);
	for (char *name = strtok_r(path, "/", &rest); name != NULL; name = strtok_r(NULL, "/", &rest)) {
		int next = enter(folder, name);
		if (next < 0 && errno == ENOENT) {
			if (mkdirat(folder, name, 0755) < 0 ||
			    fchownat(folder, name, (uid_t)plan->map_base, (gid_t)plan->map_base, AT_SYMLINK_NOFOLLOW) < 0)
				die("bind", relative);
			next = enter(folder, name);
		}
		if (next < 0)
			die("bind", relative);
		close(folder);
		folder = next;
	}
	return folder;
}

static void make_binds(const struct plan *plan, int userns)
{
	for (int i = 0; i < plan->bind_count; i++) {
		int target = open_bind_target(plan, plan->binds[i].target);
		attach_idmapped("bind", plan->binds[i].source, target, userns, MOUNT_ATTR_NOSUID);
		close(target);
	}
}

/* What our caller blocked or ignored would be inherited through the runtime by PID 1. */
static void reset_signals(void)
{
	sigset_t none;
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void close_all_others(const struct plan *plan)
{
	unsigned int from = STDERR_FILENO + 1;
	for (int i = 0; i <= plan->kept_count; i++) {
		unsigned int next = i < plan->kept_count ? plan->kept[i] : UINT_MAX;
		if (next > from && syscall(SYS_close_range, from, i < plan->kept_count ? next - 1 : UINT_MAX, 0U) < 0)
			die("close", "inherited fds");
		from = next + 1;
	}
}

int main(int argc, char **argv)
{
	struct plan plan = {0};
	parse(argc, argv, &plan);
	/* folders get the modes that are written here, whatever our caller's mask */
	umask(022);
	leave_mount_namespace(&plan);
	int userns = user_namespace(&plan);
	make_upper(&plan);
	make_overlay(&plan, userns);
	make_binds(&plan, userns);
	reset_signals();
	close_all_others(&plan);
	execvp(plan.command[0], plan.command);
	die("exec", plan.command[0]);
}
