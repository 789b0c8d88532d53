/* Requests that decode and lie: shapes, numbers, names, order. The error is precise, nothing is
 * half-applied, the connection lives on, the witness is served. */
#include <criterion/criterion.h>
#include <math.h>
#include <pb_common.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pb_decode.h>

#include "daemon/base/job.h"
#include "daemon/ops/check.h"
#include "tests/support/scene.h"

/* ---------------------------------------------------------------- shapes */

struct lie {
    const char *what;
    int dtype;              /* -1: as it was */
    uint64_t rows, columns; /* UINT32_MAX: as it was */
    bool absent;
};

#define SAME UINT32_MAX
static const struct lie lies[] = {
    {"no dtype", 0, SAME, SAME, false},
    {"an unknown dtype", 99, SAME, SAME, false},
    {"uint32", DTYPE_UINT32, SAME, SAME, false},
    {"no rows", -1, 0, SAME, false},
    {"1,000 rows", -1, 1000, SAME, false},
    {"rows whose bytes overflow to 0", -1, UINT64_C(1) << 61, SAME, false},
    {"rows whose bytes overflow", -1, UINT64_C(1) << 62, SAME, false},
    {"2^63 rows", -1, UINT64_C(1) << 63, SAME, false},
    {"2^64 - 1 rows", -1, UINT64_MAX, SAME, false},
    {"no columns", -1, SAME, 0, false},
    {"16,385 columns", -1, SAME, 16385, false},
    {"2^40 columns", -1, SAME, UINT64_C(1) << 40, false},
    {"2^64 - 1 columns", -1, SAME, UINT64_MAX, false},
    {"rows x columns overflow", -1, UINT64_C(1) << 32, UINT64_C(1) << 32, false},
    {"absence", -1, SAME, SAME, true},
};

static void tell(int fd, struct sample *s, engram_accel_v1_Tensor *t, bool *present, size_t *told)
{
    engram_accel_v1_Tensor truth = *t;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        const struct lie *l = &lies[i];
        if (l->dtype >= 0) t->dtype = (engram_accel_v1_Dtype)l->dtype;
        if (l->rows != SAME) t->rows = l->rows;
        if (l->columns != SAME) t->columns = l->columns;
        *present = !l->absent;
        send_sample(fd, s, 100 + i);
        struct wire_error e = receive_error(fd);
        cr_assert_eq(e.request_id, 100 + i);
        cr_assert_eq(e.kind, s->kind);
        cr_assert_eq(e.code, STATUS_INVALID_ARGUMENT, "%s: %s: %s: %s", s->name, l->what,
                     status_name(e.code), e.text);
        cr_assert(e.detail == DETAIL_BAD_SHAPE || e.detail == DETAIL_BODY_MISMATCH, "%s: %s: %s",
                  s->name, l->what, e.text);
        cr_assert(strchr(e.text, ':'), "'%s' names no field", e.text);
        *t = truth;
        *present = true;
        ++*told;
    }
}

/* Every tensor of every request, filters included. */
static void tell_all(int fd, struct sample *s, const pb_msgdesc_t *fields, void *message,
                     size_t *told)
{
    pb_field_iter_t at;
    if (!pb_field_iter_begin(&at, fields, message)) return;
    do {
        if (PB_LTYPE(at.type) != PB_LTYPE_SUBMESSAGE || !*(bool *)at.pSize) continue;
        if (at.submsg_desc == &engram_accel_v1_Tensor_msg)
            tell(fd, s, at.pData, at.pSize, told);
        else
            tell_all(fd, s, at.submsg_desc, at.pData, told);
    } while (pb_field_iter_next(&at));
}

Test(hostile_requests, lies_about_every_shape)
{
    struct scene s;
    scene_open(&s, NULL);
    scene_make_rows(&s);
    int fd = scene_connect(&s);
    size_t told = 0;
    for (size_t i = 0; i < sample_count(); i++) {
        struct sample sample;
        sample_get(i, &sample);
        if (sample.kind == OPERATION_HELLO) continue;
        tell_all(fd, &sample, sample.fields, &sample.message, &told);
        expect_alive(fd);
    }
    cr_assert_eq(told, 84 * sizeof lies / sizeof *lies, "%zu lies told", told);
    scene_check(&s);
    close(fd);
    scene_close(&s);
}

