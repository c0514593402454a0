/* The rules of docs/init-protocol.md for frames and fields, each with what breaks it. Built with the sanitizers. */
#include "frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int checks;

#define CHECK(condition) check(condition, #condition, __LINE__)
static void check(bool holds, const char *what, int line)
{
	checks++;
	if (holds) return;
	fprintf(stderr, "test_frame.c:%d: does not hold: %s\n", line, what);
	exit(1);
}

/* On the heap and of the exact size, so that the sanitizer sees a read past the end. */
static enum frame_result take(const uint8_t *bytes, size_t size, struct frame *frame)
{
	static uint8_t *exact;
	free(exact);
	exact = malloc(size == 0 ? 1 : size);
	if (exact == NULL) abort();
	memcpy(exact, bytes, size);
	return frame_take(exact, size, frame);
}

static enum frame_result take_made(uint8_t type, uint32_t stream, const void *payload, uint32_t size)
{
	uint8_t bytes[64] = {0};
	struct frame frame;
	put_header(bytes, (enum frame_type)type, stream, size);
	if (size > 0) memcpy(bytes + FRAME_HEADER, payload, size);
	return take(bytes, FRAME_HEADER + size, &frame);
}

static void test_frames(void)
{
	uint8_t bytes[FRAME_HEADER + 12];
	struct frame frame;
	put_header(bytes, HELLO, 0, 12);
	put_u64(put_u16(put_u16(bytes + FRAME_HEADER, 1), 0), 5000);
	for (size_t size = 0; size < sizeof bytes; size++) CHECK(take(bytes, size, &frame) == FRAME_INCOMPLETE);
	CHECK(take(bytes, sizeof bytes, &frame) == FRAME_COMPLETE);
	CHECK(frame.type == HELLO && frame.stream == 0 && frame.size == 12 && get_u64(frame.payload + 4) == 5000);
	for (int i = 5; i < 8; i++) {
		bytes[i] = 1;
		CHECK(take(bytes, FRAME_HEADER, &frame) == FRAME_MALFORMED);
		bytes[i] = 0;
	}
	CHECK(take_made(HELLO, 0, "\2\0\0\0\0\0\0\0\0\0\0\0", 12) == FRAME_MALFORMED);
	CHECK(take_made(HELLO, 0, "\1\0\1\0\0\0\0\0\0\0\0\0", 12) == FRAME_MALFORMED);
	CHECK(take_made(HELLO, 1, "\1\0\0\0\0\0\0\0\0\0\0\0", 12) == FRAME_MALFORMED);
}

static void test_headers_are_judged_at_once(void)
{
	uint8_t header[FRAME_HEADER];
	struct frame frame;
	put_header(header, STDIN, 1, FRAME_MAX);
	CHECK(take(header, sizeof header, &frame) == FRAME_INCOMPLETE);
	put_header(header, STDIN, 1, FRAME_MAX + 1);
	CHECK(take(header, sizeof header, &frame) == FRAME_MALFORMED);
	put_header(header, STDIN, 1, UINT32_MAX);
	CHECK(take(header, sizeof header, &frame) == FRAME_MALFORMED);
	put_header(header, STDIN, 0, 1);
	CHECK(take(header, sizeof header, &frame) == FRAME_MALFORMED);
	for (int type = 0; type < 256; type++) {
		if (type >= HELLO && type <= DISCARD) continue;
		put_header(header, (enum frame_type)type, 1, 0);
		CHECK(take(header, sizeof header, &frame) == FRAME_MALFORMED);
	}
}

