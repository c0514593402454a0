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
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Inodes of a tmpfs upper that are not the sandbox's: its root, u, w, and what an overlay makes in w. */
enum { MAX_LOWERS = 8, MAX_BINDS = 8, MAX_DROPS = 4, MAX_KEPT = 8, LOOP_TRIES = 64, OWN_INODES = 8, FAILED = 125 };

struct bind {
	const char *source, *target;
};

struct plan {
	const char *target;
	const char *scratch;
	unsigned long long map_base, map_count;
	unsigned long long tmpfs_bytes, tmpfs_inodes;
	const char *ext4;
	const char *lowers[MAX_LOWERS];
	int lower_count;
	struct bind binds[MAX_BINDS];
	int bind_count;
	const char *drops[MAX_DROPS];
	int drop_count;
	unsigned int kept[MAX_KEPT];
	int kept_count;
	int netns;
	const char *netns_place;
	pid_t parent;
	bool nosuid;
	char **command;
};

_Noreturn static void die(const char *step, const char *object)
{
	fprintf(stderr, "launch: %s: %s: %s\n", step, object, strerror(errno));
	exit(FAILED);
}

/* @returns the result of a call that did not fail */
static int must(long result, const char *step, const char *object)
{
	if (result < 0)
		die(step, object);
	return (int)result;
}

_Noreturn static void refuse(const char *option, const char *reason)
{
	fprintf(stderr, "launch: arguments: %s: %s\n", option, reason);
	exit(FAILED);
}

/* No leading zero, which the kernel would read as octal, and never 0: "no limit", or the host's root. */
static unsigned long long number(const char *text, const char *option, unsigned long long most)
{
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (*text < '1' || *text > '9' || *end != '\0' || errno != 0 || value > most)
		refuse(option, "not a number, or out of range");
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

static void take_map(struct plan *plan, char *value, const char *option)
{
	char *count = split(value, option);
	if (plan->map_count != 0)
		refuse(option, "given twice");
	plan->map_base = number(value, option, UINT32_MAX - 1);
	plan->map_count = number(count, option, UINT32_MAX - plan->map_base);
}

static void take_tmpfs(struct plan *plan, char *value, const char *option)
{
	char *inodes = split(value, option);
	if (plan->tmpfs_bytes != 0)
		refuse(option, "given twice");
	plan->tmpfs_bytes = number(value, option, INT64_MAX);
	plan->tmpfs_inodes = number(inodes, option, INT32_MAX);
}

static void take_bind(struct plan *plan, char *value, const char *option)
{
	char *target = split(value, option);
	if (plan->bind_count >= MAX_BINDS || *target == '/')
		refuse(option, "given too often, or an absolute target");
	plan->binds[plan->bind_count++] = (struct bind){value, target};
}

/* Ascending, as close_all_others needs them. */
static void take_kept(struct plan *plan, const char *value, const char *option)
{
	unsigned int fd = (unsigned int)number(value, option, INT_MAX);
	unsigned int above = plan->kept_count == 0 ? STDERR_FILENO : plan->kept[plan->kept_count - 1];
	if (plan->kept_count >= MAX_KEPT || fd <= above || fcntl((int)fd, F_GETFD) < 0)
		refuse(option, "not an open fd above the last, or given too often");
	plan->kept[plan->kept_count++] = fd;
}

/* An open network namespace, and the file over which it is bound for the runtime to find. */
static void take_netns(struct plan *plan, char *value, const char *option)
{
	char *place = split(value, option);
	once(&plan->netns_place, place, option);
	plan->netns = (int)number(value, option, INT_MAX);
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
	else if (strcmp(option, "--netns") == 0) take_netns(plan, value, option);
	else if (strcmp(option, "--parent") == 0) plan->parent = (pid_t)number(value, option, INT_MAX);
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

/* The steps, in the order they run. First private: a shared tree would carry our mounts back to the host. */
static void leave_mount_namespace(const struct plan *plan)
{
	must(unshare(CLONE_NEWNS), "unshare", "mount namespace");
	must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private", "/");
	/* EINVAL: not a mount point, so nothing is to be hidden */
	for (int i = 0; i < plan->drop_count; i++)
		if (umount2(plan->drops[i], MNT_DETACH) < 0 && errno != EINVAL)
			die("drop", plan->drops[i]);
}

/*
 * The namespace is entered here, so that the sysfs below is its own, and bound over a file that the runtime is told of: were
 * it not there, the runtime would find a plain file and refuse, never take the host's network.
 */
static void enter_netns(const struct plan *plan)
{
	char path[64];
	if (plan->netns_place == NULL)
		return;
	must(setns(plan->netns, CLONE_NEWNET), "netns", "enter");
	snprintf(path, sizeof path, "/proc/self/fd/%d", plan->netns);
	must(mount(path, plan->netns_place, NULL, MS_BIND, NULL), "netns", plan->netns_place);
}

static void write_map(pid_t pid, const char *file, const char *map)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
	int fd = must(open(path, O_WRONLY | O_CLOEXEC), "id map", path);
	must(write(fd, map, strlen(map)), "id map", path);
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
	must(pipe2(gate, O_CLOEXEC), "id map", "pipe");
	pid_t child = must(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0), "id map", "clone");
	if (child == 0) {
		close(gate[1]);
		_exit(read(gate[0], &byte, 1) == 0 ? 0 : 1);
	}
	close(gate[0]);
	snprintf(map, sizeof map, "0 %llu %llu", plan->map_base, plan->map_count);
	write_map(child, "uid_map", map);
	write_map(child, "gid_map", map);
	snprintf(path, sizeof path, "/proc/%d/ns/user", child);
	int fd = must(open(path, O_RDONLY | O_CLOEXEC), "id map", path);
	close(gate[1]);
	waitpid(child, NULL, 0);
	return fd;
}

