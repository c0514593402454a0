/*
 * launch: puts the root of one sandbox together in a mount namespace of its own, then becomes the OCI runtime. What it
 * mounts is seen by nobody else and goes when the sandbox goes. It reads no byte that a sandbox wrote.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
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

enum { MAX_LOWERS = 8, MAX_BINDS = 8, MAX_DROPS = 4, LOOP_TRIES = 64 };

struct bind {
	const char *source;
	const char *target;
};

struct plan {
	const char *target;
	const char *scratch;
	unsigned long map_base;
	unsigned long map_count;
	const char *tmpfs_bytes;
	const char *tmpfs_inodes;
	const char *ext4;
	const char *lowers[MAX_LOWERS];
	int lower_count;
	struct bind binds[MAX_BINDS];
	int bind_count;
	const char *drops[MAX_DROPS];
	int drop_count;
	bool nosuid;
	char **command;
};

_Noreturn static void die(const char *step, const char *object)
{
	fprintf(stderr, "launch: %s: %s: %s\n", step, object, strerror(errno));
	exit(125);
}
_Noreturn static void usage(const char *what)
{
	fprintf(stderr, "launch: arguments: %s: invalid\n", what);
	exit(125);
}
static unsigned long number(const char *text, const char *what)
{
	if (*text < '0' || *text > '9')
		usage(what);
	char *end;
	errno = 0;
	unsigned long value = strtoul(text, &end, 10);
	if (errno != 0 || *end != '\0')
		usage(what);
	return value;
}
static void split_pair(char *text, const char **left, const char **right, const char *what)
{
	char *colon = strchr(text, ':');
	if (colon == NULL || strchr(colon + 1, ':') != NULL)
		usage(what);
	*colon = '\0';
	*left = text;
	*right = colon + 1;
}
static void parse(int argc, char **argv, struct plan *plan)
{
	int i = 1;
	for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
		const char *option = argv[i];
		if (strcmp(option, "--nosuid") == 0) { plan->nosuid = true; continue; }
		if (i + 1 >= argc) usage(option);
		char *value = argv[++i];
		const char *left, *right;
		if (strcmp(option, "--target") == 0) plan->target = value;
		else if (strcmp(option, "--scratch") == 0) plan->scratch = value;
		else if (strcmp(option, "--upper-ext4") == 0) plan->ext4 = value;
		else if (strcmp(option, "--map") == 0) {
			split_pair(value, &left, &right, option);
			plan->map_base = number(left, option);
			plan->map_count = number(right, option);
		} else if (strcmp(option, "--upper-tmpfs") == 0) {
			split_pair(value, &left, &right, option);
			(void)number(left, option); (void)number(right, option);
			plan->tmpfs_bytes = left; plan->tmpfs_inodes = right;
		} else if (strcmp(option, "--lower") == 0 && plan->lower_count < MAX_LOWERS)
			plan->lowers[plan->lower_count++] = value;
		else if (strcmp(option, "--bind") == 0 && plan->bind_count < MAX_BINDS) {
			split_pair(value, &left, &right, option);
			plan->binds[plan->bind_count++] = (struct bind){left, right};
		} else if (strcmp(option, "--drop-mount") == 0 && plan->drop_count < MAX_DROPS)
			plan->drops[plan->drop_count++] = value;
		else usage(option);
	}
	if (i + 1 >= argc || !plan->target || !plan->scratch || !plan->map_count || !plan->lower_count || (!plan->ext4 == !plan->tmpfs_bytes))
		usage("missing or contradictory option");
	plan->command = &argv[i + 1];
}
static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text)) die("id map", path);
	close(fd);
}
static int user_namespace(const struct plan *plan)
{
	int gate[2];
	if (pipe2(gate, O_CLOEXEC) < 0) die("id map", "pipe");
	pid_t child = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
	if (child < 0) die("id map", "clone");
	if (child == 0) {
		char byte;
		close(gate[1]);
		_exit(read(gate[0], &byte, 1) == 0 ? 0 : 1);
	}
	close(gate[0]);
	char path[64], map[64];
	snprintf(map, sizeof map, "0 %lu %lu", plan->map_base, plan->map_count);
	snprintf(path, sizeof path, "/proc/%d/uid_map", child); write_file(path, map);
	snprintf(path, sizeof path, "/proc/%d/gid_map", child); write_file(path, map);
	snprintf(path, sizeof path, "/proc/%d/ns/user", child);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) die("id map", path);
	close(gate[1]);
	waitpid(child, NULL, 0);
	return fd;
}
static void attach_idmapped(int userns, const char *source, int target_fd, const char *target, const char *step)
{
	int tree = (int)syscall(SYS_open_tree, AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0) die(step, source);
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, .userns_fd = (uint64_t)userns};
	if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0) die(step, source);
	int ok = target_fd >= 0 ? (int)syscall(SYS_move_mount, tree, "", target_fd, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH)
	                        : (int)syscall(SYS_move_mount, tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH);
	if (ok < 0) die(step, source);
	close(tree);
}
static void attach_loop(const struct plan *plan)
{
	int file = open(plan->ext4, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (file < 0) die("upper", plan->ext4);
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	if (control < 0) die("upper", "/dev/loop-control");
	for (int i = 0; i < LOOP_TRIES; i++) {
		int index = ioctl(control, LOOP_CTL_GET_FREE);
		if (index < 0) die("upper", "LOOP_CTL_GET_FREE");
		char device[32];
		snprintf(device, sizeof device, "/dev/loop%d", index);
		int loop = open(device, O_RDWR | O_CLOEXEC);
		if (loop < 0) continue;
		struct loop_config config = {.fd = (uint32_t)file, .info = {.lo_flags = LO_FLAGS_AUTOCLEAR}};
		if (ioctl(loop, LOOP_CONFIGURE, &config) < 0) { close(loop); if (errno == EBUSY) continue; die("upper", device); }
		if (mount(device, plan->scratch, "ext4", MS_NODEV | MS_NOATIME, "") < 0) die("upper", device);
		close(loop); close(control); close(file);
		if (unlink(plan->ext4) < 0) die("upper", plan->ext4);
		return;
	}
	errno = EBUSY;
	die("upper", "loop device");
}
static void path_in(char *out, size_t size, const char *folder, const char *name)
{
	if ((size_t)snprintf(out, size, "%s/%s", folder, name) >= size) { errno = ENAMETOOLONG; die("path", folder); }
}
static void make_upper(const struct plan *plan)
{
	char path[4096], options[128];
	if (plan->ext4) attach_loop(plan);
	else {
		snprintf(options, sizeof options, "size=%s,nr_inodes=%s,mode=0755", plan->tmpfs_bytes, plan->tmpfs_inodes);
		if (mount("tmpfs", plan->scratch, "tmpfs", MS_NODEV | MS_NOATIME, options) < 0) die("upper", plan->scratch);
	}
	path_in(path, sizeof path, plan->scratch, "u");
	if (mkdir(path, 0755) < 0 || chown(path, (uid_t)plan->map_base, (gid_t)plan->map_base) < 0) die("upper", path);
	path_in(path, sizeof path, plan->scratch, "w");
	if (mkdir(path, 0700) < 0) die("upper", path);
}
static void make_overlay(const struct plan *plan, int userns)
{
	char options[8192] = "lowerdir=", path[4096];
	size_t length = strlen(options);
	for (int i = 0; i < plan->lower_count; i++) {
		char name[16];
		snprintf(name, sizeof name, "l%d", i);
		path_in(path, sizeof path, plan->scratch, name);
		if (mkdir(path, 0700) < 0) die("lower", path);
		attach_idmapped(userns, plan->lowers[i], -1, path, "lower");
		length += (size_t)snprintf(options + length, sizeof options - length, "%s%s", i ? ":" : "", path);
		if (length >= sizeof options) { errno = ENAMETOOLONG; die("overlay", plan->target); }
	}
	if (strpbrk(plan->scratch, ":,\\")) { errno = EINVAL; die("overlay", plan->scratch); }
	length += (size_t)snprintf(options + length, sizeof options - length, ",upperdir=%s/u,workdir=%s/w,index=off,metacopy=off,xino=off,volatile", plan->scratch, plan->scratch);
	if (length >= sizeof options) { errno = ENAMETOOLONG; die("overlay", plan->target); }
	if (mount("overlay", plan->target, "overlay", MS_NODEV | MS_NOATIME | (plan->nosuid ? MS_NOSUID : 0), options) < 0) die("overlay", plan->target);
}
static void make_binds(const struct plan *plan, int userns)
{
	int root = open(plan->target, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0) die("bind", plan->target);
	for (int i = 0; i < plan->bind_count; i++) {
		struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
		int target = (int)syscall(SYS_openat2, root, plan->binds[i].target, &how, sizeof how);
		if (target < 0) die("bind", plan->binds[i].target);
		attach_idmapped(userns, plan->binds[i].source, target, NULL, "bind");
		close(target);
	}
	close(root);
}
int main(int argc, char **argv)
{
	struct plan plan = {0};
	parse(argc, argv, &plan);
	if (unshare(CLONE_NEWNS) < 0) die("unshare", "mount namespace");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) die("private", "/");
	for (int i = 0; i < plan.drop_count; i++)
		if (umount2(plan.drops[i], MNT_DETACH) < 0 && errno != EINVAL) die("drop", plan.drops[i]);
	int userns = user_namespace(&plan);
	make_upper(&plan);
	make_overlay(&plan, userns);
	make_binds(&plan, userns);
	close(userns);
	syscall(SYS_close_range, 3U, ~0U, 0U);
	execvp(plan.command[0], plan.command);
	die("exec", plan.command[0]);
}
