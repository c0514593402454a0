/*
 * File operations, each in a child of init that has become the sandbox's user, so that the kernel's own checks apply. Paths
 * are resolved beneath the root without magic links; names are bytes; walks are iterative and relative to fds.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init.h"

enum { COPY_BYTES = 65536, RECORD_FIXED = 52, RECORD_MAX = RECORD_FIXED + 2 * (PATH_BYTES_MAX + 1), WATCHES_MAX = 8192, DEPTH_MAX = 100000 };

static int control = -1, out = -1, in = -1, root = -1;
static char temp_name[40];
static int temp_folder = -1;

_Noreturn static void finish(uint32_t kind, uint32_t value, enum stage stage)
{
	struct report report = {.type = 'X', .kind = kind, .value = value, .stage = stage};
	struct rusage usage;
	if (getrusage(RUSAGE_SELF, &usage) == 0)
		report.max_rss_kib = (uint64_t)usage.ru_maxrss;
	if (temp_name[0] != '\0')
		unlinkat(temp_folder, temp_name, 0);
	_exit(send(control, &report, sizeof report, MSG_NOSIGNAL) < 0);
}
_Noreturn static void fail(enum stage stage) { finish(KIND_FAILED, (uint32_t)errno, stage); }
_Noreturn static void done(uint32_t value) { finish(KIND_EXITED, value, STAGE_NONE); }

/* KILL of a write: the temporary file must not stay. */
static void on_term(int number)
{
	if (temp_name[0] != '\0')
		unlinkat(temp_folder, temp_name, 0);
	signal(number, SIG_DFL);
	raise(number);
}

static void started(void)
{
	struct report report = {.type = 'S'};
	if (send(control, &report, sizeof report, MSG_NOSIGNAL) < 0)
		_exit(1);
}

static void write_all(const uint8_t *data, size_t size)
{
	while (size > 0) {
		ssize_t written = write(out, data, size);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			_exit(1); /* init closed: it is ending */
		data += written;
		size -= (size_t)written;
	}
}

static int open_in(int folder, const char *path, int flags)
{
	struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC), .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	return (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
}

static void text_of(struct slice slice, char *path)
{
	memcpy(path, slice.data, slice.length);
	path[slice.length] = '\0';
	/* "/a/b/" names what "/a/b" does */
	for (size_t length = slice.length; length > 1 && path[length - 1] == '/'; length--)
		path[length - 1] = '\0';
}

static void make_parents(char *path, enum stage stage)
{
	for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		int fd = open_in(root, path, O_PATH | O_DIRECTORY);
		if (fd >= 0)
			close(fd);
		else if (errno != ENOENT || mkdirat(root, path + 1, 0755) < 0)
			fail(stage);
		*slash = '/';
	}
}

/* Splits into an fd of the parent folder and the last name. */
static int parent_of(char *path, const char **name, bool parents, enum stage stage)
{
	char *slash = strrchr(path, '/');
	*name = slash + 1;
	if (**name == '\0' || strcmp(*name, ".") == 0 || strcmp(*name, "..") == 0) {
		errno = EINVAL;
		fail(stage);
	}
	if (parents)
		make_parents(path, stage);
	*slash = '\0';
	int folder = open_in(root, *path == '\0' ? "/" : path, O_PATH | O_DIRECTORY);
	if (folder < 0)
		fail(stage);
	return folder;
}

static void read_file(const struct file_spec *spec, const char *path)
{
	static uint8_t buffer[COPY_BYTES];
	struct stat stat;
	/* O_NONBLOCK: a FIFO must not hold us (FS-23) */
	int fd = open_in(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &stat) < 0)
		fail(STAGE_OPEN);
	errno = S_ISDIR(stat.st_mode) ? EISDIR : EINVAL;
	if (!S_ISREG(stat.st_mode))
		fail(STAGE_OPEN);
	started();
	uint64_t left = spec->has_length ? spec->length : UINT64_MAX;
	uint64_t offset = spec->offset;
	while (left > 0) {
		ssize_t size = pread(fd, buffer, left < COPY_BYTES ? (size_t)left : COPY_BYTES, (off_t)offset);
		if (size < 0)
			fail(STAGE_READ);
		if (size == 0)
			break;
		write_all(buffer, (size_t)size);
		left -= (uint64_t)size;
		offset += (uint64_t)size;
	}
	done(0);
}

