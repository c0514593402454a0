/*
 * process: what init's children are made of: the messages between them and init, the identity they take, the file
 * descriptors they keep. Every child is a fork of init, without exec: one image, one page cache.
 */
#ifndef SALLYPORT_PROCESS_H
#define SALLYPORT_PROCESS_H

#include "frame.h"

/* Child → init, one datagram each. */
enum report_kind { REPORT_STARTED, REPORT_FAILED, REPORT_EXITED, REPORT_SIGNALLED };

struct report {
	enum report_kind kind;
	/* pid, errno, exit status or signal number, as the kind says */
	uint32_t value;
	enum stage stage;
	uint64_t user_us, system_us, max_rss_kib;
};

/* init → supervisor, one datagram each. */
enum order_kind { ORDER_SIGNAL_MAIN, ORDER_SIGNAL_TREE, ORDER_KILL };

struct order {
	enum order_kind kind;
	/* signal number, or grace in ms */
	uint32_t value;
};

/* The child's ends. For a PTY in = out = err = its terminal. -1: none. */
struct child_ends {
	int in, out, err, control;
	bool terminal;
};

/* Sends to init; leaves the process when init is gone. */
void report_send(int control, const struct report *report);
/* Closes every descriptor from 3 on but those of `keep`; sorts `keep`. -1 entries are skipped. */
void close_others(int *keep, size_t count);
/* Becomes the request's uid, gid and groups. With `root` capabilities stay within reach. @return 0 or errno, and *stage */
int become(const struct request *request, bool root, enum stage *stage);
int64_t now_ms(void);
/* Gives the pages of init's big buffers back: a child that lives on needs none of what its parent had in them. */
void buffers_release(void);

/* The supervisor of one command. `payload` is the SPAWN's. */
_Noreturn void supervise(const struct request *request, uint8_t *payload, size_t size, struct child_ends ends);
/* The main process, up to execve. Never returns: on failure {errno, stage} goes to `failure`. */
_Noreturn void run_command(const struct request *request, uint8_t *payload, size_t size, struct child_ends ends, int failure);
/* One file operation. */
_Noreturn void run_file_operation(const struct request *request, struct child_ends ends);

#endif
