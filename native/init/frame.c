#include "frame.h"

#include <string.h>

uint16_t get16(const uint8_t *d) { return (uint16_t)(d[0] | d[1] << 8); }
uint32_t get32(const uint8_t *d) { return (uint32_t)get16(d) | (uint32_t)get16(d + 2) << 16; }
uint64_t get64(const uint8_t *d) { return (uint64_t)get32(d) | (uint64_t)get32(d + 4) << 32; }
void put16(uint8_t *d, uint16_t v) { d[0] = (uint8_t)v; d[1] = (uint8_t)(v >> 8); }
void put32(uint8_t *d, uint32_t v) { put16(d, (uint16_t)v); put16(d + 2, (uint16_t)(v >> 16)); }
void put64(uint8_t *d, uint64_t v) { put32(d, (uint32_t)v); put32(d + 4, (uint32_t)(v >> 32)); }

void frame_header(uint8_t *out, uint8_t type, uint32_t stream, uint32_t length)
{
	put32(out, length);
	out[4] = type;
	out[5] = 0;
	put16(out + 6, 0);
	put32(out + 8, stream);
}

/* Payload lengths of the host's frames: -1 = any, and whether the frame is about a stream. */
static const struct {
	int32_t length;
	bool has_stream;
} rules[] = {
	[FRAME_HELLO] = {12, false}, [FRAME_SPAWN] = {-1, true}, [FRAME_FILE] = {-1, true}, [FRAME_STDIN] = {-1, true},
	[FRAME_STDIN_EOF] = {0, true}, [FRAME_CREDIT] = {8, true}, [FRAME_SIGNAL] = {8, true}, [FRAME_KILL] = {4, true},
	[FRAME_RESIZE] = {4, true}, [FRAME_PING] = {8, false}, [FRAME_DISCARD] = {0, true},
};

enum parse frame_parse(const uint8_t *data, size_t size, struct frame *out, size_t *used, const char **why)
{
	if (size < FRAME_HEADER)
		return PARSE_MORE;
	uint32_t length = get32(data);
	uint8_t type = data[4];
	uint32_t stream = get32(data + 8);
	*why = "unknown frame type";
	if (type < FRAME_HELLO || type > FRAME_DISCARD)
		return PARSE_BAD;
	*why = "flags or reserved bytes are not 0";
	if (data[5] != 0 || get16(data + 6) != 0)
		return PARSE_BAD;
	*why = "payload too long";
	if (length > FRAME_PAYLOAD_MAX)
		return PARSE_BAD;
	*why = "wrong payload length";
	if (rules[type].length >= 0 && length != (uint32_t)rules[type].length)
		return PARSE_BAD;
	*why = "wrong stream id";
	if ((stream != 0) != rules[type].has_stream)
		return PARSE_BAD;
	if (size - FRAME_HEADER < length)
		return PARSE_MORE;
	*out = (struct frame){.type = type, .stream = stream, .payload = data + FRAME_HEADER, .length = length};
	*used = FRAME_HEADER + (size_t)length;
	return PARSE_DONE;
}

bool field_next(struct cursor *cursor, struct field *out, const char **why)
{
	*why = NULL;
	if (cursor->left == 0)
		return false;
	*why = "field cut short";
	if (cursor->left < 5)
		return false;
	uint32_t length = get32(cursor->data + 1);
	if (length > cursor->left - 5)
		return false;
	out->tag = cursor->data[0];
	out->value = (struct slice){cursor->data + 5, length};
	cursor->data += 5 + length;
	cursor->left -= 5 + length;
	*why = NULL;
	return true;
}

static bool has_nul(struct slice slice)
{
	return slice.length > 0 && memchr(slice.data, 0, slice.length) != NULL;
}

static bool is_path(struct slice slice)
{
	return slice.length > 0 && slice.length <= PATH_BYTES_MAX && slice.data[0] == '/' && !has_nul(slice);
}

/* 1 = taken, 0 = not an identity or credit field, -1 = bad */
static int shared_field(const struct field *field, struct identity *identity, uint32_t credit[2], uint32_t *seen)
{
	uint32_t length = field->value.length;
	const uint8_t *data = field->value.data;
	switch (field->tag) {
	case TAG_UID:
		if (length != 4)
			return -1;
		identity->uid = get32(data);
		break;
	case TAG_GID:
		if (length != 4)
			return -1;
		identity->gid = get32(data);
		break;
	case TAG_GROUP:
		if (length != 4 || identity->group_count >= GROUPS_MAX)
			return -1;
		identity->groups[identity->group_count++] = get32(data);
		return 1;
	case TAG_CREDIT:
		if (length != 8)
			return -1;
		credit[0] = get32(data);
		credit[1] = get32(data + 4);
		break;
	default:
		return 0;
	}
	if (*seen & 1u << field->tag)
		return -1;
	*seen |= 1u << field->tag;
	return 1;
}

