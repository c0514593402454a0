/*
 * watch: inotify on a path, and on every folder below it when recursive. A reader that is too slow fills the kernel's
 * queue, not memory: then one `o` record says that events were lost.
 */
#define _GNU_SOURCE
#include "walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

enum {
	WATCHES_MAX = 8192,
	EVENT_BYTES = 16384,
	WANTED = IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB,
	WANTED_OF_TOP = WANTED | IN_DELETE_SELF | IN_MOVE_SELF,
};

/* `path` is relative to the watched path; "" is that itself. */
struct watch {
	int number;
	char *path;
};

static struct watch watches[WATCHES_MAX];
static size_t watch_count;
static int notify = -1;
static bool recursive;
/* Not kept open: IN_DELETE_SELF comes only when nobody holds the inode any more. */
static const char *top_path;
static struct stat top_status;

static void emit_event(char kind, const char *path)
{
	uint8_t fixed[12] = {0};
	const size_t size = strlen(path);
	put_u32(fixed, (uint32_t)(8 + size));
	fixed[4] = (uint8_t)kind;
	put_u16(fixed + 8, (uint16_t)size);
	emit(fixed, sizeof fixed);
	emit(path, size);
}

static struct watch *find_watch(int number)
{
	for (size_t i = watch_count; i > 0; i--)
		if (watches[i - 1].number == number) return &watches[i - 1];
	return NULL;
}

static void forget_watch(int number)
{
	struct watch *watch = find_watch(number);
	if (watch == NULL) return;
	free(watch->path);
	*watch = watches[--watch_count];
}

/* Again for a folder that is watched already: it has been moved, and its watch takes the new path. */
static void add_watch(int folder, const char *path)
{
	char name[DESCRIPTOR_PATH_BYTES];
	path_of_descriptor(folder, name);
	const int number = inotify_add_watch(notify, name, path[0] == 0 ? WANTED_OF_TOP : WANTED);
	/* closed to this user: its parent still tells when it comes and goes */
	if (number < 0 && errno == EACCES && path[0] != 0) return;
	if (number < 0) fail(errno, STAGE_WATCH);
	struct watch *watch = find_watch(number);
	if (watch == NULL && watch_count == WATCHES_MAX) fail(ENOSPC, STAGE_WATCH);
	if (watch == NULL) watches[watch_count++] = (struct watch){.number = number};
	else free(watch->path);
	watch = find_watch(number);
	watch->path = strdup(path);
	if (watch->path == NULL) fail(ENOMEM, STAGE_WATCH);
}

/* @return the joined path, in a buffer that the next call overwrites; "" + name is name */
static const char *join(const char *folder, const char *name)
{
	static char joined[PATH_BYTES_MAX + 1];
	const size_t base = strlen(folder), size = strlen(name);
	if (base + 1 + size > PATH_BYTES_MAX) fail(ENAMETOOLONG, STAGE_WATCH);
	memmove(joined, folder, base);
	if (base > 0) joined[base] = '/';
	memmove(joined + base + (base > 0), name, size + 1);
	return joined;
}

