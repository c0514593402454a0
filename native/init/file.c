/* file: one file operation in a process of its own, as the sandbox's user: the kernel's own checks decide what it may. */
#define _GNU_SOURCE
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { COPY_BYTES = 256 << 10, PENDING_BYTES = 64 << 10, RECORD_FIXED = 48, RENAME_RACES = 64, TEMP_DIGITS = 16 };
#ifndef SYS_fchmodat2
enum { SYS_fchmodat2 = 452 };
#endif

static uint8_t copy[COPY_BYTES];
static uint8_t pending[PENDING_BYTES];
static size_t pending_size;

void done(bool cut)
{
	emit_flush();
	report_send(FILE_CONTROL, &(struct report){.kind = REPORT_EXITED, .value = cut});
	_exit(0);
}

void fail(int error, enum stage stage)
{
	report_send(FILE_CONTROL, &(struct report){.kind = REPORT_FAILED, .value = (uint32_t)error, .stage = stage});
	_exit(0);
}

static int write_all(int fd, const uint8_t *bytes, size_t size)
{
	while (size > 0) {
		const ssize_t written = write(fd, bytes, size);
		if (written < 0 && errno == EINTR) continue;
		if (written < 0) return errno;
		bytes += written;
		size -= (size_t)written;
	}
	return 0;
}

static void write_out(const uint8_t *bytes, size_t size)
{
	const int error = write_all(FILE_OUT, bytes, size);
	if (error != 0) fail(error, STAGE_PIPES);
}

void emit_flush(void)
{
	write_out(pending, pending_size);
	pending_size = 0;
}

void emit(const void *bytes, size_t size)
{
	if (size > sizeof pending - pending_size) emit_flush();
	if (size > sizeof pending) {
		write_out(bytes, size);
		return;
	}
	if (size > 0) memcpy(pending + pending_size, bytes, size);
	pending_size += size;
}

void path_of_descriptor(int fd, char path[static DESCRIPTOR_PATH_BYTES])
{
	strcpy(path, "/proc/self/fd/");
	char *at = path + strlen(path);
	for (int power = 10000; power > 0; power /= 10)
		if (fd >= power || power == 1) *at++ = (char)('0' + fd / power % 10);
	*at = 0;
}

int open_in_root(const char *path, int flags)
{
	struct open_how how = {.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	how.flags = (unsigned)(flags | O_CLOEXEC);
	/* EAGAIN: something was renamed while ".." was resolved, so the kernel could not vouch for the result */
	for (int races = 0; races < RENAME_RACES; races++) {
		const long fd = syscall(SYS_openat2, FILE_ROOT, path, &how, sizeof how);
		if (fd >= 0 || errno != EAGAIN) return (int)fd;
	}
	return -1;
}

char *path_of(struct text text)
{
	char *path = malloc((size_t)text.size + 1);
	if (path == NULL) fail(ENOMEM, STAGE_OPEN);
	memcpy(path, text.bytes, text.size);
	path[text.size] = 0;
	return path;
}

static bool is_name(const char *name)
{
	return name[0] != 0 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

struct place place_of(char *path, enum stage stage)
{
	char *slash = strrchr(path, '/');
	struct place place = {.name = slash + 1};
	if (!is_name(place.name)) fail(EINVAL, stage);
	*slash = 0;
	place.folder = open_in_root(slash == path ? "/" : path, O_PATH | O_DIRECTORY);
	const int error = errno;
	*slash = '/';
	if (place.folder < 0) fail(error, stage);
	return place;
}

/* Each missing folder on the way, not the last name itself. */
static void make_parents(char *path, enum stage stage)
{
	for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		const int fd = open_in_root(path, O_PATH | O_DIRECTORY);
		if (fd >= 0) close(fd);
		else if (errno != ENOENT) fail(errno, stage);
		else {
			const struct place place = place_of(path, stage);
			if (mkdirat(place.folder, place.name, 0755) != 0 && errno != EEXIST) fail(errno, stage);
			close(place.folder);
		}
		*slash = '/';
	}
}

static void read_file(const struct request *request)
{
	/* O_NONBLOCK: a FIFO without a writer opens at once, and is refused like everything that is not a regular file */
	const int fd = open_in_root(path_of(request->path), O_RDONLY | O_NONBLOCK | O_NOCTTY);
	struct stat status;
	if (fd < 0 || fstat(fd, &status) != 0) fail(errno, STAGE_OPEN);
	if (!S_ISREG(status.st_mode)) fail(S_ISDIR(status.st_mode) ? EISDIR : EINVAL, STAGE_OPEN);
	if (request->offset > INT64_MAX || lseek(fd, (off_t)request->offset, SEEK_SET) < 0) fail(EINVAL, STAGE_READ);
	for (uint64_t left = request->length; left > 0;) {
		const ssize_t size = read(fd, copy, left < sizeof copy ? (size_t)left : sizeof copy);
		if (size < 0) fail(errno, STAGE_READ);
		if (size == 0) break;
		emit(copy, (size_t)size);
		left -= (uint64_t)size;
	}
	done(false);
}

static struct place temp = {.folder = -1};
static char temp_name[] = ".sallyport-0123456789abcdef";

static void remove_temp(void)
{
	if (temp.folder >= 0) unlinkat(temp.folder, temp.name, 0);
}

/* A KILL: the temp file goes first, then this process, by the same signal. */
static void on_terminate(int number)
{
	remove_temp();
	signal(number, SIG_DFL);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(number);
}

static void hold_terminate(int how)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(how, &set, NULL);
}

