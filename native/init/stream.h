/*
 * stream: one SPAWN or FILE from its frame to CLOSED: its pipes, its credit, what is owed to the host when it ends. The
 * event loop marks sources ready and calls stream_turn; everything here is non-blocking.
 */
#ifndef SALLYPORT_STREAM_H
#define SALLYPORT_STREAM_H

#include "process.h"

#include <sys/types.h>

/* A watched descriptor. Edge-triggered: `ready` is set by the event loop and cleared at EAGAIN. */
struct source {
	int fd;
	bool ready;
};

struct channel {
	struct source source;
	enum frame_type type;
	uint64_t credit, discarded;
	/* once the main process has ended: bytes that were in the pipe then and are still to be sent */
	uint64_t owed;
};

struct stream {
	uint32_t id;
	bool is_file, terminal, has_stdin, discards, killed;
	/* the supervisor, or the child of a file operation */
	pid_t pid;
	bool reaped;
	int status;
	struct source control;
	struct channel channels[2];
	struct source input;
	bool input_ends;
	uint32_t input_credit, input_consumed;
	uint8_t *queue;
	uint32_t queue_first, queue_end;
	bool has_ended, exit_sent, closed;
	struct report end;
	uint64_t late;
	/* file operations: when SIGKILL follows SIGTERM; 0: never */
	int64_t kill_at_ms;
};

/* main.c */
bool source_watch(struct source *source, uint32_t events);
void source_close(struct source *source);
/* Ends the sandbox: says why, kills every process, exits with `code`. */
_Noreturn void fatal(uint32_t code, const char *text);

enum { EXIT_MALFORMED = 70, EXIT_SUPERVISOR_LOST = 71, EXIT_LIFETIME = 75 };

/* spawn.c: makes the pipes and forks. @return 0 or errno, and *stage; on failure nothing is left open */
int stream_fork(struct stream *stream, const struct request *request, uint8_t *payload, size_t size, enum stage *stage);

/* stream.c */
struct stream *stream_find(uint32_t id);
bool streams_have_spawn(void);
/* Opens and starts a stream, or answers that it cannot. */
void stream_open(uint32_t id, uint8_t type, const struct request *request, uint8_t *payload, size_t size);
/* False: more than the credit. */
bool stream_input(struct stream *stream, const uint8_t *bytes, uint32_t size);
void stream_input_end(struct stream *stream);
void stream_order(struct stream *stream, enum order_kind kind, uint32_t value);
void stream_kill(struct stream *stream, uint32_t grace_ms);
void stream_reaped(pid_t pid, int status);
/* One turn of all streams, one chunk per channel. @return whether anything moved, so that another turn makes sense */
bool streams_turn(void);
/* Sends SIGKILL where a SIGTERM has had its time. @return ms until the next such moment, -1 for none */
int streams_deadline(void);
void streams_release(void);

/* disk.c: tells the host when the writable root becomes full, and again whenever `repeat`. */
void disk_check(bool repeat);

#endif