static void write_file(const struct file_spec *spec, char *path)
{
	static uint8_t buffer[COPY_BYTES];
	const char *name;
	struct stat stat;
	uint64_t random;
	int folder = parent_of(path, &name, (spec->flags & FILE_PARENTS) != 0, STAGE_OPEN);
	if (fstatat(folder, name, &stat, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(stat.st_mode)) {
		errno = EISDIR;
		fail(STAGE_OPEN);
	}
	if (strlen(name) > 255) {
		errno = ENAMETOOLONG;
		fail(STAGE_OPEN);
	}
	if (getrandom(&random, sizeof random, 0) != sizeof random)
		fail(STAGE_OPEN);
	char temporary[40];
	snprintf(temporary, sizeof temporary, ".sallyport-%016llx", (unsigned long long)random);
	int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		fail(STAGE_OPEN);
	temp_folder = folder;
	memcpy(temp_name, temporary, sizeof temporary);
	started();
	for (;;) {
		ssize_t size = read(in, buffer, sizeof buffer);
		if (size < 0 && errno == EINTR)
			continue;
		if (size < 0)
			fail(STAGE_READ);
		if (size == 0)
			break;
		for (ssize_t at = 0; at < size;) {
			ssize_t written = write(fd, buffer + at, (size_t)(size - at));
			if (written < 0)
				fail(STAGE_WRITE);
			at += written;
		}
	}
	if (fchmod(fd, spec->has_mode ? spec->mode : 0644) < 0)
		fail(STAGE_CHMOD);
	if (close(fd) < 0)
		fail(STAGE_WRITE);
	if (renameat(folder, temporary, folder, name) < 0)
		fail(STAGE_RENAME);
	temp_name[0] = '\0';
	done(0);
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

/* path: what the record says; name in folder: where a link's target is read */
static void send_entry(const struct stat *stat, const char *path, size_t path_length, int folder, const char *name)
{
	static uint8_t record[RECORD_MAX];
	static char target[PATH_BYTES_MAX + 1];
	ssize_t size = S_ISLNK(stat->st_mode) ? readlinkat(folder, name, target, PATH_BYTES_MAX) : 0;
	size_t target_length = size > 0 ? (size_t)size : 0;
	put32(record, (uint32_t)(RECORD_FIXED - 4 + path_length + target_length));
	put32(record + 4, kind_of(stat->st_mode));
	put32(record + 8, stat->st_mode & 07777);
	put32(record + 12, stat->st_uid);
	put32(record + 16, stat->st_gid);
	put32(record + 20, (uint32_t)stat->st_nlink);
	put64(record + 24, (uint64_t)stat->st_size);
	put64(record + 32, (uint64_t)stat->st_blocks);
	put64(record + 40, (uint64_t)((int64_t)stat->st_mtim.tv_sec * 1000000000 + stat->st_mtim.tv_nsec));
	put16(record + 48, (uint16_t)path_length);
	put16(record + 50, (uint16_t)target_length);
	memcpy(record + RECORD_FIXED, path, path_length);
	memcpy(record + RECORD_FIXED + path_length, target, target_length);
	write_all(record, RECORD_FIXED + path_length + target_length);
}

static void stat_file(const struct file_spec *spec, char *path)
{
	struct stat stat;
	const bool nofollow = (spec->flags & FILE_NOFOLLOW) != 0;
	char copy[PATH_BYTES_MAX + 1];
	strcpy(copy, path);
	if (!nofollow || strcmp(path, "/") == 0) {
		int fd = open_in(root, path, O_PATH);
		if (fd < 0 || fstat(fd, &stat) < 0)
			fail(STAGE_STAT);
		started();
		send_entry(&stat, copy, strlen(copy), AT_FDCWD, "");
		done(0);
	}
	const char *name;
	int folder = parent_of(path, &name, false, STAGE_STAT);
	if (fstatat(folder, name, &stat, AT_SYMLINK_NOFOLLOW) < 0)
		fail(STAGE_STAT);
	started();
	send_entry(&stat, copy, strlen(copy), folder, name);
	done(0);
}

/* A level of a walk: an open folder and where its name ends in the path so far. */
struct level {
	DIR *folder;
	size_t length;
};

struct walk {
	struct level *levels;
	size_t depth, capacity;
	char *path;
	size_t path_capacity;
};

/* Keeps few folders open however deep the tree is: above this many levels the walk goes no deeper. */
static size_t open_levels(void)
{
	struct rlimit limit;
	return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > 64 ? (size_t)limit.rlim_cur - 32 : 32;
}

static bool push(struct walk *walk, int fd, size_t length)
{
	if (walk->depth == walk->capacity) {
		size_t capacity = walk->capacity ? walk->capacity * 2 : 16;
		struct level *levels = realloc(walk->levels, capacity * sizeof *levels);
		if (levels == NULL)
			return false;
		walk->levels = levels;
		walk->capacity = capacity;
	}
	DIR *folder = fdopendir(fd);
	if (folder == NULL)
		return false;
	walk->levels[walk->depth++] = (struct level){folder, length};
	return true;
}

static bool append(struct walk *walk, size_t at, const char *name)
{
	size_t needed = at + strlen(name) + 2;
	if (needed > walk->path_capacity) {
		char *path = realloc(walk->path, needed * 2);
		if (path == NULL)
			return false;
		walk->path = path;
		walk->path_capacity = needed * 2;
	}
	if (at > 0)
		walk->path[at++] = '/';
	strcpy(walk->path + at, name);
	return true;
}

static void list_folder(const struct file_spec *spec, const char *path)
{
	struct walk walk = {0};
	int fd = open_in(root, path, O_RDONLY | O_DIRECTORY);
	if (fd < 0 || !push(&walk, fd, 0))
		fail(STAGE_LIST);
	started();
	uint32_t sent = 0, cut = 0;
	size_t deepest = open_levels();
	while (walk.depth > 0) {
		struct level *level = &walk.levels[walk.depth - 1];
		struct dirent *entry = readdir(level->folder);
		if (entry == NULL) {
			closedir(level->folder);
			walk.depth--;
			continue;
		}
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		struct stat stat;
		int folder = dirfd(level->folder);
		if (fstatat(folder, entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) < 0)
			continue; /* gone meanwhile */
		if (!append(&walk, level->length, entry->d_name))
			fail(STAGE_LIST);
		size_t length = strlen(walk.path);
		if (sent == spec->max || length > PATH_BYTES_MAX) {
			cut = 1;
			if (sent == spec->max)
				break;
			continue;
		}
		send_entry(&stat, walk.path, length, folder, entry->d_name);
		sent++;
		if (!S_ISDIR(stat.st_mode) || walk.depth >= spec->depth)
			continue;
		int child = walk.depth >= deepest ? -1 : openat(folder, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (child < 0 || !push(&walk, child, length))
			cut = child < 0 && errno == EACCES ? cut : 1;
	}
	done(cut);
}

/*
 * Removes everything below folder, which stays open. Iterative and with two fds: goes down by name, comes up by "..", so
 * that 50 000 levels need no stack (FS-26). Whoever moves folders about meanwhile hurts only his own files.
 */
static bool remove_below(int top)
{
	int current = dup(top);
	size_t depth = 0;
	while (current >= 0) {
		int again = openat(current, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		DIR *folder = again < 0 ? NULL : fdopendir(again);
		if (folder == NULL)
			return false;
		struct dirent *entry;
		int child = -1;
		while (child < 0 && (entry = readdir(folder)) != NULL) {
			if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
				continue;
			if (unlinkat(current, entry->d_name, 0) == 0 || errno == ENOENT)
				continue;
			if (errno != EISDIR && errno != EPERM)
				goto failed;
			if (unlinkat(current, entry->d_name, AT_REMOVEDIR) == 0)
				continue;
			if (errno != ENOTEMPTY && errno != EEXIST)
				goto failed;
			child = openat(current, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (child < 0)
				goto failed;
		}
		closedir(folder);
		if (child >= 0) {
			close(current);
			current = child;
			if (++depth > 10 * DEPTH_MAX) {
				errno = ELOOP;
				return false;
			}
			continue;
		}
		if (depth == 0) {
			close(current);
			return true;
		}
		int up = openat(current, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(current);
		current = up;
		depth--;
		continue;
	failed:;
		int error = errno;
		closedir(folder);
		close(current);
		errno = error;
		return false;
	}
	return false;
}

static void remove_file(const struct file_spec *spec, char *path)
{
	const char *name;
	int folder = parent_of(path, &name, false, STAGE_REMOVE);
	started();
	if (unlinkat(folder, name, 0) == 0)
		done(0);
	if (errno != EISDIR && errno != EPERM)
		fail(STAGE_REMOVE);
	if (unlinkat(folder, name, AT_REMOVEDIR) == 0)
		done(0);
	if (!(spec->flags & FILE_RECURSIVE) || (errno != ENOTEMPTY && errno != EEXIST))
		fail(STAGE_REMOVE);
	int top = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (top < 0 || !remove_below(top) || unlinkat(folder, name, AT_REMOVEDIR) < 0)
		fail(STAGE_REMOVE);
	done(0);
}

static void make_folder(const struct file_spec *spec, char *path)
{
	const char *name;
	const bool parents = (spec->flags & FILE_PARENTS) != 0;
	if (parents && strcmp(path, "/") == 0)
		done(0);
	int folder = parent_of(path, &name, parents, STAGE_MKDIR);
	struct stat stat;
	if (mkdirat(folder, name, spec->has_mode ? spec->mode : 0755) == 0)
		done(0);
	if (errno == EEXIST && parents && fstatat(folder, name, &stat, 0) == 0 && S_ISDIR(stat.st_mode))
		done(0);
	errno = EEXIST;
	fail(STAGE_MKDIR);
}

static void rename_file(const struct file_spec *spec, char *path)
{
	char other[PATH_BYTES_MAX + 1];
	const char *from, *to;
	text_of(spec->path2, other);
	int from_folder = parent_of(path, &from, false, STAGE_RENAME), to_folder = parent_of(other, &to, false, STAGE_RENAME);
	if (renameat(from_folder, from, to_folder, to) < 0)
		fail(STAGE_RENAME);
	done(0);
}

static void change(const struct file_spec *spec, const char *path)
{
	const enum stage stage = spec->op == FILE_CHMOD ? STAGE_CHMOD : STAGE_CHOWN;
	int fd = open_in(root, path, O_PATH);
	if (fd < 0)
		fail(stage);
	char name[40];
	/* an O_PATH fd takes no fchmod: its link in /proc does, and was resolved beneath the root already */
	snprintf(name, sizeof name, "self/fd/%d", fd);
	int result = spec->op == FILE_CHMOD ? fchmodat(proc_fd, name, spec->mode, 0)
	                                    : fchownat(fd, "", spec->owner_uid, spec->owner_gid, AT_EMPTY_PATH);
	if (result < 0)
		fail(stage);
	done(0);
}

struct watched {
	int id;
	char *path;
};
static struct watched watches[WATCHES_MAX];
static size_t watch_count;

static void send_event(uint8_t kind, const char *folder, const char *name)
{
	static uint8_t record[12 + 2 * (PATH_BYTES_MAX + 1)];
	int length = snprintf((char *)record + 12, sizeof record - 12, "%s%s%s", folder, *folder && *name ? "/" : "", name);
	if (length < 0 || (size_t)length >= sizeof record - 12)
		return;
	put32(record, (uint32_t)(8 + length));
	record[4] = kind;
	memset(record + 5, 0, 3);
	put16(record + 8, (uint16_t)length);
	put16(record + 10, 0);
	write_all(record, 12 + (size_t)length);
}

static void add_watch(int notify, int folder, const char *path, bool recursive)
{
	enum { EVENTS = IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_ONLYDIR };
	char name[40];
	snprintf(name, sizeof name, "/proc/self/fd/%d", folder);
	int id = inotify_add_watch(notify, name, EVENTS);
	if (id < 0 || watch_count == WATCHES_MAX) {
		errno = id < 0 ? errno : ENOSPC;
		fail(STAGE_WATCH);
	}
	char *copy = strdup(path);
	if (copy == NULL)
		fail(STAGE_WATCH);
	watches[watch_count++] = (struct watched){id, copy};
	if (!recursive || strlen(path) > PATH_BYTES_MAX - 256)
		return;
	int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = again < 0 ? NULL : fdopendir(again);
	struct dirent *entry;
	while (entries != NULL && (entry = readdir(entries)) != NULL) {
		if (entry->d_type != DT_DIR || strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		int child = openat(folder, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (child < 0)
			continue;
		char below[PATH_BYTES_MAX + 1];
		snprintf(below, sizeof below, "%.*s%s%.255s", PATH_BYTES_MAX - 257, path, *path ? "/" : "", entry->d_name);
		add_watch(notify, child, below, true);
		close(child);
	}
	if (entries != NULL)
		closedir(entries);
}

static const char *watched_path(int id)
{
	for (size_t i = 0; i < watch_count; i++)
		if (watches[i].id == id)
			return watches[i].path;
	return "";
}

static uint8_t event_kind(uint32_t mask)
{
	if (mask & IN_Q_OVERFLOW) return 'o';
	if (mask & IN_CREATE) return 'c';
	if (mask & IN_MODIFY) return 'm';
	if (mask & IN_DELETE) return 'd';
	if (mask & IN_MOVED_FROM) return 'f';
	if (mask & IN_MOVED_TO) return 't';
	return mask & IN_ATTRIB ? 'a' : 0;
}

static void watch_folder(const struct file_spec *spec, const char *path)
{
	static uint8_t buffer[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
	const bool recursive = (spec->flags & FILE_RECURSIVE) != 0;
	int notify = inotify_init1(IN_CLOEXEC);
	int folder = open_in(root, path, O_RDONLY | O_DIRECTORY);
	if (notify < 0 || folder < 0)
		fail(STAGE_WATCH);
	add_watch(notify, folder, "", recursive);
	started();
	send_event('R', "", "");
	for (;;) {
		ssize_t size = read(notify, buffer, sizeof buffer);
		if (size <= 0)
			fail(STAGE_WATCH);
		for (uint8_t *at = buffer; at < buffer + size;) {
			struct inotify_event *event = (struct inotify_event *)(void *)at;
			at += sizeof *event + event->len;
			uint8_t kind = event_kind(event->mask);
			const char *below = watched_path(event->wd), *name = event->len > 0 ? event->name : "";
			if (kind == 0)
				continue;
			send_event(kind, below, name);
			if (!recursive || !(event->mask & IN_ISDIR) || (kind != 'c' && kind != 't'))
				continue;
			char full[PATH_BYTES_MAX + 1];
			if (snprintf(full, sizeof full, "%s%s%s", below, *below ? "/" : "", name) >= (int)sizeof full)
				continue;
			int child = openat(folder, full, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (child < 0)
				continue;
			add_watch(notify, child, full, true);
			close(child);
		}
	}
}

_Noreturn void file_worker(const struct file_spec *spec, int stdin_fd, int stdout_fd, int control_fd)
{
	char path[PATH_BYTES_MAX + 1];
	control = control_fd;
	out = stdout_fd;
	in = stdin_fd;
	prctl(PR_SET_NAME, "sallyport-file");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		fail(STAGE_OPEN);
	int keep[] = {stdin_fd, stdout_fd, control_fd, proc_fd, root};
	close_all_but(keep, 5);
	signal(SIGTERM, on_term);
	enum stage failed = become(&spec->identity, false);
	if (failed != STAGE_NONE)
		fail(failed);
	umask(022);
	text_of(spec->path, path);
	switch (spec->op) {
	case FILE_READ: read_file(spec, path); break;
	case FILE_WRITE: write_file(spec, path); break;
	case FILE_LIST: list_folder(spec, path); break;
	case FILE_STAT: stat_file(spec, path); break;
	case FILE_MKDIR: make_folder(spec, path); break;
	case FILE_RENAME: rename_file(spec, path); break;
	case FILE_REMOVE: remove_file(spec, path); break;
	case FILE_CHMOD:
	case FILE_CHOWN: change(spec, path); break;
	default: watch_folder(spec, path);
	}
	_exit(1);
}
