/* The GPU process's server over the simulated device: means and covariances. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/support/gpu_covariance.h"

static struct completion ask(struct gpu_peer *p, struct order o)
{
    return peer_done(p, peer_order(p, o));
}

static void expect_right(struct gpu_peer *p, struct order o, const struct ask_rows *r)
{
    struct completion c = ask(p, o);
    cr_assert_eq(c.result, RESULT_OK, "dimension %u, %llu rows: result %u", o.run.dimension,
                 (unsigned long long)o.run.list_count, c.result);
    cr_assert(covariance_right(p, &o, r), "dimension %u, %llu rows", o.run.dimension,
              (unsigned long long)o.run.list_count);
}

static void expect_forms(struct gpu_peer *p, const struct ask_rows *r)
{
    for (int weighted = 0; weighted < 2; weighted++) {
        expect_right(p, covariance_ask(p, r, false, weighted, false), r);
        expect_right(p, covariance_ask(p, r, true, weighted, false), r);
        expect_right(p, covariance_ask(p, r, false, weighted, true), r);
    }
}

Test(server_covariance, rows_of_all_shapes, .timeout = 300)
{
    static const uint32_t dimensions[] = {1, 7, 33, 64, 65, 200};
    static const uint64_t counts[] = {40, 9000, 4096, 300, 4097, 60};
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=256", 4);
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        struct ask_rows r = ask_make(1, 10 + i, 3, dimensions[i], counts[i], i);
        cr_assert_eq(ask(&p, ask_upload(&p, &r, true, 0, counts[i])).result, RESULT_OK);
        expect_forms(&p, &r);
        ask(&p, ask_forget(&r));
        ask_free(&r);
    }
    peer_close(&p);
}

/* A slow device, whose passes have one block and some tiles. */
Test(server_covariance, in_passes, .timeout = 300)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=256 multiply_adds=1", 4);
    struct ask_rows narrow = ask_make(1, 1, 1, 9, 20000, 7);
    struct ask_rows wide = ask_make(1, 2, 1, 1100, 5, 7);
    cr_assert_eq(ask(&p, ask_upload(&p, &narrow, true, 0, narrow.count)).result, RESULT_OK);
    cr_assert_eq(ask(&p, ask_upload(&p, &wide, true, 0, wide.count)).result, RESULT_OK);
    expect_forms(&p, &narrow);
    expect_right(&p, covariance_ask(&p, &wide, false, true, false), &wide);
    ask_free(&narrow), ask_free(&wide);
    peer_close(&p);
}

Test(server_covariance, bad_rows_and_orders)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct ask_rows r = ask_make(1, 1, 1, 20, 50, 7);
    cr_assert_eq(ask(&p, ask_upload(&p, &r, true, 0, 50)).result, RESULT_OK);
    struct order brought = covariance_ask(&p, &r, false, false, true);
    ((float *)peer_at(&p, brought.run.rows))[7 * 20 + 3] = INFINITY;
    struct completion c = ask(&p, brought);
    cr_assert(c.result == RESULT_BAD_ROW && c.number == 7, "%u, %llu", c.result,
              (unsigned long long)c.number);
    struct order o = covariance_ask(&p, &r, true, true, false), bad[10];
    for (int i = 0; i < 10; i++)
        bad[i] = o;
    bad[0].run.list_count = 1;
    bad[1].run.positions = PLACE_NONE; /* and fewer than all rows */
    bad[2].run.weight_total = 0;
    bad[3].run.divisor = -1;
    bad[4].run.divisor = NAN;
    bad[5].run.out_scores = PLACE_NONE;
    bad[6].run.out_ids = UINT64_MAX / 2;
    bad[7].run.weights = UINT64_MAX / 2;
    bad[8].run.row_count = 49;
    bad[9].run.query_count = 1;
    for (int i = 0; i < 10; i++)
        cr_assert_eq(ask(&p, bad[i]).result, RESULT_REFUSED, "case %d", i);
    ((uint32_t *)peer_at(&p, o.run.positions))[5] = 50;
    cr_assert_eq(ask(&p, o).result, RESULT_REFUSED, "a position beyond the rows");
    expect_right(&p, covariance_ask(&p, &r, true, true, false), &r);
    ask_free(&r);
    peer_close(&p);
}