/* A read-only clone of `source` (nothing that is mounted below it) at the folder `target`, ids shifted. */
static void attach_idmapped(const char *step, const char *source, int target, int userns, uint64_t attributes)
{
	int tree = must(syscall(SYS_open_tree, AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC), step, source);
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | attributes,
		.userns_fd = (unsigned int)userns,
	};
	/* a filesystem that cannot be idmapped answers EINVAL: without the map its root would be the host's */
	must(syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr), step, source);
	must(syscall(SYS_move_mount, tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH), step, source);
	close(tree);
}

/* @returns the fd of a loop device over `file`. Autoclear: it goes with the mount, so with the sandbox */
static int attach_loop(int file, char *device, size_t size)
{
	struct loop_config config = {.fd = (uint32_t)file, .info = {.lo_flags = LO_FLAGS_AUTOCLEAR}};
	int control = must(open("/dev/loop-control", O_RDWR | O_CLOEXEC), "upper", "/dev/loop-control");
	for (int i = 0; i < LOOP_TRIES; i++) {
		int index = must(ioctl(control, LOOP_CTL_GET_FREE), "upper", "/dev/loop-control");
		snprintf(device, size, "/dev/loop%d", index);
		int loop = must(open(device, O_RDWR | O_CLOEXEC), "upper", device);
		if (ioctl(loop, LOOP_CONFIGURE, &config) == 0) {
			close(control);
			return loop;
		}
		/* EBUSY: another process was given the same free device and came first */
		if (errno != EBUSY)
			die("upper", device);
		close(loop);
	}
	errno = EBUSY;
	die("upper", "/dev/loop-control");
}

/* The image's name goes at once: from here on it lives as long as the mount, whoever dies. */
static void mount_ext4(const struct plan *plan)
{
	char device[32];
	int file = must(open(plan->ext4, O_RDWR | O_CLOEXEC | O_NOFOLLOW), "upper", plan->ext4);
	int loop = attach_loop(file, device, sizeof device);
	must(mount(device, plan->scratch, "ext4", MS_NODEV | MS_NOATIME, ""), "upper", plan->ext4);
	must(unlink(plan->ext4), "upper", plan->ext4);
	close(loop);
	close(file);
}

static void mount_tmpfs(const struct plan *plan)
{
	char text[96];
	unsigned long long inodes = plan->tmpfs_inodes + OWN_INODES + (unsigned int)plan->lower_count;
	snprintf(text, sizeof text, "size=%llu,nr_inodes=%llu,mode=0755", plan->tmpfs_bytes, inodes);
	must(mount("tmpfs", plan->scratch, "tmpfs", MS_NODEV | MS_NOATIME, text), "upper", plan->scratch);
}

/* @returns an fd of the new folder scratch/name */
static int make_in_scratch(const struct plan *plan, const char *step, const char *name, mode_t mode)
{
	char *path;
	must(asprintf(&path, "%s/%s", plan->scratch, name), step, name);
	must(mkdir(path, mode), step, path);
	int fd = must(open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), step, path);
	free(path);
	return fd;
}

