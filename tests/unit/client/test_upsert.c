/* Rows that are more than a request may hold: in pieces, with progress, within the daemon's
 * bound. */
#include <stdlib.h>

#include "tests/unit/client/client_rig.h"

TestSuite(upsert, .init = begin_served, .fini = end, .timeout = 900);

static uint64_t progress_at;
static bool count_progress(uint64_t done, uint64_t total, void *user)
{
    cr_assert(done > progress_at && done <= total);
    progress_at = done;
    return !user || done < *(uint64_t *)user;
}

Test(upsert, in_pieces)
{
    enum { N = 20000, D = 256 }; /* 20 MB: five requests */
    float *rows = calloc((size_t)N * D, sizeof *rows);
    uint64_t *many = calloc(N, sizeof *many);
    ea_upsert_counts counts;
    progress_at = 0;
    OK(ea_upsert(client,
                 &(ea_rows){.collection = "rows",
                            .ids = many,
                            .rows = rows,
                            .count = N,
                            .dimension = D,
                            .progress = count_progress},
                 &counts));
    cr_assert_eq(progress_at, N);
    cr_assert_eq(counts.inserted, N);
    cr_assert_eq(counts.version, 7);
    OK(ea_upsert(client, &(ea_rows){.collection = "rows", .dimension = D}, &counts));
    cr_assert_eq(counts.inserted, 0);
    progress_at = 0;
    uint64_t enough = 1;
    cr_assert_eq(ea_upsert(client,
                           &(ea_rows){.collection = "rows",
                                      .ids = many,
                                      .rows = rows,
                                      .count = N,
                                      .dimension = D,
                                      .progress = count_progress,
                                      .user = &enough},
                           &counts),
                 EA_CANCELLED);
    cr_assert(counts.inserted > 0 && counts.inserted <= N);
    OK(ea_ping(client));
    free(rows);
    free(many);
}

Test(upsert, bodies_that_the_daemon_would_not_take)
{
    ea_close(client);
    fake_stop(&daemon_);
    daemon_.body_bytes_max = 4096;
    fake_restart(&daemon_);
    open_client();
    float *rows = calloc(2000, 16);
    uint64_t *many = calloc(2000, 8);
    ea_result r = {0};
    cr_assert_eq(
        ea_knn(
            client,
            &(ea_knn_question){
                .collection = "rows", .queries = rows, .query_count = 2000, .dimension = 4, .k = 1},
            &r),
        EA_RESOURCE_EXHAUSTED);
    cr_assert(!ea_error_retryable(client));
    ea_upsert_counts counts; /* but an upload is cut to fit */
    OK(ea_upsert(
        client,
        &(ea_rows){.collection = "rows", .ids = many, .rows = rows, .count = 2000, .dimension = 4},
        &counts));
    cr_assert_eq(counts.inserted, 2000);
    free(rows);
    free(many);
}
