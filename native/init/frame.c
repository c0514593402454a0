/* frame: see frame.h. Rules stand in two tables, one a frame type and one a field, so that the page and the code compare. */
#include "frame.h"

#include <string.h>

uint16_t get_u16(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] | bytes[1] << 8);
}
uint32_t get_u32(const uint8_t *bytes)
{
	return (uint32_t)get_u16(bytes) | (uint32_t)get_u16(bytes + 2) << 16;
}
uint64_t get_u64(const uint8_t *bytes)
{
	return (uint64_t)get_u32(bytes) | (uint64_t)get_u32(bytes + 4) << 32;
}
uint8_t *put_u16(uint8_t *bytes, uint16_t value)
{
	bytes[0] = (uint8_t)value;
	bytes[1] = (uint8_t)(value >> 8);
	return bytes + 2;
}
uint8_t *put_u32(uint8_t *bytes, uint32_t value)
{
	return put_u16(put_u16(bytes, (uint16_t)value), (uint16_t)(value >> 16));
}
uint8_t *put_u64(uint8_t *bytes, uint64_t value)
{
	return put_u32(put_u32(bytes, (uint32_t)value), (uint32_t)(value >> 32));
}
void put_header(uint8_t *bytes, enum frame_type type, uint32_t stream, uint32_t size)
{
	bytes = put_u32(bytes, size);
	*bytes++ = (uint8_t)type;
	*bytes++ = 0;
	put_u32(put_u16(bytes, 0), stream);
}

enum owner { OF_SANDBOX, OF_STREAM };

struct frame_rule {
	enum owner owner;
	uint32_t min, max;
};

static const struct frame_rule frame_rules[] = {
	[HELLO] = {OF_SANDBOX, 12, 12},
	[SPAWN] = {OF_STREAM, 0, FRAME_MAX},
	[FILE_OP] = {OF_STREAM, 0, FRAME_MAX},
	[STDIN] = {OF_STREAM, 0, FRAME_MAX},
	[STDIN_EOF] = {OF_STREAM, 0, 0},
	[CREDIT] = {OF_STREAM, 8, 8},
	[SIGNAL] = {OF_STREAM, 8, 8},
	[KILL] = {OF_STREAM, 4, 4},
	[RESIZE] = {OF_STREAM, 4, 4},
	[PING] = {OF_SANDBOX, 8, 8},
	[DISCARD] = {OF_STREAM, 0, 0},
};

static bool header_is_valid(const uint8_t *header, const struct frame *frame)
{
	if (frame->type < HELLO || frame->type > DISCARD || header[5] != 0 || get_u16(header + 6) != 0) return false;
	const struct frame_rule *rule = &frame_rules[frame->type];
	if (frame->size < rule->min || frame->size > rule->max) return false;
	return (frame->stream != 0) == (rule->owner == OF_STREAM);
}

static bool payload_is_valid(const struct frame *frame)
{
	const uint8_t *payload = frame->payload;
	switch (frame->type) {
	case HELLO:
		return get_u16(payload) == PROTOCOL_VERSION && get_u16(payload + 2) == 0;
	case CREDIT:
		return get_u32(payload) == 1 || get_u32(payload) == 2;
	case SIGNAL:
		return get_u32(payload) >= 1 && get_u32(payload) <= 64 && get_u32(payload + 4) <= 1;
	default:
		return true;
	}
}

enum frame_result frame_take(const uint8_t *bytes, size_t size, struct frame *frame)
{
	if (size < FRAME_HEADER) return FRAME_INCOMPLETE;
	*frame = (struct frame){
		.type = bytes[4], .stream = get_u32(bytes + 8), .size = get_u32(bytes), .payload = bytes + FRAME_HEADER};
	if (!header_is_valid(bytes, frame)) return FRAME_MALFORMED;
	if (size - FRAME_HEADER < frame->size) return FRAME_INCOMPLETE;
	return payload_is_valid(frame) ? FRAME_COMPLETE : FRAME_MALFORMED;
}

enum { IN_SPAWN = 1, IN_FILE = 2, IN_BOTH = 3 };
enum shape { NUMBER, TEXT };

struct field_rule {
	uint8_t in;
	bool repeats;
	enum shape shape;
	uint32_t min, max;
};

static const struct field_rule field_rules[] = {
	[TAG_UID] = {IN_BOTH, false, NUMBER, 4, 4},
	[TAG_GID] = {IN_BOTH, false, NUMBER, 4, 4},
	[TAG_GROUP] = {IN_BOTH, true, NUMBER, 4, 4},
	[TAG_SPAWN_FLAGS] = {IN_SPAWN, false, NUMBER, 4, 4},
	[TAG_CWD] = {IN_SPAWN, false, TEXT, 1, FRAME_MAX},
	[TAG_ARG] = {IN_SPAWN, true, TEXT, 0, FRAME_MAX},
	[TAG_ENV] = {IN_SPAWN, true, TEXT, 2, FRAME_MAX},
	[TAG_SIZE] = {IN_SPAWN, false, NUMBER, 4, 4},
	[TAG_NOFILE] = {IN_SPAWN, false, NUMBER, 8, 8},
	[TAG_CREDIT] = {IN_BOTH, false, NUMBER, 8, 8},
	[TAG_OP] = {IN_FILE, false, NUMBER, 4, 4},
	[TAG_PATH] = {IN_FILE, false, TEXT, 1, PATH_BYTES_MAX},
	[TAG_PATH2] = {IN_FILE, false, TEXT, 1, PATH_BYTES_MAX},
	[TAG_OFFSET] = {IN_FILE, false, NUMBER, 8, 8},
	[TAG_LENGTH] = {IN_FILE, false, NUMBER, 8, 8},
	[TAG_MODE] = {IN_FILE, false, NUMBER, 4, 4},
	[TAG_OWNER] = {IN_FILE, false, NUMBER, 8, 8},
	[TAG_FILE_FLAGS] = {IN_FILE, false, NUMBER, 4, 4},
	[TAG_MAX] = {IN_FILE, false, NUMBER, 4, 4},
	[TAG_DEPTH] = {IN_FILE, false, NUMBER, 4, 4},
};

