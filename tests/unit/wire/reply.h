/* reply: a buffer that replies are encoded into, and what every reply must be.
 * Owner:  the test program that includes it.
 * Thread: one at a time.
 * Errors: asserts. */
#ifndef ENGRAM_TESTS_REPLY_H
#define ENGRAM_TESTS_REPLY_H

#include <string.h>

#include <criterion/criterion.h>
#include <pb_decode.h>

#include "daemon/wire/encode.h"
#include "proto/engram_accel.pb.h"

static _Alignas(64) uint8_t buffer[ENCODE_BYTES_MAX + 64];
static struct wire_header {
    uint32_t magic;
    uint8_t version, kind;
    uint16_t flags;
    uint64_t request_id;
    uint32_t message_bytes, deadline_us;
    uint64_t body_bytes;
} header;

/* The buffer starts as garbage, so that what a reply leaves unwritten shows. */
static inline void *fresh(void)
{
    memset(buffer, 0xcc, sizeof buffer);
    return buffer;
}

static inline void check_frame(size_t bytes, int kind, uint16_t flags, uint64_t id)
{
    memcpy(&header, buffer, sizeof header);
    cr_assert_eq(header.magic, FRAME_MAGIC);
    cr_assert_eq(header.version, FRAME_VERSION);
    cr_assert_eq(header.kind, kind);
    cr_assert_eq(header.flags, flags);
    cr_assert_eq(header.request_id, id);
    cr_assert_eq(header.deadline_us, 0);
    cr_assert_eq(bytes % 64, 0);
    cr_assert_eq(bytes, frame_align(32 + header.message_bytes));
    for (size_t i = 32 + header.message_bytes; i < bytes; i++)
        cr_assert_eq(buffer[i], 0, "padding at %zu", i);
    cr_assert_eq(buffer[bytes], 0xcc, "nothing past the end");
}

static inline void read_message(const pb_msgdesc_t *fields, void *out)
{
    pb_istream_t in = pb_istream_from_buffer(buffer + 32, header.message_bytes);
    cr_assert(pb_decode(&in, fields, out), "%s", PB_GET_ERROR(&in));
}

#endif
