/* frame: the 32 bytes before every message, and the layout that follows them.
 *
 *   offset  0  u32  magic, bytes "EACL"
 *           4  u8   version (1)
 *           5  u8   kind (proto Kind)
 *           6  u16  flags: requests 0 or PROGRESS; replies REPLY, with ERROR or PROGRESS
 *           8  u64  request id, the client's choice, unique among its requests in flight
 *          16  u32  message bytes (<= 65,536)
 *          20  u32  requests: relative deadline in microseconds, 0 for none; replies: 0
 *          24  u64  body bytes, a multiple of 64
 *
 * All little-endian. The message follows at 32, zero-padded so that the body starts at the next
 * multiple of 64 from the frame's start; each tensor starts at the next multiple of 64. So the
 * length of a frame is a multiple of 64, and frames that start aligned stay aligned.
 * Owner:  base: net and wire both read it. Thread: any; no state. Errors: frame_parse. */
#ifndef ENGRAM_BASE_FRAME_H
#define ENGRAM_BASE_FRAME_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "daemon/base/status.h"

enum {
    FRAME_HEADER_BYTES = 32,
    FRAME_ALIGN = 64,
    FRAME_MESSAGE_BYTES_MAX = 65536,
    FRAME_VERSION = 1,
    FRAME_FLAG_REPLY = 1,
    FRAME_FLAG_ERROR = 2,
    FRAME_FLAG_PROGRESS = 4, /* a request: wants to know how far it is; a reply: says that */
};
enum { FEATURE_PROGRESS = 1 }; /* as numbered in the schema */
#define FRAME_NOT_PADDED "frame: the bytes between message and body are not zero"
#define FRAME_MAGIC      UINT32_C(0x4c434145) /* "EACL" read little-endian */

struct frame_header {
    uint8_t kind;
    uint16_t flags;
    uint64_t request_id;
    uint32_t message_bytes;
    uint32_t deadline_us;
    uint64_t body_bytes;
};

static inline uint64_t frame_align(uint64_t n)
{
    return (n + FRAME_ALIGN - 1) & ~(uint64_t)(FRAME_ALIGN - 1);
}

/* Returns where the body starts, from the frame's start. */
static inline uint64_t frame_body_offset(const struct frame_header *h)
{
    return frame_align(FRAME_HEADER_BYTES + (uint64_t)h->message_bytes);
}

/* True if the bytes between a message and its frame's body are zeros, which they must be: what is
 * ignored today could not be given a meaning one day. */
static inline bool frame_is_padded(const struct frame_header *h, const void *message)
{
    static const char zeros[FRAME_ALIGN];
    uint64_t end = frame_align(FRAME_HEADER_BYTES + (uint64_t)h->message_bytes);
    return memcmp((const char *)message + h->message_bytes, zeros,
                  end - FRAME_HEADER_BYTES - h->message_bytes) == 0;
}

/* Parses a header without anything unusual, inline. False: frame_parse has to say what is wrong. */
static inline bool frame_read(const void *bytes, uint64_t body_bytes_max, struct frame_header *out)
{
    const uint64_t kind = UINT64_C(0xff) << 40, progress = (uint64_t)FRAME_FLAG_PROGRESS << 48;
    uint64_t first, sizes;
    memcpy(&first, bytes, 8);
    memcpy(&out->request_id, (const char *)bytes + 8, 8);
    memcpy(&sizes, (const char *)bytes + 16, 8);
    memcpy(&out->body_bytes, (const char *)bytes + 24, 8);
    out->kind = (uint8_t)(first >> 40);
    out->flags = (uint16_t)(first >> 48);
    out->message_bytes = (uint32_t)sizes;
    out->deadline_us = (uint32_t)(sizes >> 32);
    return (first & ~(kind | progress)) == (FRAME_MAGIC | (uint64_t)FRAME_VERSION << 32) &&
           out->message_bytes <= FRAME_MESSAGE_BYTES_MAX && out->body_bytes <= body_bytes_max &&
           out->body_bytes % FRAME_ALIGN == 0;
}

/* Parses FRAME_HEADER_BYTES bytes of any alignment. INVALID_ARGUMENT: BAD_MAGIC, BAD_VERSION,
 * BAD_FLAGS (of a request, others than PROGRESS), BODY_MISMATCH (not a multiple of 64);
 * RESOURCE_EXHAUSTED: MESSAGE_TOO_LARGE, BODY_TOO_LARGE. After BAD_MAGIC or BAD_VERSION *out is not
 * set; after the others request_id and kind are, so that the refusal can be addressed. */
enum status frame_parse(const void *bytes, uint64_t body_bytes_max, struct frame_header *out,
                        struct failure *f);

/* Writes FRAME_HEADER_BYTES bytes, in whole words, so that a wide load that follows does not stall
 * on several narrow stores. */
static inline void frame_write(const struct frame_header *h, void *bytes)
{
    uint64_t words[4] = {
        FRAME_MAGIC | (uint64_t)FRAME_VERSION << 32 | (uint64_t)h->kind << 40 |
            (uint64_t)h->flags << 48,
        h->request_id,
        h->message_bytes | (uint64_t)h->deadline_us << 32,
        h->body_bytes,
    };
    for (int i = 0; i < 4; i++)
        memcpy((char *)bytes + 8 * i, &words[i], 8);
}

#endif
