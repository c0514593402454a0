/* Unit tests of the parsers, built with sanitizers: make -C native test. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"

static int failures, checks;

static void check(bool truth, const char *rule)
{
	checks++;
	if (truth)
		return;
	failures++;
	fprintf(stderr, "not so: %s\n", rule);
}

static uint8_t bytes[4096];
static size_t size;

static void begin(uint8_t type, uint32_t stream) { frame_header(bytes, type, stream, 0); size = FRAME_HEADER; }
static void add_field(uint8_t tag, const void *data, uint32_t length)
{
	bytes[size] = tag;
	put32(bytes + size + 1, length);
	memcpy(bytes + size + 5, data, length);
	size += 5 + length;
}
static void add_number(uint8_t tag, uint32_t number)
{
	uint8_t data[4];
	put32(data, number);
	add_field(tag, data, 4);
}
static void add_text(uint8_t tag, const char *text) { add_field(tag, text, (uint32_t)strlen(text)); }
static void end(void) { put32(bytes, (uint32_t)(size - FRAME_HEADER)); }

/* Parsed from a heap copy of exactly its size, so that a read past the end is seen. */
static enum parse parse(size_t length, struct frame *frame, size_t *used)
{
	const char *why;
	static uint8_t *copy;
	free(copy);
	copy = malloc(length > 0 ? length : 1);
	if (copy == NULL)
		exit(1);
	memcpy(copy, bytes, length);
	return frame_parse(copy, length, frame, used, &why);
}

static void begin_spawn(void)
{
	begin(FRAME_SPAWN, 7);
	add_number(TAG_UID, 1000);
	add_number(TAG_GID, 1000);
}

static bool spawn(struct spawn_spec *spec)
{
	struct frame frame;
	size_t used;
	const char *why;
	end();
	return parse(size, &frame, &used) == PARSE_DONE && spawn_parse(frame.payload, frame.length, spec, &why);
}

static bool file(struct file_spec *spec)
{
	struct frame frame;
	size_t used;
	const char *why;
	end();
	return parse(size, &frame, &used) == PARSE_DONE && file_parse(frame.payload, frame.length, spec, &why);
}

static void test_frames(void)
{
	struct frame frame;
	size_t used;
	begin(FRAME_PING, 0);
	put64(bytes + FRAME_HEADER, 99);
	size += 8;
	end();
	for (size_t length = 0; length < size; length++)
		check(parse(length, &frame, &used) == PARSE_MORE, "a frame that is cut short waits for more");
	check(parse(size, &frame, &used) == PARSE_DONE && used == size && get64(frame.payload) == 99, "a whole frame is taken");
	bytes[5] = 1;
	check(parse(size, &frame, &used) == PARSE_BAD, "flags are 0");
	bytes[5] = 0;
	bytes[7] = 1;
	check(parse(size, &frame, &used) == PARSE_BAD, "reserved bytes are 0");
	bytes[7] = 0;
	put32(bytes + 8, 1);
	check(parse(size, &frame, &used) == PARSE_BAD, "PING is about no stream");
	for (int type = 0; type < 256; type++) {
		frame_header(bytes, (uint8_t)type, 1, FRAME_PAYLOAD_MAX + 1);
		check(parse(FRAME_HEADER, &frame, &used) == PARSE_BAD, "no payload is longer than the limit, no type unknown");
	}
	frame_header(bytes, FRAME_STDIN, 0, 0);
	check(parse(FRAME_HEADER, &frame, &used) == PARSE_BAD, "STDIN is about a stream");
	frame_header(bytes, FRAME_CREDIT, 1, 7);
	check(parse(FRAME_HEADER, &frame, &used) == PARSE_BAD, "CREDIT has eight bytes");
}

