#include "tests/support/endless.h"

#include <criterion/criterion.h>
#include <pb_encode.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/job.h"
#include "tests/support/reference.h"
#include "tests/support/scene.h"

void endless_make(struct endless *e, ea_client *c)
{
    enum { VALUES = ENDLESS_ROWS * ENDLESS_DIMENSION, PERIOD = 1 << 16 };
    e->rows = malloc((size_t)VALUES * sizeof *e->rows);
    uint64_t *ids = malloc(ENDLESS_ROWS * sizeof *ids);
    reference_fill(1, e->rows, PERIOD);
    for (size_t i = PERIOD; i < VALUES; i++)
        e->rows[i] = e->rows[i - PERIOD];
    for (uint64_t i = 0; i < ENDLESS_ROWS; i++)
        ids[i] = i;
    cr_assert_eq(ea_collection_create(c, "endless", ENDLESS_DIMENSION, EA_DOT, NULL), EA_OK, "%s",
                 ea_error_text(c));
    cr_assert_eq(ea_upsert(c,
                           &(ea_rows){.collection = "endless",
                                      .ids = ids,
                                      .rows = e->rows,
                                      .count = ENDLESS_ROWS,
                                      .dimension = ENDLESS_DIMENSION},
                           NULL),
                 EA_OK, "%s", ea_error_text(c));
    free(ids);
}

void endless_free(struct endless *e, ea_client *c)
{
    cr_assert_eq(ea_collection_drop(c, "endless"), EA_OK, "%s", ea_error_text(c));
    free(e->rows);
}

uint64_t endless_ask(const struct endless *e, ea_client *c, ea_callback callback, void *user,
                     uint64_t timeout_us)
{
    uint64_t id = 0;
    cr_assert_eq(
        ea_knn_send(
            c,
            &(ea_knn_question){.collection = "endless",
                               .queries = e->rows,
                               .query_count = ENDLESS_QUERIES,
                               .dimension = ENDLESS_DIMENSION,
                               .k = 1},
            &(ea_send_options){.callback = callback, .user = user, .timeout_us = timeout_us}, &id),
        EA_OK, "%s", ea_error_text(c));
    return id;
}

void endless_ask_raw(const struct endless *e, int fd, uint64_t id, uint64_t queries,
                     uint32_t deadline_us)
{
    engram_accel_v1_KnnRequest m = {.k = 1, .has_queries = true};
    uint8_t message[256], head[FRAME_ALIGN * 8] = {0};
    strcpy(m.collection, "endless");
    m.queries = sample_tensor(DTYPE_FLOAT32, queries, ENDLESS_DIMENSION);
    pb_ostream_t out = pb_ostream_from_buffer(message, sizeof message);
    cr_assert(pb_encode(&out, engram_accel_v1_KnnRequest_fields, &m));
    struct frame_header h = {.kind = OPERATION_KNN,
                             .request_id = id,
                             .message_bytes = (uint32_t)out.bytes_written,
                             .deadline_us = deadline_us,
                             .body_bytes = UINT64_C(4) * queries * ENDLESS_DIMENSION};
    frame_write(&h, head);
    memcpy(head + FRAME_HEADER_BYTES, message, h.message_bytes);
    cr_assert(raw_send(fd, head, frame_body_offset(&h)));
    cr_assert(raw_send(fd, e->rows, h.body_bytes));
}

/* The daemon answers this at once, but reads it behind all that was sent before. */
uint64_t endless_arrive(ea_client *c)
{
    ea_stats stats;
    cr_assert_eq(ea_get_stats(c, &stats), EA_OK, "%s", ea_error_text(c));
    return stats.jobs_in_flight - 1; /* but for this one */
}
