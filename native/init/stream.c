/* stream: see stream.h. */
#define _GNU_SOURCE
#include "stream.h"
#include "out.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	STDIN_CREDIT_STEP = 64 << 10,
	/* what a terminal may have on its way when its command ends: the tty layer buffers less */
	TERMINAL_OWED = 64 << 10,
	FILE_KILL_GRACE_MS = 500,
	END_OF_FILE_KEY = 0x04,
	/* the credit, and the end-of-file key that no credit pays for */
	QUEUE_BYTES = STDIN_CREDIT_BYTES + 1,
};

static struct stream *streams[STREAMS_MAX];
static size_t stream_count;
static size_t next_channel;
static _Alignas(4096) uint8_t scratch[64 << 10];

struct stream *stream_find(uint32_t id)
{
	for (size_t i = 0; i < stream_count; i++)
		if (streams[i]->id == id && !streams[i]->closed) return streams[i];
	return NULL;
}

bool streams_have_spawn(void)
{
	for (size_t i = 0; i < stream_count; i++)
		if (!streams[i]->is_file && !streams[i]->exit_sent) return true;
	return false;
}

void streams_release(void)
{
	madvise(scratch, sizeof scratch, MADV_DONTNEED);
}

static void send_exit(uint32_t id, enum exit_kind kind, const struct report *end, const struct stream *stream)
{
	uint8_t payload[56];
	uint8_t *at = put_u32(payload, kind);
	at = put_u32(at, end->value);
	at = put_u32(at, end->stage);
	at = put_u32(at, stream != NULL && stream->killed);
	at = put_u64(at, stream != NULL ? stream->channels[0].discarded : 0);
	at = put_u64(at, stream != NULL ? stream->channels[1].discarded : 0);
	at = put_u64(at, end->user_us);
	at = put_u64(at, end->system_us);
	put_u64(at, end->max_rss_kib);
	out_frame(EXIT, id, payload, sizeof payload);
}

static void send_closed(uint32_t id, uint64_t late)
{
	uint8_t payload[8];
	put_u64(payload, late);
	out_frame(CLOSED, id, payload, sizeof payload);
}

static void send_u32(enum frame_type type, uint32_t id, uint32_t value)
{
	uint8_t payload[4];
	put_u32(payload, value);
	out_frame(type, id, payload, sizeof payload);
}

static void refuse(uint32_t id, int error, enum stage stage)
{
	send_exit(id, EXIT_FAILED, &(struct report){.value = (uint32_t)error, .stage = stage}, NULL);
	send_closed(id, 0);
}

static void close_sources(struct stream *stream)
{
	source_close(&stream->control);
	source_close(&stream->channels[0].source);
	source_close(&stream->channels[1].source);
	source_close(&stream->input);
	free(stream->queue);
	stream->queue = NULL;
}

static void announce_start(struct stream *stream, uint32_t pid)
{
	send_u32(STARTED, stream->id, pid);
	if (!stream->has_stdin) return;
	stream->input_credit = STDIN_CREDIT_BYTES;
	send_u32(STDIN_CREDIT, stream->id, STDIN_CREDIT_BYTES);
}

static struct stream *new_stream(uint32_t id, uint8_t type, const struct request *request)
{
	struct stream *stream = calloc(1, sizeof *stream);
	if (stream == NULL) return NULL;
	stream->id = id;
	stream->pid = -1;
	stream->is_file = type == FILE_OP;
	stream->terminal = !stream->is_file && (request->flags & SPAWN_PTY) != 0;
	stream->has_stdin = stream->is_file ? request->op == OP_WRITE : (request->flags & SPAWN_STDIN) != 0;
	stream->control.fd = stream->input.fd = -1;
	for (int i = 0; i < 2; i++) {
		stream->channels[i].source.fd = -1;
		stream->channels[i].type = i == 0 ? STDOUT : STDERR;
		stream->channels[i].credit = request->credit[i];
	}
	return stream;
}

void stream_open(uint32_t id, uint8_t type, const struct request *request, uint8_t *payload, size_t size)
{
	struct stream *stream = stream_count < STREAMS_MAX ? new_stream(id, type, request) : NULL;
	if (stream == NULL) {
		refuse(id, EAGAIN, STAGE_FORK);
		return;
	}
	enum stage stage;
	const int error = stream_fork(stream, request, payload, size, &stage);
	if (error != 0) {
		close_sources(stream);
		free(stream);
		refuse(id, error, stage);
		return;
	}
	streams[stream_count++] = stream;
	if (stream->is_file) announce_start(stream, 0);
}

/* Bytes that are dropped are paid back too: a host that waits for credit must not wait for a command that stopped reading. */
static void input_consumed(struct stream *stream, uint32_t size)
{
	stream->input_consumed += size;
	if (stream->input_consumed < STDIN_CREDIT_STEP || stream->has_ended) return;
	send_u32(STDIN_CREDIT, stream->id, stream->input_consumed);
	stream->input_credit += stream->input_consumed;
	stream->input_consumed = 0;
}

