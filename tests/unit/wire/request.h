/* request: requests through the decoder, and how they are refused.
 * Owner:  the test program that includes it.
 * Thread: one at a time.
 * Errors: asserts. */
#ifndef ENGRAM_TESTS_REQUEST_H
#define ENGRAM_TESTS_REQUEST_H

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "daemon/ops/operation.h"
#include "daemon/wire/decode.h"
#include "tests/support/sample_requests.h"

static struct job job;

/* Message and body in blocks of exactly their size, so that a sanitizer sees one byte too far. */
static inline enum status decode_bytes(uint8_t kind, const void *message, uint32_t message_bytes,
                                       const void *body, uint64_t body_bytes)
{
    struct frame_header h = {
        .kind = kind, .request_id = 1, .message_bytes = message_bytes, .body_bytes = body_bytes};
    void *m = malloc(message_bytes ? message_bytes : 1);
    void *b = body_bytes ? aligned_alloc(64, body_bytes) : NULL;
    memcpy(m, message, message_bytes);
    if (b) memcpy(b, body, body_bytes);
    memset(&job, 0xee, sizeof job);
    enum status st = decode_request(&h, m, b, operation_check, &job);
    cr_assert_eq(st, job.failure.code);
    const struct tensor *tensors[] = {
        &job.request.ids,           &job.request.rows,    &job.request.queries,
        &job.request.offsets,       &job.request.weights, &job.request.filter_ids,
        &job.request.filter_bitmap, &job.request.targets, &job.request.kinds,
        &job.request.factors,       &job.request.table};
    for (size_t i = 0; st == STATUS_OK && i < sizeof tensors / sizeof *tensors; i++) {
        const struct tensor *t = tensors[i];
        uint64_t bytes = t->rows * t->columns * dtype_bytes(t->dtype);
        if (!bytes) continue;
        cr_assert_eq((uintptr_t)t->data % 64, 0);
        cr_assert((char *)t->data >= (char *)b);
        cr_assert((char *)t->data + bytes <= (char *)b + body_bytes);
    }
    free(m);
    free(b);
    return st;
}

static inline enum status decode(const struct sample *s)
{
    uint8_t message[1024];
    uint32_t bytes = sample_message(s, message, sizeof message);
    return decode_bytes(s->kind, message, bytes, s->body, s->body_bytes);
}

static inline void refused(const struct sample *s, enum detail detail, const char *text)
{
    enum status st = decode(s);
    cr_assert_eq(st, STATUS_INVALID_ARGUMENT, "%s: %s", s->name, text);
    cr_assert_eq(job.failure.detail, detail, "%s: %s, not %s (%s)", s->name,
                 detail_name(job.failure.detail), detail_name(detail), job.failure.text);
    cr_assert(strstr(job.failure.text, text), "'%s' lacks '%s'", job.failure.text, text);
}

#endif