bool spawn_parse(const uint8_t *payload, uint32_t length, struct spawn_spec *out, const char **why)
{
	struct cursor cursor = {payload, length};
	struct field field;
	uint32_t seen = 0;
	memset(out, 0, sizeof *out);
	while (field_next(&cursor, &field, why)) {
		struct slice value = field.value;
		int shared = shared_field(&field, &out->identity, out->credit, &seen);
		*why = "bad field of SPAWN";
		if (shared < 0)
			return false;
		if (shared > 0)
			continue;
		if (field.tag != TAG_ARG && field.tag != TAG_ENV) {
			if (field.tag > 31 || seen & 1u << field.tag)
				return false;
			seen |= 1u << field.tag;
		}
		switch (field.tag) {
		case TAG_FLAGS:
			if (value.length != 4 || get32(value.data) > 15)
				return false;
			out->flags = get32(value.data);
			break;
		case TAG_CWD:
			if (!is_path(value))
				return false;
			out->cwd = value;
			break;
		case TAG_ARG:
			if (has_nul(value))
				return false;
			out->arg_count++;
			out->string_bytes += value.length + 1u;
			break;
		case TAG_ENV:
			if (has_nul(value) || value.length < 2 || value.data[0] == '=' || memchr(value.data, '=', value.length) == NULL)
				return false;
			out->env_count++;
			out->string_bytes += value.length + 1u;
			break;
		case TAG_SIZE:
			if (value.length != 4)
				return false;
			out->rows = get16(value.data);
			out->columns = get16(value.data + 2);
			break;
		case TAG_NOFILE:
			if (value.length != 8)
				return false;
			out->nofile = get64(value.data);
			break;
		default:
			return false;
		}
	}
	if (*why != NULL)
		return false;
	const uint32_t wanted = 1u << TAG_UID | 1u << TAG_GID | 1u << TAG_CWD;
	*why = "missing field of SPAWN";
	return (seen & wanted) == wanted && out->arg_count > 0;
}

/* Fields with one number: where it goes. */
static bool number_field(const struct field *field, struct file_spec *out)
{
	struct slice value = field->value;
	uint32_t *small = NULL;
	uint64_t *large = NULL;
	switch (field->tag) {
	case TAG_OP: small = &out->op; break;
	case TAG_MODE: small = &out->mode; out->has_mode = true; break;
	case TAG_FILE_FLAGS: small = &out->flags; break;
	case TAG_MAX: small = &out->max; break;
	case TAG_DEPTH: small = &out->depth; break;
	case TAG_OFFSET: large = &out->offset; break;
	case TAG_LENGTH: large = &out->length; out->has_length = true; break;
	default: return false;
	}
	if (value.length != (small ? 4u : 8u))
		return false;
	if (small)
		*small = get32(value.data);
	else
		*large = get64(value.data);
	return true;
}

bool file_parse(const uint8_t *payload, uint32_t length, struct file_spec *out, const char **why)
{
	struct cursor cursor = {payload, length};
	struct field field;
	uint32_t seen = 0;
	memset(out, 0, sizeof *out);
	while (field_next(&cursor, &field, why)) {
		struct slice value = field.value;
		int shared = shared_field(&field, &out->identity, out->credit, &seen);
		*why = "bad field of FILE";
		if (shared < 0)
			return false;
		if (shared > 0)
			continue;
		if (field.tag > 31 || seen & 1u << field.tag)
			return false;
		seen |= 1u << field.tag;
		if (field.tag == TAG_PATH || field.tag == TAG_PATH2) {
			if (!is_path(value))
				return false;
			*(field.tag == TAG_PATH ? &out->path : &out->path2) = value;
		} else if (field.tag == TAG_OWNER) {
			if (value.length != 8)
				return false;
			out->owner_uid = get32(value.data);
			out->owner_gid = get32(value.data + 4);
			out->has_owner = true;
		} else if (!number_field(&field, out))
			return false;
	}
	if (*why != NULL)
		return false;
	const uint32_t wanted = 1u << TAG_UID | 1u << TAG_GID | 1u << TAG_OP | 1u << TAG_PATH;
	*why = "missing field of FILE";
	if ((seen & wanted) != wanted)
		return false;
	*why = "bad value in FILE";
	if (out->op < FILE_READ || out->op > FILE_WATCH || out->flags > 7 || (out->has_mode && out->mode > 07777))
		return false;
	if (out->op == FILE_CHMOD && !out->has_mode)
		return false;
	if (out->op == FILE_CHOWN && !out->has_owner)
		return false;
	if (out->op == FILE_LIST && (out->depth == 0 || out->max == 0))
		return false;
	return out->op != FILE_RENAME || out->path2.length > 0;
}
