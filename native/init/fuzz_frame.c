/* libFuzzer target: any bytes, taken apart as init does it, stay within their bounds and within the page's rules. */
#include "frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void expect(bool holds)
{
	if (!holds) abort();
}

static void check_strings(const struct frame *frame, const struct request *request)
{
	uint8_t *payload = malloc((size_t)frame->size + 1);
	char **arguments = calloc((size_t)request->argument_count + 1, sizeof *arguments);
	char **environment = calloc((size_t)request->environment_count + 1, sizeof *environment);
	if (payload == NULL || arguments == NULL || environment == NULL) abort();
	memcpy(payload, frame->payload, frame->size);
	request_strings(payload, frame->size, arguments, environment);
	for (uint32_t i = 0; i < request->argument_count; i++) expect(strlen(arguments[i]) <= frame->size);
	for (uint32_t i = 0; i < request->environment_count; i++) expect(strchr(environment[i], '=') > environment[i]);
	expect(arguments[request->argument_count] == NULL && environment[request->environment_count] == NULL);
	free(payload);
	free(arguments);
	free(environment);
}

static void check_request(const struct frame *frame)
{
	struct request request;
	if (!request_parse(frame->type, frame->payload, frame->size, &request)) return;
	expect(request.uid != UINT32_MAX && request.gid != UINT32_MAX && request.group_count <= GROUPS_MAX);
	if (frame->type == FILE_OP) {
		expect(request.op >= OP_READ && request.op <= OP_WATCH);
		expect(request.path.size > 0 && request.path.size <= PATH_BYTES_MAX && request.path.bytes[0] == '/');
		expect(memchr(request.path.bytes, 0, request.path.size) == NULL);
		return;
	}
	expect(request.argument_count > 0 && request.cwd.size > 0 && request.cwd.bytes[0] == '/');
	check_strings(frame, &request);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	for (size_t at = 0;;) {
		struct frame frame;
		if (frame_take(bytes + at, size - at, &frame) != FRAME_COMPLETE) break;
		expect(frame.size <= size - at - FRAME_HEADER && frame.size <= FRAME_MAX);
		if (frame.type == SPAWN || frame.type == FILE_OP) check_request(&frame);
		at += FRAME_HEADER + (size_t)frame.size;
	}
	/* and the fields by themselves, so that the search need not find a valid header first */
	const struct frame bare = {.type = size % 2 == 0 ? SPAWN : FILE_OP, .size = (uint32_t)size, .payload = bytes};
	check_request(&bare);
	return 0;
}
