#include "daemon/base/frame.h"

#include <string.h>

#include <criterion/criterion.h>

static const struct frame_header good = {
    .kind = 33,
    .request_id = 0x1122334455667788,
    .message_bytes = 65536,
    .deadline_us = 10000,
    .body_bytes = 4096,
};

static enum status parse(const struct frame_header *h, struct frame_header *out, struct failure *f)
{
    uint8_t bytes[FRAME_HEADER_BYTES + 1];
    frame_write(h, bytes + 1); /* any alignment */
    return frame_parse(bytes + 1, 4096, out, f);
}

Test(frame, write_then_parse_gives_it_back)
{
    struct frame_header out;
    cr_assert_eq(parse(&good, &out, NULL), STATUS_OK);
    cr_assert_eq(out.kind, good.kind);
    cr_assert_eq(out.flags, 0);
    cr_assert_eq(out.request_id, good.request_id);
    cr_assert_eq(out.message_bytes, good.message_bytes);
    cr_assert_eq(out.deadline_us, good.deadline_us);
    cr_assert_eq(out.body_bytes, good.body_bytes);
}

Test(frame, bytes_lie_where_the_page_says)
{
    uint8_t b[FRAME_HEADER_BYTES];
    struct frame_header h = good;
    h.flags = FRAME_FLAG_REPLY;
    frame_write(&h, b);
    static const uint8_t want[FRAME_HEADER_BYTES] = {
        'E',  'A',  'C',  'L',  1,    33,   1, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
        0x00, 0x00, 0x01, 0x00, 0x10, 0x27, 0, 0, 0x00, 0x10, 0,    0,    0,    0,    0,    0};
    cr_assert_arr_eq(b, want, sizeof want);
}

Test(frame, lengths_are_multiples_of_64)
{
    for (uint32_t n = 0; n <= 200; n++) {
        struct frame_header h = {.message_bytes = n};
        uint64_t at = frame_body_offset(&h);
        cr_assert_eq(at % FRAME_ALIGN, 0);
        cr_assert(at >= 32 + n && at < 32 + n + FRAME_ALIGN);
    }
    cr_assert_eq(frame_align(0), 0);
    cr_assert_eq(frame_align(64), 64);
    cr_assert_eq(frame_align(65), 128);
}

Test(frame, lost_framing_sets_nothing)
{
    uint8_t b[FRAME_HEADER_BYTES];
    struct failure f;
    struct frame_header out = {.kind = 9, .request_id = 9};
    frame_write(&good, b);
    b[0] ^= 1;
    cr_assert_eq(frame_parse(b, 4096, &out, &f), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(f.detail, DETAIL_BAD_MAGIC);
    frame_write(&good, b);
    b[4] = 2;
    cr_assert_eq(frame_parse(b, 4096, &out, &f), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(f.detail, DETAIL_BAD_VERSION);
    cr_assert_eq(out.kind, 9);
    cr_assert_eq(out.request_id, 9);
}

Test(frame, may_ask_for_progress)
{
    struct frame_header h = good, out = {0};
    struct failure f;
    uint8_t bytes[FRAME_HEADER_BYTES];
    h.flags = FRAME_FLAG_PROGRESS;
    frame_write(&h, bytes);
    cr_assert_eq(frame_parse(bytes, UINT64_MAX, &out, &f), STATUS_OK);
    cr_assert_eq(out.flags, FRAME_FLAG_PROGRESS);
    cr_assert(frame_read(bytes, UINT64_MAX, &out) && out.flags == FRAME_FLAG_PROGRESS);
    h.flags |= FRAME_FLAG_REPLY;
    frame_write(&h, bytes);
    cr_assert(!frame_read(bytes, UINT64_MAX, &out));
    cr_assert_eq(frame_parse(bytes, UINT64_MAX, &out, &f), STATUS_INVALID_ARGUMENT);
}

Test(frame, refusals_can_be_addressed)
{
    struct {
        struct frame_header h;
        enum status code;
        enum detail detail;
    } cases[] = {
        {good, STATUS_INVALID_ARGUMENT, DETAIL_BAD_FLAGS},
        {good, STATUS_RESOURCE_EXHAUSTED, DETAIL_MESSAGE_TOO_LARGE},
        {good, STATUS_RESOURCE_EXHAUSTED, DETAIL_BODY_TOO_LARGE},
        {good, STATUS_RESOURCE_EXHAUSTED, DETAIL_BODY_TOO_LARGE},
        {good, STATUS_INVALID_ARGUMENT, DETAIL_BODY_MISMATCH},
    };
    cases[0].h.flags = FRAME_FLAG_REPLY;
    cases[1].h.message_bytes = 65537;
    cases[2].h.body_bytes = 4160;
    cases[3].h.body_bytes = UINT64_MAX;
    cases[4].h.body_bytes = 65;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct failure f;
        struct frame_header out = {0};
        cr_assert_eq(parse(&cases[i].h, &out, &f), cases[i].code, "case %zu", i);
        cr_assert_eq(f.detail, cases[i].detail, "case %zu: %s", i, f.text);
        cr_assert_eq(out.kind, good.kind);
        cr_assert_eq(out.request_id, good.request_id);
    }
}
