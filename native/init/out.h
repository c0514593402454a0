/*
 * out: what waits to go to the host. One fixed buffer: command output is taken in only while little waits, frames about
 * streams always find room, so memory is bounded whatever the host and the commands do.
 */
#ifndef SALLYPORT_OUT_H
#define SALLYPORT_OUT_H

#include "frame.h"

/* Appends a frame of at most 320 bytes of payload. */
void out_frame(enum frame_type type, uint32_t stream, const uint8_t *payload, uint32_t size);
/* True when a chunk of CHUNK_MAX bytes may be taken in. */
bool out_takes_chunk(void);
/* Where to put a chunk's bytes; out_chunk makes a frame of them. */
uint8_t *out_chunk_space(void);
void out_chunk(enum frame_type type, uint32_t stream, uint32_t size);
/* True when so much waits that no frame of the host that may need an answer should be read. */
bool out_is_congested(void);
bool out_is_empty(void);
/* Writes what `fd` takes. @return false when the channel is broken; `*blocked` says whether bytes are left */
bool out_flush(int fd, bool *blocked);
/* Gives the buffer's pages back to the kernel. Only while it is empty, or in a child. */
void out_release(void);

#endif
