/* folders: the two file operations that walk: list and remove. */
#define _GNU_SOURCE
#include "walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* A longer path could not be named in a FILE anyway: below it the list is cut. */
enum { LIST_PATH_MAX = PATH_BYTES_MAX, REMOVE_RACES = 100 };

struct list {
	struct walk walk;
	uint32_t left, depth;
	bool cut;
	char path[LIST_PATH_MAX];
};

static uint32_t base_size(const struct list *list)
{
	return list->walk.levels[list->walk.depth].path_size;
}

/* Goes down into the folder just listed. */
static void list_below(struct list *list, const char *name, uint32_t path_size)
{
	if (list->walk.depth + 1 >= list->depth) return;
	if (path_size + 1 + NAME_BYTES_MAX > LIST_PATH_MAX) {
		list->cut = true;
		return;
	}
	if (!walk_down(&list->walk, name)) {
		/* closed to this user, or gone or swapped meanwhile */
		if (errno != EACCES && errno != ENOENT && errno != ENOTDIR && errno != ELOOP) fail(errno, STAGE_LIST);
		return;
	}
	list->path[path_size] = '/';
	list->walk.levels[list->walk.depth].path_size = path_size + 1;
}

/* @return false when the list is full */
static bool list_entry(struct list *list, const char *name)
{
	struct stat status;
	if (fstatat(walk_folder(&list->walk), name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
		if (errno == ENOENT) return true;
		/* a folder whose names may be read, but nothing else of its entries */
		if (errno != EACCES || list->walk.depth == 0) fail(errno, STAGE_LIST);
		list->cut = true;
		return true;
	}
	if (list->left == 0) return false;
	list->left--;
	const size_t size = strlen(name), base = base_size(list);
	memcpy(list->path + base, name, size);
	emit_record(walk_folder(&list->walk), name, &status, list->path, base + size);
	if (S_ISDIR(status.st_mode)) list_below(list, name, (uint32_t)(base + size));
	return true;
}

void list_folder(const struct request *request)
{
	static struct list list;
	const int folder = open_in_root(path_of(request->path), O_RDONLY | O_DIRECTORY | O_NONBLOCK);
	if (folder < 0) fail(errno, STAGE_OPEN);
	if (request->depth == 0) fail(EINVAL, STAGE_LIST);
	list.left = request->max;
	list.depth = request->depth;
	walk_begin(&list.walk, folder, STAGE_LIST);
	for (;;) {
		uint8_t type;
		const char *name = walk_next(&list.walk, &type);
		if (name == NULL && !walk_up(&list.walk)) done(list.cut);
		if (name != NULL && !list_entry(&list, name)) done(true);
	}
}

/* @return 0, ENOTEMPTY for a folder with entries, or the errno that stops the removal */
static int remove_one(int folder, const char *name, uint8_t type)
{
	if (type != DT_DIR) {
		if (unlinkat(folder, name, 0) == 0 || errno == ENOENT) return 0;
		if (errno != EISDIR) return errno;
	}
	if (unlinkat(folder, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return 0;
	return errno == EEXIST ? ENOTEMPTY : errno;
}

/* Empties the folder. A child that was emptied is met again, and removed, when its parent is read from its start. */
static void empty_folder(int folder)
{
	static struct walk walk;
	walk_begin(&walk, folder, STAGE_REMOVE);
	for (;;) {
		uint8_t type;
		const char *name = walk_next(&walk, &type);
		if (name == NULL) {
			if (!walk_up(&walk)) break;
			walk_rewind(&walk);
			continue;
		}
		const int error = remove_one(walk_folder(&walk), name, type);
		if (error != 0 && error != ENOTEMPTY) fail(error, STAGE_REMOVE);
		if (error == ENOTEMPTY && !walk_down(&walk, name) && errno != ENOENT) fail(errno, STAGE_REMOVE);
	}
	/* the top folder's descriptor is the only one left open */
	close(walk_folder(&walk));
}

void remove_path(const struct request *request)
{
	const struct place place = place_of(path_of(request->path), STAGE_REMOVE);
	if (unlinkat(place.folder, place.name, 0) == 0) done(false);
	if (errno != EISDIR) fail(errno, STAGE_REMOVE);
	/* somebody may fill it again meanwhile: not for ever */
	for (int races = 0; races < REMOVE_RACES; races++) {
		const int error = remove_one(place.folder, place.name, DT_DIR);
		if (error == 0) done(false);
		if (error != ENOTEMPTY || (request->flags & FILE_RECURSIVE) == 0) fail(error, STAGE_REMOVE);
		const int folder = openat(place.folder, place.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (folder < 0) fail(errno, STAGE_REMOVE);
		empty_folder(folder);
	}
	fail(ENOTEMPTY, STAGE_REMOVE);
}