/* @return how many of the bytes the command's pipe took; closes it when nobody reads there any more */
static uint32_t write_input(struct stream *stream, const uint8_t *bytes, uint32_t size)
{
	uint32_t done = 0;
	while (done < size && stream->input.ready) {
		const ssize_t written = write(stream->input.fd, bytes + done, size - done);
		if (written >= 0) done += (uint32_t)written;
		else if (errno == EAGAIN) stream->input.ready = false;
		else if (errno != EINTR) {
			source_close(&stream->input);
			return size;
		}
	}
	return done;
}

static void queue_input(struct stream *stream, const uint8_t *bytes, uint32_t size)
{
	if (stream->queue == NULL) stream->queue = malloc(QUEUE_BYTES);
	if (stream->queue == NULL) fatal(EXIT_SUPERVISOR_LOST, "no memory for stdin");
	if (QUEUE_BYTES - stream->queue_end < size) {
		memmove(stream->queue, stream->queue + stream->queue_first, stream->queue_end - stream->queue_first);
		stream->queue_end -= stream->queue_first;
		stream->queue_first = 0;
	}
	memcpy(stream->queue + stream->queue_end, bytes, size);
	stream->queue_end += size;
}

static bool flush_input(struct stream *stream)
{
	const uint32_t waiting = stream->queue_end - stream->queue_first;
	if (waiting == 0 || !stream->input.ready) return false;
	const uint32_t written = write_input(stream, stream->queue + stream->queue_first, waiting);
	stream->queue_first += written;
	input_consumed(stream, written);
	if (stream->queue_first != stream->queue_end) return written > 0;
	free(stream->queue);
	stream->queue = NULL;
	stream->queue_first = stream->queue_end = 0;
	if (stream->input_ends && !stream->terminal) source_close(&stream->input);
	return true;
}

bool stream_input(struct stream *stream, const uint8_t *bytes, uint32_t size)
{
	if (size > stream->input_credit) return false;
	stream->input_credit -= size;
	if (stream->input.fd < 0 || stream->input_ends) {
		input_consumed(stream, size);
		return true;
	}
	const uint32_t written = stream->queue == NULL ? write_input(stream, bytes, size) : 0;
	input_consumed(stream, written);
	if (written < size) queue_input(stream, bytes + written, size - written);
	return true;
}

void stream_input_end(struct stream *stream)
{
	if (stream->input_ends || stream->input.fd < 0 || !stream->has_stdin) return;
	stream->input_ends = true;
	const uint8_t key = END_OF_FILE_KEY;
	if (stream->terminal) queue_input(stream, &key, 1);
	else if (stream->queue == NULL) source_close(&stream->input);
}

_Noreturn static void supervisor_lost(const struct stream *stream)
{
	send_exit(stream->id, EXIT_LOST, &(struct report){0}, stream);
	fatal(EXIT_SUPERVISOR_LOST, "the supervisor of a command is lost");
}

void stream_order(struct stream *stream, enum order_kind kind, uint32_t value)
{
	if (stream->is_file || stream->reaped) return;
	const struct order order = {kind, value};
	if (send(stream->control.fd, &order, sizeof order, MSG_NOSIGNAL) == (ssize_t)sizeof order) return;
	/* it has ended by itself, or does not take orders any more */
	if (errno == EAGAIN) supervisor_lost(stream);
}

void stream_kill(struct stream *stream, uint32_t grace_ms)
{
	if (!stream->has_ended) stream->killed = true;
	if (!stream->is_file) {
		stream_order(stream, ORDER_KILL, grace_ms);
		return;
	}
	/* half a result is no result; SIGTERM first in any case, so that a write can remove its temp file */
	stream->discards = true;
	if (stream->reaped || stream->kill_at_ms != 0) return;
	kill(stream->pid, SIGTERM);
	kill(stream->pid, SIGCONT);
	stream->kill_at_ms = now_ms() + FILE_KILL_GRACE_MS;
}

int streams_deadline(void)
{
	int next = -1;
	const int64_t now = now_ms();
	for (size_t i = 0; i < stream_count; i++) {
		struct stream *stream = streams[i];
		if (stream->kill_at_ms == 0 || stream->reaped) continue;
		const int left = stream->kill_at_ms > now ? (int)(stream->kill_at_ms - now) : FILE_KILL_GRACE_MS;
		if (stream->kill_at_ms <= now) kill(stream->pid, SIGKILL);
		if (next < 0 || left < next) next = left;
	}
	return next;
}

static uint64_t waiting_in(const struct channel *channel)
{
	int waiting = 0;
	if (channel->source.fd < 0 || ioctl(channel->source.fd, FIONREAD, &waiting) != 0 || waiting < 0) return 0;
	return (uint64_t)waiting;
}

static void take_end(struct stream *stream, const struct report *report)
{
	if (stream->has_ended) return;
	stream->has_ended = true;
	stream->end = *report;
	for (int i = 0; i < 2; i++) {
		struct channel *channel = &stream->channels[i];
		channel->owed = stream->terminal ? TERMINAL_OWED : waiting_in(channel);
		channel->source.ready = channel->source.fd >= 0;
	}
}