/* A body where none belongs, and bytes after the last tensor. */
Test(hostile_requests, too_much_body)
{
    struct scene s;
    scene_open(&s, NULL);
    scene_make_rows(&s);
    int fd = scene_connect(&s);
    for (size_t i = 0; i < sample_count(); i++) {
        struct sample sample;
        sample_get(i, &sample);
        if (sample.kind == OPERATION_HELLO) continue;
        sample.body_bytes += 64;
        send_sample(fd, &sample, 50 + i);
        expect_error(fd, 50 + i, STATUS_INVALID_ARGUMENT, DETAIL_BODY_MISMATCH, "body");
    }
    expect_alive(fd);
    close(fd);
    scene_close(&s);
}

Test(hostile_requests, unknown_kinds)
{
    struct scene s;
    scene_open(&s, NULL);
    int fd = scene_connect(&s);
    for (int kind = 0; kind < 256; kind++) {
        bool known = (kind >= 1 && kind <= 6) || (kind >= 8 && kind <= 15) ||
                     (kind >= 16 && kind <= 24) || (kind >= 32 && kind <= 60) ||
                     (kind >= 64 && kind <= 70) || kind == OPERATION_COVARIANCE ||
                     kind == OPERATION_CLUSTER;
        if (known) continue;
        cr_assert(raw_send_frame(fd, (uint8_t)kind, 60, NULL, 0, NULL, 0));
        struct wire_error e = receive_error(fd);
        cr_assert_eq(e.code, STATUS_UNIMPLEMENTED, "kind %d: %s", kind, e.text);
        cr_assert_eq(e.detail, DETAIL_UNKNOWN_KIND);
        cr_assert_eq(e.kind, kind, "a reply has its request's kind");
        cr_assert_eq(e.request_id, 60);
    }
    expect_alive(fd);
    close(fd);
    scene_close(&s);
}

/* ---------------------------------------------------------------- numbers */

struct bad_number {
    float value;
    uint32_t detail;
};
static const struct bad_number bad_numbers[] = {
    {NAN, DETAIL_NOT_FINITE},       {-NAN, DETAIL_NOT_FINITE},     {INFINITY, DETAIL_NOT_FINITE},
    {-INFINITY, DETAIL_NOT_FINITE}, {2e19F, DETAIL_NORM_OVERFLOW}, {3e38F, DETAIL_NORM_OVERFLOW},
};

/* Puts the number at [row][column] of the tensor that starts at offset in the sample's body. */
static void expect_bad_number(int fd, const char *name, size_t offset, size_t row, size_t columns)
{
    for (size_t i = 0; i < sizeof bad_numbers / sizeof *bad_numbers; i++)
        for (size_t column = 0; column < columns; column += columns - 1) {
            struct sample sample;
            char mention[16];
            sample_find(name, &sample);
            memcpy(sample.body + offset + (row * columns + column) * 4, &bad_numbers[i].value, 4);
            snprintf(mention, sizeof mention, "%zu", row);
            send_sample(fd, &sample, 70);
            expect_error(fd, 70, STATUS_INVALID_ARGUMENT, bad_numbers[i].detail, mention);
        }
}

static engram_accel_v1_CollectionInfo describe_rows(int fd)
{
    struct sample sample;
    static uint8_t message[FRAME_MESSAGE_BYTES_MAX];
    struct frame_header h;
    void *body;
    sample_find("describe", &sample);
    send_sample(fd, &sample, 71);
    cr_assert(raw_receive_frame(fd, &h, message, &body));
    cr_assert_eq(h.flags, FRAME_FLAG_REPLY);
    engram_accel_v1_CollectionDescribeReply reply =
        engram_accel_v1_CollectionDescribeReply_init_zero;
    pb_istream_t in = pb_istream_from_buffer(message, h.message_bytes);
    cr_assert(pb_decode(&in, engram_accel_v1_CollectionDescribeReply_fields, &reply));
    return reply.collection;
}

Test(hostile_requests, numbers_that_are_none)
{
    struct scene s;
    scene_open(&s, NULL);
    scene_make_rows(&s);
    int fd = scene_connect(&s);
    engram_accel_v1_CollectionInfo before = describe_rows(fd);
    expect_bad_number(fd, "upsert", 64, 0, 4); /* ids take 64 bytes */
    expect_bad_number(fd, "upsert", 64, 4, 4);
    engram_accel_v1_CollectionInfo after = describe_rows(fd);
    cr_assert_eq(after.rows, before.rows);
    cr_assert_eq(after.version, before.version, "nothing is half-applied");
    expect_bad_number(fd, "knn", 0, 2, 4);
    expect_bad_number(fd, "similarity", 0, 1, 4);
    expect_bad_number(fd, "similarity_inline", 0, 0, 4);
    expect_bad_number(fd, "similarity_inline", 64, 5, 4);
    expect_bad_number(fd, "score", 0, 1, 4);
    expect_bad_number(fd, "score_inline", 0, 1, 4);
    expect_bad_number(fd, "score_inline", 128, 2, 4);
    expect_bad_number(fd, "norms", 0, 6, 3);
    expect_bad_number(fd, "average", 64, 2, 4);
    expect_alive(fd);
    close(fd);
    scene_close(&s);
}