static void test_spawn(void)
{
	struct spawn_spec spec;
	begin_spawn();
	add_text(TAG_CWD, "/");
	add_text(TAG_ARG, "echo");
	add_text(TAG_ARG, "");
	add_text(TAG_ENV, "A=1");
	check(spawn(&spec) && spec.arg_count == 2 && spec.env_count == 1 && spec.string_bytes == 5 + 1 + 4, "a command is taken");
	begin_spawn();
	add_text(TAG_ARG, "echo");
	check(!spawn(&spec), "a command has a working folder");
	begin_spawn();
	add_text(TAG_CWD, "/");
	check(!spawn(&spec), "a command has an argument");
	begin_spawn();
	add_text(TAG_CWD, "tmp");
	add_text(TAG_ARG, "echo");
	check(!spawn(&spec), "a working folder is absolute");
	begin_spawn();
	add_text(TAG_CWD, "/");
	add_field(TAG_ARG, "a\0b", 3);
	check(!spawn(&spec), "an argument holds no NUL");
	begin_spawn();
	add_text(TAG_CWD, "/");
	add_text(TAG_ARG, "a");
	add_text(TAG_ENV, "=x");
	check(!spawn(&spec), "an environment entry has a name");
	begin_spawn();
	add_text(TAG_CWD, "/");
	add_text(TAG_ARG, "a");
	add_number(TAG_UID, 0);
	check(!spawn(&spec), "a uid is said once");
	begin_spawn();
	add_text(TAG_CWD, "/");
	add_text(TAG_ARG, "a");
	add_number(TAG_FLAGS, 16);
	check(!spawn(&spec), "flags are known ones");
	begin_spawn();
	add_text(TAG_CWD, "/");
	add_text(TAG_ARG, "a");
	add_number(TAG_OP, 1);
	check(!spawn(&spec), "a field of FILE is none of SPAWN");
	begin_spawn();
	add_text(TAG_CWD, "/");
	add_text(TAG_ARG, "a");
	for (int i = 0; i <= GROUPS_MAX; i++)
		add_number(TAG_GROUP, 5);
	check(!spawn(&spec), "groups are bounded");
	begin_spawn();
	add_text(TAG_CWD, "/");
	add_text(TAG_ARG, "abc");
	put32(bytes + size - 7, 4);
	check(!spawn(&spec), "a field does not reach past the payload");
	begin_spawn();
	add_text(TAG_CWD, "/");
	add_text(TAG_ARG, "abc");
	bytes[size++] = TAG_ENV;
	check(!spawn(&spec), "a field is whole");
}

static void begin_file(uint32_t op)
{
	begin(FRAME_FILE, 7);
	add_number(TAG_UID, 1000);
	add_number(TAG_GID, 1000);
	add_number(TAG_OP, op);
}

static void test_file(void)
{
	struct file_spec spec;
	begin_file(FILE_READ);
	add_text(TAG_PATH, "/a");
	check(file(&spec) && spec.path.length == 2 && !spec.has_length, "a read is taken");
	begin_file(FILE_READ);
	check(!file(&spec), "an operation has a path");
	begin_file(0);
	add_text(TAG_PATH, "/a");
	check(!file(&spec), "an operation is a known one");
	begin_file(FILE_WATCH + 1);
	add_text(TAG_PATH, "/a");
	check(!file(&spec), "an operation is a known one");
	begin_file(FILE_RENAME);
	add_text(TAG_PATH, "/a");
	check(!file(&spec), "a rename has two paths");
	begin_file(FILE_LIST);
	add_text(TAG_PATH, "/a");
	add_number(TAG_DEPTH, 1);
	check(!file(&spec), "a list has a bound");
	begin_file(FILE_CHMOD);
	add_text(TAG_PATH, "/a");
	add_number(TAG_MODE, 010000);
	check(!file(&spec), "a mode has twelve bits");
	begin_file(FILE_CHOWN);
	add_text(TAG_PATH, "/a");
	check(!file(&spec), "a chown has an owner");
	begin_file(FILE_READ);
	add_field(TAG_PATH, "/a\0b", 4);
	check(!file(&spec), "a path holds no NUL");
	begin_file(FILE_READ);
	add_text(TAG_PATH, "/a");
	add_number(TAG_OFFSET, 1);
	check(!file(&spec), "an offset has eight bytes");
}

int main(void)
{
	test_frames();
	test_spawn();
	test_file();
	printf("native: %d checks, %d failed\n", checks, failures);
	return failures > 0;
}
