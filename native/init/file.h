/*
 * file: what the file operations share. All of it runs in a child that has become the sandbox's user and ends after one
 * operation: a failure is reported and the process is left, from wherever it is found.
 */
#ifndef SALLYPORT_FILE_H
#define SALLYPORT_FILE_H

#include "process.h"

#include <sys/stat.h>
#include <sys/types.h>

enum { FILE_IN = 0, FILE_OUT = 1, FILE_CONTROL = 3, FILE_ROOT = 4, NAME_BYTES_MAX = 255, DESCRIPTOR_PATH_BYTES = 24 };

/* Report and leave. `cut`: the result was cut at a limit. */
_Noreturn void done(bool cut);
_Noreturn void fail(int error, enum stage stage);

/* Puts bytes on their way to stdout; done() or emit_flush() sends what is held back. */
void emit(const void *bytes, size_t size);
void emit_flush(void);

/* The name in /proc under which a call that takes only paths reaches an open file. */
void path_of_descriptor(int fd, char path[static DESCRIPTOR_PATH_BYTES]);

/* Opens beneath the sandbox's root, never through a magic link. @return -1 with errno */
int open_in_root(const char *path, int flags);
/* A NUL-terminated copy that lives as long as the process. */
char *path_of(struct text text);

/* The folder a path's last name is in, and that name: never "", "." or "..". */
struct place {
	int folder;
	const char *name;
};
struct place place_of(char *path, enum stage stage);

/* Appends the stat or list record of `name` in `folder` to stdout. `name` "" is `folder` itself. */
void emit_record(int folder, const char *name, const struct stat *status, const char *path, size_t path_size);

/* folders.c */
_Noreturn void list_folder(const struct request *request);
_Noreturn void remove_path(const struct request *request);
/* watch.c */
_Noreturn void watch_path(const struct request *request);

#endif
