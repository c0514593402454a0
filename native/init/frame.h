/*
 * frame: the wire of docs/init-protocol.md as pure functions over bytes: no I/O, no allocation, no state. Everything the
 * host sends passes through here once; what comes out obeys every rule of that page, or nothing comes out.
 */
#ifndef SALLYPORT_FRAME_H
#define SALLYPORT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	FRAME_HEADER = 12,
	FRAME_MAX = 1 << 20,
	CHUNK_MAX = 256 << 10,
	STDIN_CREDIT_BYTES = 256 << 10,
	STREAMS_MAX = 256,
	GROUPS_MAX = 32,
	PATH_BYTES_MAX = 4095,
	PROTOCOL_VERSION = 1,
};

enum frame_type {
	HELLO = 0x01, SPAWN, FILE_OP, STDIN, STDIN_EOF, CREDIT, SIGNAL, KILL, RESIZE, PING, DISCARD,
	READY = 0x81, STARTED, STDOUT, STDERR, STDIN_CREDIT, EXIT, CLOSED, PONG, DISK, FATAL,
};

enum exit_kind { EXIT_EXITED, EXIT_SIGNALLED, EXIT_FAILED, EXIT_LOST };

enum stage {
	STAGE_NONE, STAGE_DECODE, STAGE_PIPES, STAGE_FORK, STAGE_IDENTITY, STAGE_CAPABILITIES, STAGE_CWD, STAGE_PTY, STAGE_EXEC,
	STAGE_OPEN, STAGE_READ, STAGE_WRITE, STAGE_RENAME, STAGE_LIST, STAGE_STAT, STAGE_MKDIR, STAGE_REMOVE, STAGE_CHMOD,
	STAGE_CHOWN, STAGE_WATCH, STAGE_LIMITS,
};

enum spawn_flags { SPAWN_PTY = 1, SPAWN_STDIN = 2, SPAWN_KILL_TREE = 4, SPAWN_ROOT = 8, SPAWN_FLAGS = 15 };
enum file_flags { FILE_RECURSIVE = 1, FILE_PARENTS = 2, FILE_NOFOLLOW = 4, FILE_FLAGS = 7 };
enum file_operation {
	OP_READ = 1, OP_WRITE, OP_LIST, OP_STAT, OP_MKDIR, OP_RENAME, OP_REMOVE, OP_CHMOD, OP_CHOWN, OP_WATCH,
};

enum tag {
	TAG_UID = 1, TAG_GID, TAG_GROUP, TAG_SPAWN_FLAGS, TAG_CWD, TAG_ARG, TAG_ENV, TAG_SIZE, TAG_NOFILE, TAG_CREDIT,
	TAG_OP = 20, TAG_PATH, TAG_PATH2, TAG_OFFSET, TAG_LENGTH, TAG_MODE, TAG_OWNER, TAG_FILE_FLAGS, TAG_MAX, TAG_DEPTH,
};

struct frame {
	uint8_t type;
	uint32_t stream;
	uint32_t size;
	const uint8_t *payload;
};

enum frame_result { FRAME_INCOMPLETE, FRAME_COMPLETE, FRAME_MALFORMED };

/* Takes the first frame of `bytes`. The header is judged as soon as it is there, so a hostile length is never waited for. */
enum frame_result frame_take(const uint8_t *bytes, size_t size, struct frame *frame);

struct text {
	const uint8_t *bytes;
	uint32_t size;
};

/* A decoded SPAWN or FILE. `seen` has bit `tag` set for each field that was given; texts point into the payload. */
struct request {
	uint32_t seen;
	uint32_t uid, gid, groups[GROUPS_MAX], group_count;
	uint32_t flags;
	uint32_t credit[2];
	struct text cwd;
	uint32_t argument_count, environment_count;
	uint16_t rows, columns;
	uint64_t nofile;
	uint32_t op;
	struct text path, path2;
	uint64_t offset, length;
	uint32_t mode, owner_uid, owner_gid, max, depth;
};

/* @param type SPAWN or FILE_OP. False: the frame is malformed. */
bool request_parse(uint8_t type, const uint8_t *payload, size_t size, struct request *request);

static inline bool request_has(const struct request *request, enum tag tag)
{
	return (request->seen >> tag & 1) != 0;
}

/*
 * Cuts the arguments and variables of a SPAWN that request_parse accepted into C strings, in place: writes one byte past
 * each text, the last of which is payload[size]. Both arrays must hold the counts of the request and one NULL.
 */
void request_strings(uint8_t *payload, size_t size, char **arguments, char **environment);

uint16_t get_u16(const uint8_t *bytes);
uint32_t get_u32(const uint8_t *bytes);
uint64_t get_u64(const uint8_t *bytes);
/* Each returns the byte after what it wrote. */
uint8_t *put_u16(uint8_t *bytes, uint16_t value);
uint8_t *put_u32(uint8_t *bytes, uint32_t value);
uint8_t *put_u64(uint8_t *bytes, uint64_t value);
void put_header(uint8_t *bytes, enum frame_type type, uint32_t stream, uint32_t size);

#endif
