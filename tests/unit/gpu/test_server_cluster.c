/* The GPU process's server over the simulated device: the merges of clusterings. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/support/gpu_cluster.h"

static struct completion ask(struct gpu_peer *p, struct order o)
{
    return peer_done(p, peer_order(p, o));
}

static void expect_right(struct gpu_peer *p, struct order o, const struct ask_rows *r)
{
    struct completion c = ask(p, o);
    cr_assert_eq(c.result, RESULT_OK, "dimension %u, %llu rows: result %u", o.run.dimension,
                 (unsigned long long)o.run.list_count, c.result);
    cr_assert(cluster_right(p, &o, r), "dimension %u, %llu rows, rule %u", o.run.dimension,
              (unsigned long long)o.run.list_count, o.run.form);
}

static void expect_forms(struct gpu_peer *p, const struct ask_rows *r)
{
    static const float thresholds[][2] = {{0.1F, 0.9F}, {0.5F, 0.2F}, {-1.0F, -1.0F}, {1.0F, 0.3F}};
    for (size_t i = 0; i < 4; i++)
        for (int average = 0; average < 2; average++)
            for (int way = 0; way < 3; way++) {
                const struct cluster_asked how = {.average = average,
                                                  .timed = average && i % 2,
                                                  .listed = way == 1,
                                                  .brought = way == 2,
                                                  .threshold = thresholds[i][0],
                                                  .threshold_second = thresholds[i][1]};
                expect_right(p, cluster_ask(p, r, &how), r);
            }
}

Test(server_cluster, rows_of_all_shapes, .timeout = 300)
{
    static const uint32_t dimensions[] = {1, 3, 7, 33, 64, 1030};
    static const uint64_t counts[] = {9, 3, 60, 150, 40, 12};
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        struct ask_rows r = ask_make(1, 10 + i, 3, dimensions[i], counts[i], i);
        cr_assert_eq(ask(&p, ask_upload(&p, &r, true, 0, counts[i])).result, RESULT_OK);
        expect_forms(&p, &r);
        ask(&p, ask_forget(&r));
        ask_free(&r);
    }
    peer_close(&p);
}

/* A slow device, whose passes are short. */
Test(server_cluster, in_passes, .timeout = 300)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64 multiply_adds=1", 4);
    struct ask_rows r = ask_make(1, 1, 1, 9, 300, 7);
    cr_assert_eq(ask(&p, ask_upload(&p, &r, true, 0, r.count)).result, RESULT_OK);
    expect_forms(&p, &r);
    ask_free(&r);
    peer_close(&p);
}

/* It ends after the pass that is under way, with what there is until then. */
Test(server_cluster, nobody_wants_it)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct ask_rows r = ask_make(1, 1, 1, 20, 200, 7);
    cr_assert_eq(ask(&p, ask_upload(&p, &r, true, 0, r.count)).result, RESULT_OK);
    const struct cluster_asked how = {.threshold = -1.0F, .threshold_second = -1.0F};
    struct order o = cluster_ask(&p, &r, &how);
    *(uint32_t *)peer_at(&p, o.run.segments) = 1;
    const struct order_cluster *got = peer_at(&p, o.run.out_ids);
    cr_assert_eq(ask(&p, o).result, RESULT_OK);
    cr_assert(!got->ended && got->merges == 0);
    expect_right(&p, cluster_ask(&p, &r, &how), &r);
    ask_free(&r);
    peer_close(&p);
}

Test(server_cluster, bad_rows_and_orders)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct ask_rows r = ask_make(1, 1, 1, 20, 50, 7);
    cr_assert_eq(ask(&p, ask_upload(&p, &r, true, 0, 50)).result, RESULT_OK);
    struct cluster_asked how = {.brought = true, .threshold = 0.2F, .threshold_second = 0.9F};
    struct order brought = cluster_ask(&p, &r, &how);
    ((float *)peer_at(&p, brought.run.rows))[7 * 20 + 3] = INFINITY;
    struct completion c = ask(&p, brought);
    cr_assert(c.result == RESULT_BAD_ROW && c.number == 7, "%u, %llu", c.result,
              (unsigned long long)c.number);
    how = (struct cluster_asked){.average = true, .timed = true, .listed = true, .threshold = 0.5F};
    struct order o = cluster_ask(&p, &r, &how), bad[14];
    for (int i = 0; i < 14; i++)
        bad[i] = o;
    bad[0].run.list_count = 1;
    bad[1].run.positions = PLACE_NONE; /* and fewer than all rows */
    bad[2].run.form = 0;
    bad[3].run.form = 3;
    bad[4].run.threshold = NAN;
    bad[5].run.total = NAN;
    bad[6].run.out_ids = PLACE_NONE;
    bad[7].run.out_ids += 4;
    bad[8].run.weights = UINT64_MAX / 2;
    bad[9].run.row_count = 49;
    bad[10].run.segments = PLACE_NONE;
    bad[11].run.segments += 1;
    bad[12].run.metric = METRIC_DOT;
    bad[13].run.form = ORDER_CLUSTER_CENTROID; /* and times */
    for (int i = 0; i < 14; i++)
        cr_assert_eq(ask(&p, bad[i]).result, RESULT_REFUSED, "case %d", i);
    ((uint32_t *)peer_at(&p, o.run.positions))[5] = 50;
    cr_assert_eq(ask(&p, o).result, RESULT_REFUSED, "a position beyond the rows");
    expect_right(&p, cluster_ask(&p, &r, &how), &r);
    ask_free(&r);
    peer_close(&p);
}