#define BIT(tag) (UINT32_C(1) << (tag))

/* Beyond uid, gid, op and path, which every FILE has. */
static const uint32_t operation_needs[] = {
	[OP_LIST] = BIT(TAG_DEPTH) | BIT(TAG_MAX), [OP_RENAME] = BIT(TAG_PATH2), [OP_CHMOD] = BIT(TAG_MODE),
	[OP_CHOWN] = BIT(TAG_OWNER), [OP_WATCH] = 0,
};

static bool identity_is_valid(uint32_t id)
{
	/* (uid_t)-1 means "leave as it is" to setresuid: the command would stay root */
	return id != UINT32_MAX;
}

static bool text_is_valid(uint32_t tag, struct text text)
{
	if (text.size > 0 && memchr(text.bytes, 0, text.size) != NULL) return false;
	if (tag == TAG_ARG) return true;
	if (tag == TAG_ENV) return text.bytes[0] != '=' && memchr(text.bytes, '=', text.size) != NULL;
	return text.bytes[0] == '/';
}

static bool store(struct request *request, uint32_t tag, struct text text)
{
	const uint8_t *bytes = text.bytes;
	switch (tag) {
	case TAG_UID: request->uid = get_u32(bytes); return identity_is_valid(request->uid);
	case TAG_GID: request->gid = get_u32(bytes); return identity_is_valid(request->gid);
	case TAG_GROUP:
		if (request->group_count == GROUPS_MAX || !identity_is_valid(get_u32(bytes))) return false;
		request->groups[request->group_count++] = get_u32(bytes);
		return true;
	case TAG_SPAWN_FLAGS: request->flags = get_u32(bytes); return (request->flags & ~(uint32_t)SPAWN_FLAGS) == 0;
	case TAG_CWD: request->cwd = text; return true;
	case TAG_ARG: request->argument_count++; return true;
	case TAG_ENV: request->environment_count++; return true;
	case TAG_SIZE: request->rows = get_u16(bytes); request->columns = get_u16(bytes + 2); return true;
	case TAG_NOFILE: request->nofile = get_u64(bytes); return true;
	case TAG_CREDIT: request->credit[0] = get_u32(bytes); request->credit[1] = get_u32(bytes + 4); return true;
	case TAG_OP: request->op = get_u32(bytes); return request->op >= OP_READ && request->op <= OP_WATCH;
	case TAG_PATH: request->path = text; return true;
	case TAG_PATH2: request->path2 = text; return true;
	case TAG_OFFSET: request->offset = get_u64(bytes); return true;
	case TAG_LENGTH: request->length = get_u64(bytes); return true;
	case TAG_MODE: request->mode = get_u32(bytes) & 07777; return true;
	case TAG_OWNER: request->owner_uid = get_u32(bytes); request->owner_gid = get_u32(bytes + 4); return true;
	case TAG_FILE_FLAGS: request->flags = get_u32(bytes); return (request->flags & ~(uint32_t)FILE_FLAGS) == 0;
	case TAG_MAX: request->max = get_u32(bytes); return true;
	case TAG_DEPTH: request->depth = get_u32(bytes); return true;
	default: return false;
	}
}

static bool field_take(struct request *request, uint8_t in, uint32_t tag, struct text text)
{
	if (tag >= sizeof field_rules / sizeof *field_rules) return false;
	const struct field_rule *rule = &field_rules[tag];
	if ((rule->in & in) == 0 || text.size < rule->min || text.size > rule->max) return false;
	if (!rule->repeats && request_has(request, (enum tag)tag)) return false;
	if (rule->shape == TEXT && !text_is_valid(tag, text)) return false;
	request->seen |= BIT(tag);
	return store(request, tag, text);
}

static uint32_t needed(uint8_t type, const struct request *request)
{
	const uint32_t identity = BIT(TAG_UID) | BIT(TAG_GID);
	if (type == SPAWN) return identity | BIT(TAG_CWD) | BIT(TAG_ARG);
	return identity | BIT(TAG_OP) | BIT(TAG_PATH) | operation_needs[request->op];
}

bool request_parse(uint8_t type, const uint8_t *payload, size_t size, struct request *request)
{
	*request = (struct request){.length = UINT64_MAX};
	const uint8_t in = type == SPAWN ? IN_SPAWN : IN_FILE;
	for (size_t at = 0; at < size;) {
		if (size - at < 5) return false;
		struct text text = {payload + at + 5, get_u32(payload + at + 1)};
		if (size - at - 5 < text.size) return false;
		if (!field_take(request, in, payload[at], text)) return false;
		at += 5 + (size_t)text.size;
	}
	const uint32_t needs = needed(type, request);
	return (request->seen & needs) == needs;
}

void request_strings(uint8_t *payload, size_t size, char **arguments, char **environment)
{
	uint8_t tag = payload[0];
	for (size_t at = 0; at < size;) {
		uint8_t *bytes = payload + at + 5;
		const size_t end = at + 5 + get_u32(payload + at + 1);
		if (tag == TAG_ARG) *arguments++ = (char *)bytes;
		if (tag == TAG_ENV) *environment++ = (char *)bytes;
		/* the NUL lands on the next field's tag: take that first */
		tag = payload[end];
		payload[end] = 0;
		at = end;
	}
	*arguments = NULL;
	*environment = NULL;
}