static void name_temp(void)
{
	uint8_t random[TEMP_DIGITS / 2];
	if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) fail(errno, STAGE_OPEN);
	char *digits = strrchr(temp_name, '-') + 1;
	for (int i = 0; i < TEMP_DIGITS; i++) digits[i] = "0123456789abcdef"[random[i / 2] >> (i % 2 * 4) & 15];
}

_Noreturn static void fail_write(int error, enum stage stage)
{
	remove_temp();
	temp.folder = -1;
	fail(error, stage);
}

static int open_temp(int folder)
{
	name_temp();
	signal(SIGTERM, on_terminate);
	hold_terminate(SIG_BLOCK);
	const int fd = openat(folder, temp_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) fail(errno, STAGE_OPEN);
	temp = (struct place){folder, temp_name};
	hold_terminate(SIG_UNBLOCK);
	return fd;
}

static void write_file(const struct request *request)
{
	char *path = path_of(request->path);
	if ((request->flags & FILE_PARENTS) != 0) make_parents(path, STAGE_MKDIR);
	const struct place place = place_of(path, STAGE_OPEN);
	struct stat status;
	if (fstatat(place.folder, place.name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode)) fail(EISDIR, STAGE_OPEN);
	const int fd = open_temp(place.folder);
	for (ssize_t size; (size = read(FILE_IN, copy, sizeof copy)) != 0;) {
		const int error = size < 0 ? errno : write_all(fd, copy, (size_t)size);
		if (error != 0 && error != EINTR) fail_write(error, STAGE_WRITE);
	}
	if (fchmod(fd, request_has(request, TAG_MODE) ? request->mode : 0644) != 0) fail_write(errno, STAGE_CHMOD);
	if (close(fd) != 0) fail_write(errno, STAGE_WRITE);
	hold_terminate(SIG_BLOCK);
	if (renameat(temp.folder, temp.name, place.folder, place.name) != 0) fail_write(errno, STAGE_RENAME);
	done(false);
}

static uint8_t kind_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG: return 'f';
	case S_IFDIR: return 'd';
	case S_IFLNK: return 'l';
	case S_IFIFO: return 'p';
	case S_IFSOCK: return 's';
	case S_IFCHR: return 'c';
	default: return 'b';
	}
}

void emit_record(int folder, const char *name, const struct stat *status, const char *path, size_t path_size)
{
	uint8_t fixed[4 + RECORD_FIXED] = {0};
	char target[PATH_BYTES_MAX];
	const ssize_t read_size = S_ISLNK(status->st_mode) ? readlinkat(folder, name, target, sizeof target) : 0;
	const uint16_t target_size = (uint16_t)(read_size > 0 ? read_size : 0);
	put_u32(fixed, (uint32_t)(RECORD_FIXED + path_size + target_size));
	fixed[4] = kind_of(status->st_mode);
	uint8_t *at = put_u32(fixed + 8, status->st_mode & 07777);
	at = put_u32(at, status->st_uid);
	at = put_u32(at, status->st_gid);
	at = put_u32(at, (uint32_t)status->st_nlink);
	at = put_u64(at, (uint64_t)status->st_size);
	at = put_u64(at, (uint64_t)status->st_blocks);
	at = put_u64(at, (uint64_t)status->st_mtim.tv_sec * 1000000000 + (uint64_t)status->st_mtim.tv_nsec);
	put_u16(put_u16(at, (uint16_t)path_size), target_size);
	emit(fixed, sizeof fixed);
	emit(path, path_size);
	emit(target, target_size);
}