Test(hostile_requests, weights_and_thresholds_that_are_none)
{
    struct scene s;
    scene_open(&s, NULL);
    scene_make_rows(&s);
    int fd = scene_connect(&s);
    struct sample sample;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++) {
        sample_find("average", &sample);
        memcpy(sample.body + 8, &bad[i], 4);
        send_sample(fd, &sample, 72);
        expect_error(fd, 72, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "weight");
    }
    sample_find("knn", &sample);
    sample.message.knn.threshold = NAN;
    send_sample(fd, &sample, 73);
    expect_error(fd, 73, STATUS_INVALID_ARGUMENT, DETAIL_BAD_THRESHOLD, "threshold");
    sample_find("similarity", &sample);
    sample.message.similarity.threshold = NAN;
    send_sample(fd, &sample, 74);
    expect_error(fd, 74, STATUS_INVALID_ARGUMENT, DETAIL_BAD_THRESHOLD, "threshold");
    expect_alive(fd);
    close(fd);
    scene_close(&s);
}

Test(hostile_requests, k_out_of_range)
{
    struct scene s;
    scene_open(&s, NULL);
    scene_make_rows(&s);
    int fd = scene_connect(&s);
    static const uint32_t bad[] = {0, 16385, 1 << 20, UINT32_MAX};
    struct sample sample;
    for (size_t i = 0; i < 4; i++) {
        sample_find("knn", &sample);
        sample.message.knn.k = bad[i];
        send_sample(fd, &sample, 75);
        expect_error(fd, 75, STATUS_INVALID_ARGUMENT, DETAIL_BAD_K, "k");
        if (!bad[i]) continue; /* all scores */
        sample_find("score", &sample);
        sample.message.score.k = bad[i];
        send_sample(fd, &sample, 76);
        expect_error(fd, 76, STATUS_INVALID_ARGUMENT, DETAIL_BAD_K, "k");
    }
    expect_alive(fd);
    close(fd);
    scene_close(&s);
}

Test(hostile_requests, wrong_dimension)
{
    struct scene s;
    scene_open(&s, NULL);
    scene_make_rows(&s);
    int fd = scene_connect(&s);
    engram_accel_v1_CollectionInfo before = describe_rows(fd);
    struct sample sample; /* 5 x 3 and 5 x 4 floats both fill 128 bytes padded */
    sample_find("upsert", &sample);
    sample.message.upsert.rows.columns = 3;
    sample.body_bytes -= 64;
    memset(sample.body + sample.body_bytes - 4, 0, 4); /* 60 bytes of rows, padded */
    send_sample(fd, &sample, 77);
    expect_error(fd, 77, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION, "3");
    sample_find("knn_plain", &sample); /* 1 x 3 */
    send_sample(fd, &sample, 78);
    expect_error(fd, 78, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION, "3");
    sample_find("similarity", &sample);
    sample.message.similarity.queries.columns = 5;
    send_sample(fd, &sample, 79);
    expect_error(fd, 79, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION, "5");
    sample_find("score", &sample);
    sample.message.score.queries.columns = 8;
    send_sample(fd, &sample, 80);
    expect_error(fd, 80, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION, "8");
    cr_assert_eq(describe_rows(fd).version, before.version);
    sample_find("create", &sample);
    strcpy(sample.message.create.name, "other");
    static const uint32_t bad[] = {0, 16385, UINT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        sample.message.create.dimension = bad[i];
        send_sample(fd, &sample, 81);
        expect_error(fd, 81, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION, "dimension");
    }
    close(fd);
    scene_close(&s);
}

/* ---------------------------------------------------------------- ids and offsets */

Test(hostile_requests, duplicate_ids_in_one_upsert)
{
    struct scene s;
    scene_open(&s, NULL);
    scene_make_rows(&s);
    int fd = scene_connect(&s);
    engram_accel_v1_CollectionInfo before = describe_rows(fd);
    struct sample sample;
    sample_find("upsert", &sample);
    uint64_t ids[5] = {11, 12, 13, 4242, 4242}; /* three that would be new */
    memcpy(sample.body, ids, sizeof ids);
    send_sample(fd, &sample, 82);
    expect_error(fd, 82, STATUS_INVALID_ARGUMENT, DETAIL_DUPLICATE_ID, "4242");
    engram_accel_v1_CollectionInfo after = describe_rows(fd);
    cr_assert_eq(after.rows, before.rows);
    cr_assert_eq(after.version, before.version);
    close(fd);
    scene_close(&s);
}

