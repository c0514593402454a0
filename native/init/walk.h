/*
 * walk: a depth-first walk through a folder that holds few descriptors and no recursion, however deep the tree. It works
 * relative to descriptors, never by long paths, and goes up only to the very folder that it came down from.
 */
#ifndef SALLYPORT_WALK_H
#define SALLYPORT_WALK_H

#include "file.h"

enum { WALK_OPEN_MAX = 32, WALK_ENTRIES_BYTES = 4096 };

struct level {
	dev_t device;
	ino_t inode;
	/* where to go on reading, and how long the relative path is here */
	off_t position;
	uint32_t path_size;
};

struct walk {
	enum stage stage;
	struct level *levels;
	size_t depth, capacity;
	/* of the deepest levels; -1: closed, and opened again through ".." */
	int open[WALK_OPEN_MAX];
	/* the entries read but not yet handed out */
	_Alignas(8) char entries[WALK_ENTRIES_BYTES];
	size_t entries_at, entries_end;
};

/* `folder` is then the walk's, at depth 0. Failures of the walk end the process with `stage`. */
void walk_begin(struct walk *walk, int folder, enum stage stage);
/* The folder the walk is in. */
int walk_folder(const struct walk *walk);
/* The next entry of the folder but "." and ".."; NULL at its end. Valid until the next call. `*type` is a DT_ value. */
const char *walk_next(struct walk *walk, uint8_t *type);
/* Reads the folder from its start again. */
void walk_rewind(struct walk *walk);
/* @return false with errno, when `name` is no folder (any more) or may not be opened */
bool walk_down(struct walk *walk, const char *name);
/* @return false at depth 0 */
bool walk_up(struct walk *walk);

#endif
