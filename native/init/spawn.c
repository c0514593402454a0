/* spawn: the descriptors of a new stream and the fork of its child. */
#define _GNU_SOURCE
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

enum { OUTPUT_PIPE_BYTES = 256 << 10, CONTROL_PATIENCE_S = 1 };

static void forget(int *fd)
{
	if (*fd >= 0) close(*fd);
	*fd = -1;
}

/* Where the user's allowance for pipe pages is used up a pipe stays small: slower, not wrong. */
static bool open_pipe(int *reader, int *writer, int *ours, int bytes)
{
	int pipe_ends[2];
	if (pipe2(pipe_ends, O_CLOEXEC) != 0) return false;
	*reader = pipe_ends[0];
	*writer = pipe_ends[1];
	if (bytes > 0) fcntl(*reader, F_SETPIPE_SZ, bytes);
	return fcntl(*ours, F_SETFL, O_NONBLOCK) == 0;
}

static bool open_pipes(struct stream *stream, struct child_ends *ends, bool with_err)
{
	int *in = &stream->input.fd, *out = &stream->channels[0].source.fd, *err = &stream->channels[1].source.fd;
	if (!open_pipe(out, &ends->out, out, OUTPUT_PIPE_BYTES)) return false;
	if (with_err && !open_pipe(err, &ends->err, err, OUTPUT_PIPE_BYTES)) return false;
	if (stream->has_stdin) return open_pipe(&ends->in, in, in, 0);
	ends->in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return ends->in >= 0;
}

/* devpts gives a terminal to the filesystem uid of whoever opens ptmx: the command's, so that it can reopen its own. */
static int open_master(const struct request *request)
{
	setfsgid(request->gid);
	setfsuid(request->uid);
	const int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	const int error = errno;
	setfsuid(0);
	setfsgid(0);
	errno = error;
	return master;
}

static bool open_terminal(struct stream *stream, struct child_ends *ends, const struct request *request)
{
	const int master = stream->channels[0].source.fd = open_master(request);
	const int unlocked = 0;
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlocked) != 0) return false;
	const struct winsize size = {.ws_row = request->rows, .ws_col = request->columns};
	if (ioctl(master, TIOCSWINSZ, &size) != 0) return false;
	/* by descriptor: a path under /dev/pts is only a name */
	const int terminal = ends->in = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (terminal < 0) return false;
	ends->out = fcntl(terminal, F_DUPFD_CLOEXEC, 3);
	ends->err = fcntl(terminal, F_DUPFD_CLOEXEC, 3);
	stream->input.fd = fcntl(master, F_DUPFD_CLOEXEC, 3);
	return ends->out >= 0 && ends->err >= 0 && stream->input.fd >= 0;
}

/* Datagrams with an end: a report arrives whole, and the child's death is the end of the file. */
static bool open_control(struct stream *stream, struct child_ends *ends)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return false;
	stream->control.fd = pair[0];
	ends->control = pair[1];
	const struct timeval patience = {.tv_sec = CONTROL_PATIENCE_S};
	return setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0;
}

static bool watch_all(struct stream *stream)
{
	if (!source_watch(&stream->control, EPOLLIN) || !source_watch(&stream->channels[0].source, EPOLLIN)) return false;
	if (stream->channels[1].source.fd >= 0 && !source_watch(&stream->channels[1].source, EPOLLIN)) return false;
	return stream->input.fd < 0 || source_watch(&stream->input, EPOLLOUT);
}

static void close_child_ends(struct child_ends *ends)
{
	forget(&ends->in);
	forget(&ends->out);
	forget(&ends->err);
	forget(&ends->control);
}

int stream_fork(struct stream *stream, const struct request *request, uint8_t *payload, size_t size, enum stage *stage)
{
	struct child_ends ends = {-1, -1, -1, -1, stream->terminal};
	*stage = stream->terminal ? STAGE_PTY : STAGE_PIPES;
	bool opened = stream->terminal ? open_terminal(stream, &ends, request) : open_pipes(stream, &ends, !stream->is_file);
	if (opened) *stage = STAGE_PIPES;
	if (opened && open_control(stream, &ends) && watch_all(stream)) {
		*stage = STAGE_FORK;
		stream->pid = fork();
	}
	const int error = errno;
	if (stream->pid == 0 && stream->is_file) run_file_operation(request, ends);
	if (stream->pid == 0) supervise(request, payload, size, ends);
	close_child_ends(&ends);
	return stream->pid > 0 ? 0 : error;
}
