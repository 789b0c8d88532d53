/* The GPU process's server over the simulated device: rows that come with the order. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/support/gpu_ask.h"

static const uint32_t dimensions[] = {1, 31, 32, 100, 1025};
static const enum metric metrics[] = {METRIC_COSINE, METRIC_DOT, METRIC_SQUARED_EUCLIDEAN};

static struct completion ask(struct gpu_peer *p, struct order o)
{
    return peer_done(p, peer_order(p, o));
}

static void expect_right(struct gpu_peer *p, const struct ask_rows *r, struct order o)
{
    struct completion c = ask(p, o);
    cr_assert_eq(c.result, RESULT_OK, "operation %u, dimension %u, %llu rows: result %u",
                 o.run.operation, r->dimension, (unsigned long long)r->count, c.result);
    cr_assert(ask_right(p, &o, r), "operation %u, dimension %u, %llu rows, %llu queries",
              o.run.operation, r->dimension, (unsigned long long)r->count,
              (unsigned long long)o.run.query_count);
}

/* Every operation that takes such rows. */
static void expect_all_right(struct gpu_peer *p, const struct ask_rows *r, uint64_t queries)
{
    for (int m = 0; m < 3; m++) {
        struct order scores = ask_scores(p, r, metrics[m], queries, false, 7);
        struct order lists = ask_listed(p, r, metrics[m], queries, r->count, true, 8);
        expect_right(p, r, ask_bring(p, r, scores));
        expect_right(p, r, ask_bring(p, r, lists));
    }
    expect_right(p, r, ask_bring(p, r, ask_average(p, r, r->count, 9)));
    expect_right(p, r, ask_norms(p, r));
}

Test(server_rows, every_shape)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    for (size_t d = 0; d < sizeof dimensions / sizeof *dimensions; d++)
        for (uint64_t rows = 1; rows <= 301; rows += 300) {
            struct ask_rows r = ask_make(1, 0, 0, dimensions[d], rows, rows + d);
            memset(r.plain, 0, r.dimension * sizeof(float)); /* a row without a direction */
            expect_all_right(&p, &r, 1);
            expect_all_right(&p, &r, 5);
            ask_free(&r);
        }
    peer_close(&p);
}

Test(server_rows, in_pieces_and_passes)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=256", 4);
    /* 8 MiB of rows; 300 queries' scores are more than a quarter of the memory for requests. */
    struct ask_rows r = ask_make(2, 0, 0, 96, 20000, 3);
    expect_all_right(&p, &r, 2);
    expect_right(&p, &r, ask_bring(&p, &r, ask_scores(&p, &r, METRIC_COSINE, 300, false, 7)));
    cr_assert_gt(atomic_load(&p.share->usage.split), 0);
    ask_free(&r);
    peer_close(&p);
}

Test(server_rows, none)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct ask_rows r = ask_make(1, 0, 0, 40, 0, 3);
    expect_right(&p, &r, ask_norms(&p, &r));
    struct order average = ask_norms(&p, &r);
    average.run.operation = RUN_AVERAGE;
    average.run.weights = average.run.rows;
    average.run.out_scores = peer_take(&p, 40 * sizeof(float));
    expect_right(&p, &r, average);
    expect_right(&p, &r, ask_bring(&p, &r, ask_scores(&p, &r, METRIC_DOT, 3, false, 7)));
    ask_free(&r);
    peer_close(&p);
}

/* Where a bad row stands, and how: in few rows, which travel as one copy, and in many. */
Test(server_rows, name_the_first_bad_one)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=256", 4);
    for (uint64_t rows = 20; rows <= 20000; rows += 19980) {
        struct ask_rows r = ask_make(1, 0, 0, 96, rows, 3);
        struct order all[] = {
            ask_bring(&p, &r, ask_scores(&p, &r, METRIC_SQUARED_EUCLIDEAN, 2, false, 7)),
            ask_bring(&p, &r, ask_listed(&p, &r, METRIC_DOT, 2, rows, true, 8)),
            ask_bring(&p, &r, ask_average(&p, &r, rows, 9)),
            ask_norms(&p, &r),
        };
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            float *at = peer_at(&p, all[i].run.rows);
            at[(rows - 1) * 96 + 95] = NAN;
            at[(rows - 3) * 96] = 3e38f;
            struct completion c = ask(&p, all[i]);
            cr_assert_eq(c.result, RESULT_BAD_ROW, "order %u: %u", (unsigned)i, c.result);
            cr_assert_eq(c.number, rows - 3);
            if (!all[i].run.query_count) continue;
            ((float *)peer_at(&p, all[i].run.queries))[96] = INFINITY; /* that goes first */
            c = ask(&p, all[i]);
            cr_assert_eq(c.result, RESULT_BAD_QUERY);
            cr_assert_eq(c.number, 1);
        }
        ask_free(&r);
    }
    peer_close(&p);
}

Test(server_rows, that_never_fit_are_out_of_memory)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4); /* 6 MiB of it for requests */
    struct ask_rows r = ask_make(1, 0, 0, 1024, 2000, 3);
    cr_assert_eq(ask(&p, ask_norms(&p, &r)).result, RESULT_NO_MEMORY);
    ask_free(&r);
    r = ask_make(1, 0, 0, 1024, 20, 3);
    expect_all_right(&p, &r, 1);
    ask_free(&r);
    peer_close(&p);
}

Test(server_rows, refuses_what_makes_no_sense)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct ask_rows r = ask_make(1, 0, 0, 32, 50, 3);
    struct order sound = ask_bring(&p, &r, ask_average(&p, &r, 50, 9)), o = sound;
    o.replica = 1;
    cr_assert_eq(ask(&p, o).result, RESULT_REFUSED);
    o = sound;
    o.run.list_count = 49;
    cr_assert_eq(ask(&p, o).result, RESULT_REFUSED);
    o = sound;
    o.run.positions = o.run.rows;
    cr_assert_eq(ask(&p, o).result, RESULT_REFUSED);
    o = sound;
    o.run.rows = PEER_HEAP_BYTES - 64;
    cr_assert_eq(ask(&p, o).result, RESULT_REFUSED);
    o = sound;
    o.run.operation = RUN_KNN;
    o.run.k = 1;
    cr_assert_eq(ask(&p, o).result, RESULT_REFUSED);
    o = ask_norms(&p, &r);
    o.run.rows = PLACE_NONE;
    cr_assert_eq(ask(&p, o).result, RESULT_NO_REPLICA);
    o = ask_bring(&p, &r, ask_scores(&p, &r, METRIC_DOT, 1, true, 7));
    cr_assert_eq(ask(&p, o).result, RESULT_REFUSED); /* ids of rows that have none */
    expect_right(&p, &r, sound);
    ask_free(&r);
    peer_close(&p);
}