static void test_fixed_payloads(void)
{
	CHECK(take_made(CREDIT, 7, "\1\0\0\0\0\0\1\0", 8) == FRAME_COMPLETE);
	CHECK(take_made(CREDIT, 7, "\0\0\0\0\0\0\1\0", 8) == FRAME_MALFORMED);
	CHECK(take_made(CREDIT, 7, "\3\0\0\0\0\0\1\0", 8) == FRAME_MALFORMED);
	CHECK(take_made(CREDIT, 7, "\1\0\0\0\0\0\1", 7) == FRAME_MALFORMED);
	CHECK(take_made(SIGNAL, 7, "\100\0\0\0\1\0\0\0", 8) == FRAME_COMPLETE);
	CHECK(take_made(SIGNAL, 7, "\0\0\0\0\1\0\0\0", 8) == FRAME_MALFORMED);
	CHECK(take_made(SIGNAL, 7, "\101\0\0\0\1\0\0\0", 8) == FRAME_MALFORMED);
	CHECK(take_made(SIGNAL, 7, "\1\0\0\0\2\0\0\0", 8) == FRAME_MALFORMED);
	CHECK(take_made(KILL, 7, "\0\0\0\0", 4) == FRAME_COMPLETE);
	CHECK(take_made(KILL, 7, "", 0) == FRAME_MALFORMED);
	CHECK(take_made(RESIZE, 7, "\1\0\1\0", 4) == FRAME_COMPLETE);
	CHECK(take_made(PING, 0, "12345678", 8) == FRAME_COMPLETE);
	CHECK(take_made(PING, 1, "12345678", 8) == FRAME_MALFORMED);
	CHECK(take_made(STDIN_EOF, 7, "", 0) == FRAME_COMPLETE);
	CHECK(take_made(STDIN_EOF, 7, "x", 1) == FRAME_MALFORMED);
	CHECK(take_made(DISCARD, 7, "x", 1) == FRAME_MALFORMED);
}

struct payload {
	uint8_t bytes[4096];
	size_t size;
};

static void add(struct payload *payload, uint8_t tag, const void *bytes, uint32_t size)
{
	payload->bytes[payload->size] = tag;
	put_u32(payload->bytes + payload->size + 1, size);
	memcpy(payload->bytes + payload->size + 5, bytes, size);
	payload->size += 5 + (size_t)size;
}

static void add_u32(struct payload *payload, uint8_t tag, uint32_t value)
{
	uint8_t bytes[4];
	put_u32(bytes, value);
	add(payload, tag, bytes, 4);
}

static bool parses(uint8_t type, const struct payload *payload, struct request *request)
{
	uint8_t *exact = malloc(payload->size == 0 ? 1 : payload->size);
	if (exact == NULL) abort();
	memcpy(exact, payload->bytes, payload->size);
	const bool result = request_parse(type, exact, payload->size, request);
	free(exact);
	return result;
}

static bool rejects(uint8_t type, const struct payload *base, uint8_t tag, const void *bytes, uint32_t size)
{
	struct payload payload = *base;
	struct request request;
	add(&payload, tag, bytes, size);
	return !parses(type, &payload, &request);
}

static struct payload spawn_payload(void)
{
	struct payload payload = {.size = 0};
	add_u32(&payload, TAG_UID, 1000);
	add_u32(&payload, TAG_GID, 1001);
	add(&payload, TAG_CWD, "/work", 5);
	add(&payload, TAG_ARG, "echo", 4);
	add(&payload, TAG_ENV, "A=b", 3);
	add(&payload, TAG_ARG, "", 0);
	add(&payload, TAG_ENV, "C==", 3);
	return payload;
}

static void test_spawn(void)
{
	const struct payload base = spawn_payload();
	struct request request;
	CHECK(parses(SPAWN, &base, &request));
	CHECK(request.uid == 1000 && request.gid == 1001 && request.argument_count == 2 && request.environment_count == 2);
	CHECK(request.cwd.size == 5 && !request_has(&request, TAG_NOFILE));
	CHECK(!parses(FILE_OP, &base, &request));
	for (size_t size = 0; size < base.size; size++) {
		struct payload cut = base;
		cut.size = size;
		/* cut between two optional fields at the end it is still whole */
		const bool whole = size == base.size - 8 || size == base.size - 13 || size == base.size - 21;
		CHECK(parses(SPAWN, &cut, &request) == whole);
	}
	CHECK(rejects(SPAWN, &base, TAG_UID, "\0\0\0\0", 4));
	CHECK(rejects(SPAWN, &base, TAG_CWD, "/", 1));
	CHECK(rejects(SPAWN, &base, TAG_ARG, "a\0b", 3));
	CHECK(rejects(SPAWN, &base, TAG_ENV, "=b", 2));
	CHECK(rejects(SPAWN, &base, TAG_ENV, "AB", 2));
	CHECK(rejects(SPAWN, &base, TAG_ENV, "A=\0", 3));
	CHECK(rejects(SPAWN, &base, TAG_SPAWN_FLAGS, "\20\0\0\0", 4));
	CHECK(rejects(SPAWN, &base, TAG_NOFILE, "\0\0\0\0", 4));
	CHECK(rejects(SPAWN, &base, TAG_OP, "\1\0\0\0", 4));
	CHECK(rejects(SPAWN, &base, 0, "", 0));
	CHECK(rejects(SPAWN, &base, 11, "", 0));
	CHECK(rejects(SPAWN, &base, 30, "", 0));
	CHECK(rejects(SPAWN, &base, 255, "", 0));
}