/* u is the root folder that the sandbox sees, w where the overlay works for it: both are its root's. */
static void make_upper(const struct plan *plan)
{
	if (plan->ext4 != NULL)
		mount_ext4(plan);
	else
		mount_tmpfs(plan);
	int folders[] = {make_in_scratch(plan, "upper", "u", 0755), make_in_scratch(plan, "upper", "w", 0700)};
	for (int i = 0; i < 2; i++) {
		must(fchownat(folders[i], "", (uid_t)plan->map_base, (gid_t)plan->map_base, AT_EMPTY_PATH), "upper", plan->scratch);
		close(folders[i]);
	}
}

/*
 * An overlay takes idmapped layers only where they are attached in this namespace: below scratch. Volatile: nothing of
 * the upper outlives the sandbox, so nothing need be synced (Linux 5.10; idmapped layers need 5.19 anyway).
 */
static void make_overlay(const struct plan *plan, int userns)
{
	char *lowers = NULL, *text, name[16];
	for (int i = 0; i < plan->lower_count; i++) {
		snprintf(name, sizeof name, "l%d", i);
		int folder = make_in_scratch(plan, "lower", name, 0700);
		attach_idmapped("lower", plan->lowers[i], folder, userns, 0);
		close(folder);
		char *above = lowers;
		must(asprintf(&lowers, "%s%s%s/%s", above ? above : "", above ? ":" : "", plan->scratch, name), "lower", name);
		free(above);
	}
	must(asprintf(&text, "lowerdir=%s,upperdir=%s/u,workdir=%s/w,index=off,metacopy=off,xino=off,volatile", lowers,
	              plan->scratch, plan->scratch), "overlay", plan->target);
	unsigned long flags = MS_NODEV | MS_NOATIME | (plan->nosuid ? MS_NOSUID : 0UL);
	must(mount("overlay", plan->target, "overlay", flags, text), "overlay", plan->target);
	free(text);
	free(lowers);
}

/* An image may hold a link where a bind goes (FS-04): the kernel follows none, and no "..". */
static int enter(int folder, const char *name)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
	return (int)syscall(SYS_openat2, folder, name, &how, sizeof how);
}

/* @returns an fd of the folder target/relative; what is missing of it is made, as root inside */
static int open_bind_target(const struct plan *plan, const char *relative)
{
	int folder = must(open(plan->target, O_PATH | O_DIRECTORY | O_CLOEXEC), "bind", plan->target);
	char *path, *rest;
	must(asprintf(&path, "%s", relative), "bind", relative);
	for (char *name = strtok_r(path, "/", &rest); name != NULL; name = strtok_r(NULL, "/", &rest)) {
		int next = enter(folder, name);
		if (next < 0 && errno == ENOENT) {
			must(mkdirat(folder, name, 0755), "bind", relative);
			must(fchownat(folder, name, (uid_t)plan->map_base, (gid_t)plan->map_base, AT_SYMLINK_NOFOLLOW), "bind", relative);
			next = enter(folder, name);
		}
		must(next, "bind", relative);
		close(folder);
		folder = next;
	}
	free(path);
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

/*
 * The kernel lets only the owner of a network namespace mount a sysfs of it (kobj_ns_current_may_mount), and root inside does
 * not own his: so it is mounted here. It shows the interfaces of the namespace that was entered.
 */
static void make_sysfs(const struct plan *plan)
{
	char path[64];
	if (plan->netns_place == NULL)
		return;
	int target = open_bind_target(plan, "sys");
	snprintf(path, sizeof path, "/proc/self/fd/%d", target);
	must(mount("sysfs", path, "sysfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "sysfs", plan->target);
	close(target);
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
	for (int i = 0; i < plan->kept_count; from = plan->kept[i++] + 1)
		if (plan->kept[i] > from)
			must(syscall(SYS_close_range, from, plan->kept[i] - 1, 0U), "close", "inherited fds");
	must(syscall(SYS_close_range, from, UINT_MAX, 0U), "close", "inherited fds");
}

int main(int argc, char **argv)
{
	struct plan plan = {0};
	/*
	 * A daemon that is killed takes us and the runtime along (the setting outlives execve): else the runtime would go on and
	 * make a cgroup after the next start has cleaned up (RX-19). It may be gone already: then another is our parent.
	 */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	parse(argc, argv, &plan);
	if (plan.parent != 0 && getppid() != plan.parent)
		return FAILED;
	/* folders get the modes that are written here, whatever our caller's mask */
	umask(022);
	leave_mount_namespace(&plan);
	enter_netns(&plan);
	int userns = user_namespace(&plan);
	make_upper(&plan);
	make_overlay(&plan, userns);
	make_sysfs(&plan);
	make_binds(&plan, userns);
	reset_signals();
	close_all_others(&plan);
	execvp(plan.command[0], plan.command);
	die("exec", plan.command[0]);
}
