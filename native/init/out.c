/* out: see out.h. */
#define _GNU_SOURCE
#include "out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	FEW = 64 << 10,
	CONTROL_ROOM = 128 << 10,
	/*
	 * The kernel copies whole pages. A copy whose target lies a few bytes above its source, modulo 4096, waits for its own
	 * stores (4K aliasing): a chunk placed half a page off is copied almost twice as fast as one placed right after a header.
	 */
	START = 2048 - FRAME_HEADER,
	CAPACITY = START + FEW + FRAME_HEADER + CHUNK_MAX + CONTROL_ROOM,
	/* 256 streams cannot say more than this between two looks at out_is_congested */
	CONTROL_RESERVE = 64 << 10,
	CONTROL_MAX = 320,
};

static _Alignas(4096) uint8_t buffer[CAPACITY];
static size_t first = START, end = START;

static void make_room(size_t size)
{
	if (CAPACITY - end >= size) return;
	memmove(buffer + START, buffer + first, end - first);
	end = START + (end - first);
	first = START;
	/* unreachable as long as the callers ask out_takes_chunk and out_is_congested first */
	if (CAPACITY - end < size) abort();
}

void out_frame(enum frame_type type, uint32_t stream, const uint8_t *payload, uint32_t size)
{
	if (size > CONTROL_MAX) abort();
	make_room(FRAME_HEADER + size);
	put_header(buffer + end, type, stream, size);
	if (size > 0) memcpy(buffer + end + FRAME_HEADER, payload, size);
	end += FRAME_HEADER + size;
}

bool out_takes_chunk(void)
{
	return end - first <= FEW;
}

uint8_t *out_chunk_space(void)
{
	make_room(FRAME_HEADER + CHUNK_MAX);
	return buffer + end + FRAME_HEADER;
}

void out_chunk(enum frame_type type, uint32_t stream, uint32_t size)
{
	put_header(buffer + end, type, stream, size);
	end += FRAME_HEADER + size;
}

bool out_is_congested(void)
{
	return end - first > CAPACITY - CONTROL_RESERVE;
}

bool out_is_empty(void)
{
	return first == end;
}

bool out_flush(int fd, bool *blocked)
{
	*blocked = false;
	while (first < end) {
		const ssize_t written = write(fd, buffer + first, end - first);
		if (written >= 0) {
			first += (size_t)written;
			continue;
		}
		if (errno == EINTR) continue;
		*blocked = errno == EAGAIN;
		return *blocked;
	}
	first = end = START;
	return true;
}

void out_release(void)
{
	/* whole pages of its own only: the last, partial one may hold other variables */
	madvise(buffer, sizeof buffer & ~(size_t)4095, MADV_DONTNEED);
}