static void test_identities_that_mean_no_change_are_refused(void)
{
	struct request request;
	for (uint8_t tag = TAG_UID; tag <= TAG_GROUP; tag++) {
		struct payload payload = {.size = 0};
		add_u32(&payload, TAG_UID, tag == TAG_UID ? UINT32_MAX : 1);
		add_u32(&payload, TAG_GID, tag == TAG_GID ? UINT32_MAX : 1);
		add_u32(&payload, TAG_GROUP, tag == TAG_GROUP ? UINT32_MAX : 1);
		add(&payload, TAG_CWD, "/", 1);
		add(&payload, TAG_ARG, "a", 1);
		CHECK(!parses(SPAWN, &payload, &request));
	}
	struct payload payload = spawn_payload();
	for (int i = 0; i < GROUPS_MAX; i++) add_u32(&payload, TAG_GROUP, (uint32_t)i);
	CHECK(parses(SPAWN, &payload, &request) && request.group_count == GROUPS_MAX);
	add_u32(&payload, TAG_GROUP, 1);
	CHECK(!parses(SPAWN, &payload, &request));
}

static void test_strings(void)
{
	struct payload payload = spawn_payload();
	char *arguments[3], *environment[3];
	payload.bytes[payload.size] = 0xff;
	request_strings(payload.bytes, payload.size, arguments, environment);
	CHECK(strcmp(arguments[0], "echo") == 0 && strcmp(arguments[1], "") == 0 && arguments[2] == NULL);
	CHECK(strcmp(environment[0], "A=b") == 0 && strcmp(environment[1], "C==") == 0 && environment[2] == NULL);
}

static struct payload file_payload(uint32_t operation, const char *path, uint32_t path_size)
{
	struct payload payload = {.size = 0};
	add_u32(&payload, TAG_UID, 0);
	add_u32(&payload, TAG_GID, 0);
	add_u32(&payload, TAG_OP, operation);
	add(&payload, TAG_PATH, path, path_size);
	return payload;
}

static void test_files(void)
{
	struct request request;
	struct payload read = file_payload(OP_READ, "/a\n\xff", 4);
	CHECK(parses(FILE_OP, &read, &request) && request.length == UINT64_MAX && request.path.size == 4);
	CHECK(!parses(SPAWN, &read, &request));
	CHECK(rejects(FILE_OP, &read, TAG_ARG, "a", 1));
	CHECK(rejects(FILE_OP, &read, TAG_FILE_FLAGS, "\10\0\0\0", 4));
	CHECK(rejects(FILE_OP, &read, TAG_PATH2, "b", 1));
	for (uint32_t op = 0; op <= OP_WATCH + 1; op++) {
		const struct payload payload = file_payload(op, "/a", 2);
		const bool complete = op == OP_READ || op == OP_WRITE || (op >= OP_STAT && op <= OP_MKDIR) || op == OP_REMOVE || op == OP_WATCH;
		CHECK(parses(FILE_OP, &payload, &request) == complete);
	}
	struct payload list = file_payload(OP_LIST, "/", 1);
	add_u32(&list, TAG_MAX, 10);
	CHECK(!parses(FILE_OP, &list, &request));
	add_u32(&list, TAG_DEPTH, 1);
	CHECK(parses(FILE_OP, &list, &request));
	struct payload chmod = file_payload(OP_CHMOD, "/a", 2);
	add_u32(&chmod, TAG_MODE, 0177777);
	CHECK(parses(FILE_OP, &chmod, &request) && request.mode == 07777);
	const struct payload relative = file_payload(OP_READ, "a", 1), nul = file_payload(OP_READ, "/\0a", 3);
	CHECK(!parses(FILE_OP, &relative, &request) && !parses(FILE_OP, &nul, &request));
}

int main(void)
{
	test_frames();
	test_headers_are_judged_at_once();
	test_fixed_payloads();
	test_spawn();
	test_identities_that_mean_no_change_are_refused();
	test_strings();
	test_files();
	printf("test_frame: %d checks hold\n", checks);
	return 0;
}
