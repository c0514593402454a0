/* walk: see walk.h. */
#define _GNU_SOURCE
#include "walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_LEVELS = 64, FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK };

static int *slot_of(struct walk *walk, size_t depth)
{
	return &walk->open[depth % WALK_OPEN_MAX];
}

int walk_folder(const struct walk *walk)
{
	return walk->open[walk->depth % WALK_OPEN_MAX];
}

static void enter(struct walk *walk, int folder)
{
	if (walk->depth >= walk->capacity) {
		walk->capacity = walk->capacity == 0 ? FIRST_LEVELS : walk->capacity * 2;
		struct level *levels = realloc(walk->levels, walk->capacity * sizeof *levels);
		if (levels == NULL) fail(ENOMEM, walk->stage);
		walk->levels = levels;
	}
	struct stat status;
	if (fstat(folder, &status) != 0) fail(errno, walk->stage);
	walk->levels[walk->depth] = (struct level){.device = status.st_dev, .inode = status.st_ino};
	int *slot = slot_of(walk, walk->depth);
	if (*slot >= 0) close(*slot);
	*slot = folder;
	walk->entries_at = walk->entries_end = 0;
}

void walk_begin(struct walk *walk, int folder, enum stage stage)
{
	*walk = (struct walk){.stage = stage};
	for (int i = 0; i < WALK_OPEN_MAX; i++) walk->open[i] = -1;
	enter(walk, folder);
}

const char *walk_next(struct walk *walk, uint8_t *type)
{
	for (;;) {
		if (walk->entries_at == walk->entries_end) {
			const ssize_t size = getdents64(walk_folder(walk), walk->entries, sizeof walk->entries);
			/* ENOENT: the folder was removed while it was read */
			if (size < 0 && errno != ENOENT) fail(errno, walk->stage);
			if (size <= 0) return NULL;
			walk->entries_at = 0;
			walk->entries_end = (size_t)size;
		}
		const struct dirent64 *entry = (const void *)(walk->entries + walk->entries_at);
		walk->entries_at += entry->d_reclen;
		walk->levels[walk->depth].position = entry->d_off;
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
		*type = entry->d_type;
		return entry->d_name;
	}
}

void walk_rewind(struct walk *walk)
{
	walk->entries_at = walk->entries_end = 0;
	if (lseek(walk_folder(walk), 0, SEEK_SET) < 0) fail(errno, walk->stage);
}

bool walk_down(struct walk *walk, const char *name)
{
	const int folder = openat(walk_folder(walk), name, FOLDER_FLAGS);
	if (folder < 0) return false;
	walk->depth++;
	enter(walk, folder);
	return true;
}

/* ".." is trusted only when it is the folder the walk came from: somebody may have moved this one meanwhile. */
static int reopen_parent(struct walk *walk, int folder)
{
	const struct level *level = &walk->levels[walk->depth - 1];
	struct stat status;
	const int parent = openat(folder, "..", FOLDER_FLAGS);
	if (parent < 0 || fstat(parent, &status) != 0) fail(errno, walk->stage);
	if (status.st_dev != level->device || status.st_ino != level->inode) fail(EAGAIN, walk->stage);
	return parent;
}

bool walk_up(struct walk *walk)
{
	if (walk->depth == 0) return false;
	int *slot = slot_of(walk, walk->depth), *parent = slot_of(walk, walk->depth - 1);
	if (*parent < 0) *parent = reopen_parent(walk, *slot);
	close(*slot);
	*slot = -1;
	walk->depth--;
	walk->entries_at = walk->entries_end = 0;
	if (lseek(*parent, walk->levels[walk->depth].position, SEEK_SET) < 0) fail(errno, walk->stage);
	return true;
}
