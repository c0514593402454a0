/* What the parts of init share. */
#ifndef SALLYPORT_INIT_H
#define SALLYPORT_INIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "frame.h"

enum stage {
	STAGE_NONE, STAGE_DECODE, STAGE_PIPES, STAGE_FORK, STAGE_IDENTITY, STAGE_CAPABILITIES, STAGE_CWD, STAGE_PTY, STAGE_EXEC,
	STAGE_OPEN, STAGE_READ, STAGE_WRITE, STAGE_RENAME, STAGE_LIST, STAGE_STAT, STAGE_MKDIR, STAGE_REMOVE, STAGE_CHMOD,
	STAGE_CHOWN, STAGE_WATCH, STAGE_LIMITS
};

enum exit_kind { KIND_EXITED, KIND_SIGNALLED, KIND_FAILED, KIND_LOST };

/* From a supervisor or a file worker to init, over their SOCK_SEQPACKET pair. */
struct report {
	uint8_t type; /* 'S' started, 'X' ended */
	uint32_t kind, value, stage;
	uint64_t user_us, system_us, max_rss_kib;
};

/* From init to a supervisor. */
struct order {
	uint8_t type; /* 's' signal, 'k' kill */
	uint32_t number; /* signal, or grace in ms */
	uint32_t scope;
};

/* What a command is started with; strings live in the frame's payload until the fork is done. */
struct child_io {
	int stdin_fd, stdout_fd, stderr_fd; /* -1: /dev/null; PTY: all the slave */
	int control_fd;
	bool is_pty;
};

_Noreturn void supervise(const struct spawn_spec *spec, const uint8_t *payload, uint32_t length, const struct child_io *io);
_Noreturn void file_worker(const struct file_spec *spec, int stdin_fd, int stdout_fd, int control_fd);

/* Gives up root for good; returns the stage that failed, or STAGE_NONE. */
enum stage become(const struct identity *identity, bool keep_root);

/* Closes every fd but those in keep (sorted here; -1 entries are skipped). */
void close_all_but(int *keep, size_t count);

extern int proc_fd; /* /proc, opened before anything of the sandbox ran */

#endif