static void stat_path(const struct request *request)
{
	const char *path = path_of(request->path);
	const int fd = open_in_root(path, O_PATH | ((request->flags & FILE_NOFOLLOW) != 0 ? O_NOFOLLOW : 0));
	struct stat status;
	if (fd < 0 || fstat(fd, &status) != 0) fail(errno, STAGE_STAT);
	emit_record(fd, "", &status, path, request->path.size);
	done(false);
}

static bool is_folder(const char *path)
{
	return open_in_root(path, O_PATH | O_DIRECTORY) >= 0;
}

static void make_folder(const struct request *request)
{
	char *path = path_of(request->path);
	const bool parents = (request->flags & FILE_PARENTS) != 0;
	if (parents && is_folder(path)) done(false);
	if (parents) make_parents(path, STAGE_MKDIR);
	const struct place place = place_of(path, STAGE_MKDIR);
	const mode_t mode = request_has(request, TAG_MODE) ? request->mode : 0755;
	if (mkdirat(place.folder, place.name, mode) != 0) {
		const int error = errno;
		if (error != EEXIST || !parents || !is_folder(path)) fail(error, STAGE_MKDIR);
		done(false);
	}
	/* mkdir itself ignores these bits */
	if ((mode & 06000) != 0 && fchmodat(place.folder, place.name, mode, 0) != 0) fail(errno, STAGE_MKDIR);
	done(false);
}

static void rename_path(const struct request *request)
{
	const struct place from = place_of(path_of(request->path), STAGE_RENAME);
	const struct place to = place_of(path_of(request->path2), STAGE_RENAME);
	if (renameat(from.folder, from.name, to.folder, to.name) != 0) fail(errno, STAGE_RENAME);
	done(false);
}

/* A kernel before 6.6 changes the mode of an O_PATH descriptor only by its name in /proc. */
static int change_mode(int fd, mode_t mode)
{
	if (syscall(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH) == 0) return 0;
	if (errno != ENOSYS) return errno;
	char path[DESCRIPTOR_PATH_BYTES];
	path_of_descriptor(fd, path);
	return chmod(path, mode) == 0 ? 0 : errno;
}

static void change_mode_of(const struct request *request)
{
	const int fd = open_in_root(path_of(request->path), O_PATH);
	if (fd < 0) fail(errno, STAGE_CHMOD);
	const int error = change_mode(fd, request->mode);
	if (error != 0) fail(error, STAGE_CHMOD);
	done(false);
}

static void change_owner(const struct request *request)
{
	const int fd = open_in_root(path_of(request->path), O_PATH | ((request->flags & FILE_NOFOLLOW) != 0 ? O_NOFOLLOW : 0));
	if (fd < 0 || fchownat(fd, "", request->owner_uid, request->owner_gid, AT_EMPTY_PATH) != 0) fail(errno, STAGE_CHOWN);
	done(false);
}

/* Numbers of its own for what it keeps, whatever numbers init had for them. */
static void arrange(const struct child_ends *ends)
{
	const int in = fcntl(ends->in, F_DUPFD_CLOEXEC, 16), out = fcntl(ends->out, F_DUPFD_CLOEXEC, 16);
	const int control = fcntl(ends->control, F_DUPFD_CLOEXEC, 16);
	if (in < 0 || out < 0 || control < 0 || dup2(control, FILE_CONTROL) < 0) _exit(1);
	if (dup2(in, FILE_IN) < 0 || dup2(out, FILE_OUT) < 0) fail(errno, STAGE_PIPES);
	int keep[] = {FILE_CONTROL};
	close_others(keep, 1);
	const int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || (root != FILE_ROOT && dup2(root, FILE_ROOT) < 0)) fail(errno, STAGE_OPEN);
}

void run_file_operation(const struct request *request, struct child_ends ends)
{
	static void (*const operations[])(const struct request *) = {
		[OP_READ] = read_file, [OP_WRITE] = write_file, [OP_LIST] = list_folder, [OP_STAT] = stat_path,
		[OP_MKDIR] = make_folder, [OP_RENAME] = rename_path, [OP_REMOVE] = remove_path, [OP_CHMOD] = change_mode_of,
		[OP_CHOWN] = change_owner, [OP_WATCH] = watch_path,
	};
	prctl(PR_SET_NAME, "sallyport-file");
	arrange(&ends);
	enum stage stage;
	const int error = become(request, false, &stage);
	if (error != 0) fail(error, stage);
	/* modes are exactly what was asked for */
	umask(0);
	operations[request->op](request);
	_exit(1);
}
