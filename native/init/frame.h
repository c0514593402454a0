/* Pure parsers of the init protocol (docs/init-protocol.md): bytes in, values out, no I/O, no allocation. */
#ifndef SALLYPORT_FRAME_H
#define SALLYPORT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FRAME_HEADER = 12, FRAME_PAYLOAD_MAX = 1 << 20, GROUPS_MAX = 32, PATH_BYTES_MAX = 4095 };

enum frame_type {
	FRAME_HELLO = 0x01, FRAME_SPAWN, FRAME_FILE, FRAME_STDIN, FRAME_STDIN_EOF, FRAME_CREDIT,
	FRAME_SIGNAL, FRAME_KILL, FRAME_RESIZE, FRAME_PING, FRAME_DISCARD,
	FRAME_READY = 0x81, FRAME_STARTED, FRAME_STDOUT, FRAME_STDERR, FRAME_STDIN_CREDIT,
	FRAME_EXIT, FRAME_CLOSED, FRAME_PONG, FRAME_DISK, FRAME_FATAL
};

struct frame {
	uint8_t type;
	uint32_t stream;
	const uint8_t *payload;
	uint32_t length;
};

enum parse { PARSE_MORE, PARSE_DONE, PARSE_BAD };

/* One frame from the start of data. On DONE *used bytes belong to it; on BAD *why says what broke. */
enum parse frame_parse(const uint8_t *data, size_t size, struct frame *out, size_t *used, const char **why);

struct identity {
	uint32_t uid, gid;
	uint32_t groups[GROUPS_MAX];
	size_t group_count;
};

struct slice {
	const uint8_t *data;
	uint32_t length;
};

enum spawn_flag { SPAWN_PTY = 1, SPAWN_STDIN = 2, SPAWN_KILL_TREE = 4, SPAWN_ROOT = 8 };

struct spawn_spec {
	struct identity identity;
	uint32_t flags;
	struct slice cwd;
	uint32_t arg_count, env_count;
	uint64_t string_bytes; /* args and env with a NUL each */
	uint16_t rows, columns;
	uint64_t nofile;
	uint32_t credit[2];
};

enum file_op {
	FILE_READ = 1, FILE_WRITE, FILE_LIST, FILE_STAT, FILE_MKDIR, FILE_RENAME, FILE_REMOVE, FILE_CHMOD, FILE_CHOWN, FILE_WATCH
};
enum file_flag { FILE_RECURSIVE = 1, FILE_PARENTS = 2, FILE_NOFOLLOW = 4 };

struct file_spec {
	struct identity identity;
	uint32_t op, flags, mode, owner_uid, owner_gid, max, depth;
	struct slice path, path2;
	uint64_t offset, length;
	bool has_mode, has_length, has_owner;
	uint32_t credit[2];
};

bool spawn_parse(const uint8_t *payload, uint32_t length, struct spawn_spec *out, const char **why);
bool file_parse(const uint8_t *payload, uint32_t length, struct file_spec *out, const char **why);

/* Next field of a payload that was parsed before; false at the end. */
struct cursor {
	const uint8_t *data;
	uint32_t left;
};
struct field {
	uint8_t tag;
	struct slice value;
};
bool field_next(struct cursor *cursor, struct field *out, const char **why);

enum field_tag {
	TAG_UID = 1, TAG_GID, TAG_GROUP, TAG_FLAGS, TAG_CWD, TAG_ARG, TAG_ENV, TAG_SIZE, TAG_NOFILE, TAG_CREDIT,
	TAG_OP = 20, TAG_PATH, TAG_PATH2, TAG_OFFSET, TAG_LENGTH, TAG_MODE, TAG_OWNER, TAG_FILE_FLAGS, TAG_MAX, TAG_DEPTH
};

uint16_t get16(const uint8_t *data);
uint32_t get32(const uint8_t *data);
uint64_t get64(const uint8_t *data);
void put16(uint8_t *data, uint16_t value);
void put32(uint8_t *data, uint32_t value);
void put64(uint8_t *data, uint64_t value);
/* Writes the 12 bytes of a header. */
void frame_header(uint8_t *out, uint8_t type, uint32_t stream, uint32_t length);

#endif
