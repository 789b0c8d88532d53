/* Several requests as one on the simulated device: what each gets is what it gets alone, bit for
 * bit, small and in pieces. */
#include <math.h>

#include "tests/support/reference.h"
#include "tests/unit/gpu/batch_rig.h"
#include "tests/support/sweep.h"

static const enum metric metrics[] = {METRIC_COSINE, METRIC_DOT, METRIC_SQUARED_EUCLIDEAN};

static struct batch b;

static void upload(struct gpu_peer *p, const struct ask_rows *r)
{
    struct order o = ask_upload(p, r, true, 0, r->count);
    cr_assert_eq(peer_done(p, peer_order(p, o)).result, RESULT_OK);
}

static void expect_equal(struct gpu_peer *p)
{
    batch_ask_alone(p, &b);
    struct completion c = peer_done(p, peer_order(p, batch_order(p, &b)));
    cr_assert_eq(c.result, RESULT_OK, "result %u", c.result);
    cr_assert(batch_equal(p, &b), "%u requests, dimension %u", b.count, b.rows->dimension);
}

/* A threshold that some of the rows reach: the score of one of them. */
static void add_threshold(struct gpu_peer *p, struct order_run *run, uint64_t seed)
{
    const float *query = peer_at(p, run->queries);
    const float *row = b.rows->plain + seed % b.rows->count * b.rows->dimension;
    run->has_threshold = 1;
    run->threshold = reference_score((int)run->metric, run->dimension, query, row);
}

static void add_random(struct gpu_peer *p, uint64_t *seed)
{
    static const uint32_t ks[] = {1, 2, 10, 10, 10, 33, 129, 900};
    uint64_t random = sample_random(seed);
    struct order_run *run =
        batch_add(p, &b, random % 7 ? 1 : random / 7 % 6, ks[random / 64 % 8],
                  (enum filter)(random / 512 % 8 < 4 ? random / 512 % 8 : 0), sample_random(seed));
    if (run->query_count && random / 4096 % 3 == 0) add_threshold(p, run, random / 65536);
}

Test(run_batch, gives_each_request_what_it_gets_alone, .timeout = 900)
{
    static const uint32_t dimensions[] = {1, 33, 100, 768, 1100};
    uint64_t seed = 5;
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64 strict=1", 4);
    for (uint32_t i = 0; i < 5; i++) {
        struct ask_rows r = ask_make(1, 1 + i, 3, dimensions[i], 500 + i, 10 + i);
        upload(&p, &r);
        uint64_t used = p.used;
        for (uint32_t round = 0; round < 12; round++) {
            p.used = used;
            batch_init(&b, &r, metrics[round % 3]);
            uint32_t count = 1 + (uint32_t)(sample_random(&seed) % 12);
            for (uint32_t n = 0; n < count; n++)
                add_random(&p, &seed);
            expect_equal(&p);
        }
        ask_free(&r);
    }
    peer_close(&p);
}

Test(run_batch, cuts_at_thresholds_that_all_few_and_no_rows_reach)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64 strict=1", 4);
    struct ask_rows r = ask_make(1, 1, 1, 16, 300, 2);
    upload(&p, &r);
    for (int m = 0; m < 3; m++) {
        static const float thresholds[] = {-INFINITY, INFINITY, 0.0f, -0.0f, 0.25f, 3e38f};
        batch_init(&b, &r, metrics[m]);
        for (int n = 0; n < 6; n++) {
            struct order_run *run = batch_add(&p, &b, 2, 20, FILTER_NONE, 30 + (uint64_t)n);
            run->has_threshold = 1;
            run->threshold = thresholds[n];
            run = batch_add(&p, &b, 1, 300, n % 2 ? FILTER_HALF : FILTER_NONE, 40 + (uint64_t)n);
            add_threshold(&p, run, 70 + (uint64_t)n);
        }
        batch_add(&p, &b, 1, 400, FILTER_NOBODY, 9); /* more than there are, of none */
        expect_equal(&p);
    }
    ask_free(&r);
    peer_close(&p);
}

