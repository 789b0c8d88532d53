#include "daemon/base/frame.h"

#include <inttypes.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensors and headers are used where they lie: little-endian hosts only"
#endif

/* The header as it lies on the wire; every field has its natural alignment. */
struct wire_header {
    uint32_t magic;
    uint8_t version, kind;
    uint16_t flags;
    uint64_t request_id;
    uint32_t message_bytes, deadline_us;
    uint64_t body_bytes;
};
_Static_assert(sizeof(struct wire_header) == FRAME_HEADER_BYTES, "the header has no gaps");

enum status frame_parse(const void *bytes, uint64_t body_bytes_max, struct frame_header *out,
                        struct failure *f)
{
    struct wire_header w;
    memcpy(&w, bytes, sizeof w);
    if (w.magic != FRAME_MAGIC)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_MAGIC,
                           "frame: magic 0x%08" PRIx32 ", 0x%08" PRIx32 " wanted", w.magic,
                           FRAME_MAGIC);
    if (w.version != FRAME_VERSION)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_VERSION,
                           "frame: version %u, this daemon speaks %d", w.version, FRAME_VERSION);

    out->kind = w.kind;
    out->flags = w.flags;
    out->request_id = w.request_id;
    out->message_bytes = w.message_bytes;
    out->deadline_us = w.deadline_us;
    out->body_bytes = w.body_bytes;
    if (w.flags & ~(unsigned)FRAME_FLAG_PROGRESS)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_FLAGS,
                           "frame: flags 0x%04x, a request has none but 0x%04x", w.flags,
                           FRAME_FLAG_PROGRESS);
    if (w.message_bytes > FRAME_MESSAGE_BYTES_MAX)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MESSAGE_TOO_LARGE,
                           "frame: message of %" PRIu32 " bytes, at most %d", w.message_bytes,
                           FRAME_MESSAGE_BYTES_MAX);
    if (w.body_bytes > body_bytes_max)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_BODY_TOO_LARGE,
                           "frame: body of %" PRIu64 " bytes, at most %" PRIu64, w.body_bytes,
                           body_bytes_max);
    if (w.body_bytes % FRAME_ALIGN)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BODY_MISMATCH,
                           "frame: body of %" PRIu64 " bytes, not a multiple of %d", w.body_bytes,
                           FRAME_ALIGN);
    return STATUS_OK;
}