Test(hostile_requests, unknown_ids_where_they_must_be_known)
{
    struct scene s;
    scene_open(&s, NULL);
    scene_make_rows(&s);
    int fd = scene_connect(&s);
    struct sample sample;
    uint64_t stranger = 777;
    sample_find("score", &sample);
    memcpy(sample.body + 128 + 8, &stranger, 8);
    send_sample(fd, &sample, 83);
    expect_error(fd, 83, STATUS_NOT_FOUND, DETAIL_UNKNOWN_ID, "777");
    sample_find("average_ids", &sample);
    memcpy(sample.body + 64, &stranger, 8);
    send_sample(fd, &sample, 84);
    expect_error(fd, 84, STATUS_NOT_FOUND, DETAIL_UNKNOWN_ID, "777");
    expect_alive(fd);
    close(fd);
    scene_close(&s);
}

Test(hostile_requests, offsets_that_lead_astray)
{
    struct scene s;
    scene_open(&s, NULL);
    scene_make_rows(&s);
    int fd = scene_connect(&s);
    static const uint64_t bad[][3] = {
        {1, 2, 5},          {0, 6, 5}, {0, 2, 4},          {0, 2, 6},
        {0, UINT64_MAX, 5}, {0, 5, 2}, {0, 0, UINT64_MAX},
    };
    struct sample sample;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sample_find("score", &sample);
        memcpy(sample.body + 64, bad[i], sizeof bad[i]);
        send_sample(fd, &sample, 85);
        expect_error(fd, 85, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS, "offsets");
    }
    expect_alive(fd);
    close(fd);
    scene_close(&s);
}

/* So many lists that a worker walks them, not the loop. */
Test(hostile_requests, many_offsets_that_lead_astray)
{
    enum { LISTS = CHECK_OFFSETS_MAX + 10, COLUMNS = 4 };
    struct scene s;
    scene_open(&s, NULL);
    scene_make_rows(&s);
    int fd = scene_connect(&s);
    struct sample sample;
    sample_find("score", &sample);
    uint64_t queries_bytes = frame_align(LISTS * COLUMNS * sizeof(float)),
             offsets_bytes = frame_align((LISTS + 1) * sizeof(uint64_t)),
             bytes = queries_bytes + offsets_bytes + 64;
    char *body = calloc(1, bytes), message[1024];
    float *queries = (float *)body;
    uint64_t *offsets = (uint64_t *)(body + queries_bytes);
    memcpy(body + bytes - 64, sample.body + sample.body_bytes - 64, 64);
    for (int i = 0; i < LISTS * COLUMNS; i++)
        queries[i] = 1;
    sample.message.score.queries.rows = LISTS;
    sample.message.score.offsets.rows = LISTS + 1;
    uint32_t message_bytes = sample_message(&sample, message, sizeof message);
    for (uint64_t bad = 1; bad <= LISTS; bad += bad == 1 ? LISTS - 2 : 1) {
        for (uint64_t i = 0; i <= LISTS; i++)
            offsets[i] = i < 5 ? i : 5;
        offsets[bad] = UINT64_MAX;
        cr_assert(raw_send_frame(fd, sample.kind, bad, message, message_bytes, body, bytes));
        expect_error(fd, bad, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS, "offsets: ");
    }
    expect_alive(fd);
    free(body);
    close(fd);
    scene_close(&s);
}

Test(hostile_requests, filters_and_targets_that_contradict)
{
    struct scene s;
    scene_open(&s, NULL);
    scene_make_rows(&s);
    int fd = scene_connect(&s);
    struct sample sample;
    sample_find("similarity_inline", &sample);
    strcpy(sample.message.similarity.collection, "rows");
    send_sample(fd, &sample, 86);
    expect_error(fd, 86, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE, "rows");
    sample_find("similarity_inline", &sample);
    sample.message.similarity.metric = 0;
    send_sample(fd, &sample, 87);
    expect_error(fd, 87, STATUS_INVALID_ARGUMENT, DETAIL_BAD_METRIC, "metric");
    sample_find("create", &sample);
    sample.message.create.metric = 4;
    send_sample(fd, &sample, 88);
    expect_error(fd, 88, STATUS_INVALID_ARGUMENT, DETAIL_BAD_METRIC, "metric");
    sample_find("score_inline", &sample);
    sample.message.score.metric = 9;
    send_sample(fd, &sample, 89);
    expect_error(fd, 89, STATUS_INVALID_ARGUMENT, DETAIL_BAD_METRIC, "metric");
    expect_alive(fd);
    close(fd);
    scene_close(&s);
}
