/* libFuzzer target: the frame parser and the field parsers must take any bytes without a read outside them. */
#include <stdlib.h>
#include <string.h>

#include "frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk_fields(const struct frame *frame)
{
	struct cursor cursor = {frame->payload, frame->length};
	struct field field;
	const char *why;
	uint64_t sum = 0;
	while (field_next(&cursor, &field, &why))
		for (uint32_t i = 0; i < field.value.length; i++)
			sum += field.value.data[i];
	if (sum == UINT64_MAX)
		abort();
}

/* What was parsed must lie inside the payload. */
static void check_slice(const struct frame *frame, struct slice slice)
{
	if (slice.length > 0 && (slice.data < frame->payload || slice.data + slice.length > frame->payload + frame->length))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t at = 0;
	for (;;) {
		struct frame frame;
		struct spawn_spec spawn;
		struct file_spec file;
		size_t used = 0;
		const char *why = NULL;
		enum parse parse = frame_parse(data + at, size - at, &frame, &used, &why);
		if (parse == PARSE_BAD && why == NULL)
			abort();
		if (parse != PARSE_DONE)
			return 0;
		if (used < FRAME_HEADER || used > size - at || frame.payload + frame.length != data + at + used)
			abort();
		walk_fields(&frame);
		if (spawn_parse(frame.payload, frame.length, &spawn, &why)) {
			check_slice(&frame, spawn.cwd);
			if (spawn.arg_count == 0 || spawn.string_bytes > 2u * frame.length)
				abort();
		}
		if (file_parse(frame.payload, frame.length, &file, &why)) {
			check_slice(&frame, file.path);
			check_slice(&frame, file.path2);
		}
		at += used;
	}
}