static bool looks_like_folder(int folder, const char *name, uint8_t type)
{
	struct stat status;
	if (type != DT_UNKNOWN) return type == DT_DIR;
	return fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

/*
 * Watches a folder and all below it. Each is watched before it is read, so nothing made meanwhile is missed; `announce`
 * tells of the entries found, which were made before the watch was.
 */
static void watch_below(int folder, const char *path, bool announce)
{
	static struct walk walk;
	char here[PATH_BYTES_MAX + 1];
	strcpy(here, path);
	walk_begin(&walk, folder, STAGE_WATCH);
	walk.levels[0].path_size = (uint32_t)strlen(here);
	add_watch(folder, here);
	for (;;) {
		uint8_t type;
		const char *name = walk_next(&walk, &type);
		here[walk.levels[walk.depth].path_size] = 0;
		if (name == NULL) {
			if (!walk_up(&walk)) break;
			continue;
		}
		const bool descends = looks_like_folder(walk_folder(&walk), name, type);
		if (!announce && !descends) continue;
		const char *joined = join(here, name);
		if (announce) emit_event('c', joined);
		if (!descends || !walk_down(&walk, name)) continue;
		strcpy(here, joined);
		walk.levels[walk.depth].path_size = (uint32_t)strlen(here);
		add_watch(walk_folder(&walk), here);
	}
	close(walk_folder(&walk));
}

/* @return the watched path's descriptor; -1 when something else stands there by now */
static int open_top(void)
{
	struct stat status;
	const int top = open_in_root(top_path, O_PATH);
	if (top < 0) return -1;
	if (fstat(top, &status) == 0 && status.st_dev == top_status.st_dev && status.st_ino == top_status.st_ino) return top;
	close(top);
	return -1;
}

static void watch_new_folder(const char *path)
{
	char copy[PATH_BYTES_MAX + 1];
	strcpy(copy, path);
	const int top = open_top();
	if (top < 0) return;
	const int folder = openat(top, copy, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	close(top);
	if (folder >= 0) watch_below(folder, copy, true);
}

/* A folder that was moved away: what happens in it is not beneath the watched path any more. IN_IGNORED follows. */
static void unwatch_below(const char *path)
{
	const size_t size = strlen(path);
	for (size_t i = 0; i < watch_count; i++) {
		const char *other = watches[i].path;
		if (strncmp(other, path, size) == 0 && (other[size] == 0 || other[size] == '/')) inotify_rm_watch(notify, watches[i].number);
	}
}

static char kind_of_event(uint32_t mask)
{
	static const struct {
		uint32_t mask;
		char kind;
	} kinds[] = {{IN_CREATE, 'c'}, {IN_MODIFY, 'm'}, {IN_DELETE | IN_DELETE_SELF, 'd'}, {IN_MOVED_FROM | IN_MOVE_SELF, 'f'},
		{IN_MOVED_TO, 't'}, {IN_ATTRIB, 'a'}};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if ((mask & kinds[i].mask) != 0) return kinds[i].kind;
	return 0;
}

static void take_event(const struct inotify_event *event)
{
	if ((event->mask & IN_Q_OVERFLOW) != 0) {
		emit_event('o', "");
		return;
	}
	if ((event->mask & IN_IGNORED) != 0) {
		forget_watch(event->wd);
		return;
	}
	const struct watch *watch = find_watch(event->wd);
	const char kind = kind_of_event(event->mask);
	const bool about_itself = event->len == 0;
	/* a folder's parent has said the same already */
	if (watch == NULL || kind == 0 || (about_itself && watch->path[0] != 0)) return;
	const char *path = about_itself ? "" : join(watch->path, event->name);
	emit_event(kind, path);
	if (!recursive || about_itself || (event->mask & IN_ISDIR) == 0) return;
	if (kind == 'f') unwatch_below(path);
	if (kind == 'c' || kind == 't') watch_new_folder(path);
}

void watch_path(const struct request *request)
{
	static _Alignas(struct inotify_event) char events[EVENT_BYTES];
	recursive = (request->flags & FILE_RECURSIVE) != 0;
	notify = inotify_init1(IN_CLOEXEC);
	top_path = path_of(request->path);
	const int top = open_in_root(top_path, O_PATH);
	if (notify < 0 || top < 0 || fstat(top, &top_status) != 0) fail(errno, STAGE_WATCH);
	const int folder = recursive && S_ISDIR(top_status.st_mode) ? openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (folder >= 0) watch_below(folder, "", false);
	else add_watch(top, "");
	close(top);
	for (emit_event('R', "");;) {
		emit_flush();
		const ssize_t size = read(notify, events, sizeof events);
		if (size <= 0) fail(size < 0 ? errno : EIO, STAGE_WATCH);
		for (ssize_t at = 0; at < size;) {
			const struct inotify_event *event = (const void *)(events + at);
			at += (ssize_t)(sizeof *event + event->len);
			take_event(event);
		}
	}
}