static void take_reports(struct stream *stream)
{
	struct report report;
	for (;;) {
		const ssize_t size = recv(stream->control.fd, &report, sizeof report, MSG_DONTWAIT);
		if (size != (ssize_t)sizeof report) break;
		if (report.kind == REPORT_STARTED) announce_start(stream, report.value);
		else take_end(stream, &report);
	}
	stream->control.ready = false;
}

void stream_reaped(pid_t pid, int status)
{
	for (size_t i = 0; i < stream_count; i++) {
		if (streams[i]->pid != pid || streams[i]->reaped) continue;
		streams[i]->reaped = true;
		streams[i]->status = status;
		return;
	}
}

/* Its last reports first: they were sent before it ended. */
static void judge_child(struct stream *stream)
{
	take_reports(stream);
	if (!stream->is_file) {
		if (stream->status != 0 || !stream->has_ended) supervisor_lost(stream);
		return;
	}
	const struct report signalled = {.kind = REPORT_SIGNALLED, .value = (uint32_t)WTERMSIG(stream->status)};
	const struct report broken = {.kind = REPORT_FAILED, .value = EIO, .stage = STAGE_FORK};
	take_end(stream, WIFSIGNALED(stream->status) ? &signalled : &broken);
}

static bool counts_only(const struct stream *stream)
{
	return stream->discards || stream->exit_sent;
}

/* How much may be read now; 0 leaves the rest in the pipe, which is what stops a flood. */
static size_t readable_now(const struct stream *stream, const struct channel *channel)
{
	const bool counting = counts_only(stream);
	if (channel->source.fd < 0 || !channel->source.ready) return 0;
	size_t most = counting ? sizeof scratch : CHUNK_MAX;
	if (!counting && channel->credit < most) most = (size_t)channel->credit;
	if (!counting && !out_takes_chunk()) most = 0;
	if (stream->has_ended && !stream->exit_sent && channel->owed < most) most = (size_t)channel->owed;
	return most;
}

static void account(struct stream *stream, struct channel *channel, uint32_t size)
{
	if (stream->has_ended && !stream->exit_sent) channel->owed -= size;
	if (stream->exit_sent) stream->late += size;
	else if (stream->discards) channel->discarded += size;
	else {
		channel->credit -= size;
		out_chunk(channel->type, stream->id, size);
	}
}

/* @return true when bytes moved */
static bool pump(struct stream *stream, struct channel *channel)
{
	const size_t most = readable_now(stream, channel);
	if (most == 0) return false;
	const ssize_t size = read(channel->source.fd, counts_only(stream) ? scratch : out_chunk_space(), most);
	if (size > 0) {
		account(stream, channel, (uint32_t)size);
		return true;
	}
	if (size < 0 && errno == EINTR) return true;
	channel->source.ready = false;
	channel->owed = 0;
	/* EIO is how a terminal says that its last holder has gone */
	if (size == 0 || errno != EAGAIN) source_close(&channel->source);
	return false;
}

static bool owes_nothing(const struct channel *channel)
{
	return channel->source.fd < 0 || channel->owed == 0;
}

static enum exit_kind exit_kind_of(enum report_kind kind)
{
	if (kind == REPORT_FAILED) return EXIT_FAILED;
	return kind == REPORT_SIGNALLED ? EXIT_SIGNALLED : EXIT_EXITED;
}

/* @return true when the stream's state changed */
static bool settle(struct stream *stream)
{
	if (stream->control.ready) take_reports(stream);
	if (stream->reaped && !stream->has_ended) judge_child(stream);
	if (!stream->has_ended) return false;
	if (!stream->exit_sent) {
		if (!owes_nothing(&stream->channels[0]) || !owes_nothing(&stream->channels[1])) return false;
		if (!stream->is_file) disk_check(true);
		send_exit(stream->id, exit_kind_of(stream->end.kind), &stream->end, stream);
		stream->exit_sent = true;
		return true;
	}
	if (!stream->reaped) return false;
	if (!stream->is_file && stream->status != 0) supervisor_lost(stream);
	/* a pipe's end may have been handed to a process of another tree: not waited for */
	stream->late += waiting_in(&stream->channels[0]) + waiting_in(&stream->channels[1]);
	send_closed(stream->id, stream->late);
	close_sources(stream);
	stream->closed = true;
	return true;
}

/* Each turn starts after the channel that filled the buffer last: no flood keeps the others from their turn. */
static bool pump_all(void)
{
	bool moved = false;
	const size_t channels = stream_count * 2, start = next_channel;
	for (size_t i = 0; i < channels; i++) {
		const size_t at = (start + i) % channels;
		if (!pump(streams[at / 2], &streams[at / 2]->channels[at % 2])) continue;
		moved = true;
		next_channel = at + 1;
	}
	return moved;
}

static void sweep(void)
{
	size_t kept = 0;
	for (size_t i = 0; i < stream_count; i++) {
		if (streams[i]->closed) free(streams[i]);
		else streams[kept++] = streams[i];
	}
	stream_count = kept;
}

bool streams_turn(void)
{
	bool moved = pump_all();
	for (size_t i = 0; i < stream_count; i++) {
		moved |= flush_input(streams[i]);
		moved |= settle(streams[i]);
	}
	sweep();
	return moved;
}