/* More than SMALL_BYTES, and more than a piece, each way: lines lie across pieces. */
Test(run_batch, moves_large_batches_in_pieces, .timeout = 900)
{
    static const struct {
        uint32_t dimension, requests, queries, k;
    } cases[] = {{100, 256, 4, 3},
                 {1100, 256, 4, 7},
                 {20, 20, 50, 600},
                 {40, 1, 1024, 1},
                 {8, 60, 1, 10001}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n += sweep_stride(2)) {
        struct gpu_peer p = {0};
        peer_open(&p, "vram_mib=1024 strict=1", 4);
        struct ask_rows r = ask_make(1, 1, 1, cases[n].dimension, 700, n);
        upload(&p, &r);
        batch_init(&b, &r, metrics[n % 3]);
        for (uint32_t i = 0; i < cases[n].requests; i++)
            batch_add(&p, &b, cases[n].queries, cases[n].k - i % 3 * (cases[n].k > 2),
                      i % 5 ? FILTER_NONE : FILTER_HALF, i);
        for (uint32_t i = 0; i < b.count; i++)
            cr_assert_eq(peer_done(&p, peer_order(&p, b.alone[i])).result, RESULT_OK);
        cr_assert(ask_right(&p, &b.alone[0], &r) && ask_right(&p, &b.alone[b.count - 1], &r));
        cr_assert_eq(peer_done(&p, peer_order(&p, batch_order(&p, &b))).result, RESULT_OK);
        cr_assert(batch_equal(&p, &b), "case %zu", n);
        ask_free(&r);
        peer_close(&p);
    }
}

/* Bitmaps of more than a piece together. */
Test(run_batch, moves_large_filters_in_pieces, .timeout = 900)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=512 strict=1", 4);
    struct ask_rows r = ask_make(1, 1, 1, 2, 300001, 6);
    upload(&p, &r);
    batch_init(&b, &r, METRIC_DOT);
    for (uint32_t i = 0; i < 130; i++)
        batch_add(&p, &b, 1, 4, i % 8 == 3 ? FILTER_NONE : FILTER_FEW, i);
    for (uint32_t i = 0; i < b.count; i++)
        cr_assert_eq(peer_done(&p, peer_order(&p, b.alone[i])).result, RESULT_OK);
    cr_assert_eq(peer_done(&p, peer_order(&p, batch_order(&p, &b))).result, RESULT_OK);
    cr_assert(batch_equal(&p, &b));
    ask_free(&r);
    peer_close(&p);
}

Test(run_batch, numbers_a_bad_query_through_all_of_them)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=256 strict=1", 4);
    struct ask_rows r = ask_make(1, 1, 1, 100, 50, 4);
    upload(&p, &r);
    for (uint32_t requests = 3; requests <= 200; requests += 197) {
        batch_init(&b, &r, METRIC_DOT);
        for (uint32_t i = 0; i < requests; i++)
            batch_add(&p, &b, 5, 2, FILTER_NONE, i);
        float *late = peer_at(&p, b.alone[requests - 1].run.queries);
        float *middle = peer_at(&p, b.alone[requests / 2].run.queries);
        late[0] = NAN;
        middle[3 * 100 + 99] = INFINITY;
        struct completion c = peer_done(&p, peer_order(&p, batch_order(&p, &b)));
        cr_assert_eq(c.result, RESULT_BAD_QUERY);
        cr_assert_eq(c.number, requests / 2 * 5 + 3);
        middle[3 * 100 + 99] = 0.5f;
        c = peer_done(&p, peer_order(&p, b.order));
        cr_assert_eq(c.result, RESULT_BAD_QUERY);
        cr_assert_eq(c.number, (requests - 1) * 5);
        late[0] = 0.5f;
        batch_ask_alone(&p, &b);
        cr_assert_eq(peer_done(&p, peer_order(&p, b.order)).result, RESULT_OK);
        cr_assert(batch_equal(&p, &b));
    }
    ask_free(&r);
    peer_close(&p);
}

Test(run_batch, counts_what_ran_with_less_and_in_passes)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=32 strict=1", 4); /* 3 MiB for requests */
    struct share_usage *u = &p.share->usage;
    struct ask_rows r = ask_make(1, 1, 1, 8, 4000, 4);
    upload(&p, &r);
    batch_init(&b, &r, METRIC_COSINE);
    for (uint32_t i = 0; i < 10; i++)
        batch_add(&p, &b, 1, 5, FILTER_NONE, i);
    expect_equal(&p);
    cr_assert_eq(atomic_load(&u->shrunk), 0);
    for (uint32_t i = 0; i < 20; i++) /* 32 KiB a list each would be best, and 10 more */
        batch_add(&p, &b, 10, 5, FILTER_NONE, i);
    expect_equal(&p);
    cr_assert_eq(atomic_load(&u->shrunk), 1, "%llu", (unsigned long long)atomic_load(&u->shrunk));
    cr_assert_eq(atomic_load(&u->split), 0);
    struct order o = ask_scores(&p, &r, METRIC_DOT, 100, false, 5);
    cr_assert_eq(peer_done(&p, peer_order(&p, o)).result, RESULT_OK);
    cr_assert_eq(atomic_load(&u->split), 1);
    o = ask_scores(&p, &r, METRIC_DOT, 10, false, 5);
    cr_assert_eq(peer_done(&p, peer_order(&p, o)).result, RESULT_OK);
    cr_assert_eq(atomic_load(&u->split), 1);
    cr_assert_eq(atomic_load(&u->shrunk), 1);
    ask_free(&r);
    peer_close(&p);
}
