#include "tests/support/endless.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/support/reference.h"

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

/* The daemon answers this at once, but reads it behind all that was sent before. */
uint64_t endless_arrive(ea_client *c)
{
    ea_stats stats;
    cr_assert_eq(ea_get_stats(c, &stats), EA_OK, "%s", ea_error_text(c));
    return stats.jobs_in_flight - 1; /* but for this one */
}
