/* Direct requests: one query that travels with the launch, results that the kernel stores into
 * pinned memory. Right to the bit, on both sides of every limit; refused where they make no sense;
 * and on a device that loses results, is late with them, or fails. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/gpu/sim_probe.h"
#include "kernels/topk.h"
#include "tests/support/gpu_ask.h"

static struct gpu_peer peer;
static struct device_ops counted;
static uint64_t direct_launches, copies;
static bool unwatched;

/* Counts on the device thread, which has ended or waits when the test reads. */
static void count(void *owner, const struct sim_work *w)
{
    (void)owner;
    direct_launches += w->kind == WORK_KERNEL && device_kernel_is_direct(w->call.kernel);
    copies += w->kind == WORK_COPY_IN || w->kind == WORK_COPY_OUT;
}

static enum device_result counted_open(const struct device_options *options, struct device **out,
                                       struct share_device *info, char *why)
{
    enum device_result result = device_sim.open(options, out, info, why);
    if (!result) sim_probe_watch(*out, count, NULL);
    return result;
}

static void open_peer(const char *sim)
{
    counted = device_sim;
    counted.open = counted_open;
    direct_launches = copies = 0;
    peer = (struct gpu_peer){.ops = &counted, .unwatched = unwatched};
    peer_open(&peer, sim, 2);
    atomic_store(&peer.share->shadows, 0); /* which find the best of many rows sooner */
}

static struct ask_rows upload(uint32_t space, uint64_t replica, uint32_t dimension, uint64_t rows)
{
    struct ask_rows r = ask_make(space, replica, 1, dimension, rows, replica + 5);
    struct completion c = peer_done(&peer, peer_order(&peer, ask_upload(&peer, &r, true, 0, rows)));
    cr_assert_eq(c.result, RESULT_OK);
    copies = 0;
    return r;
}

static enum order_result result_of(struct order o)
{
    return (enum order_result)peer_done(&peer, peer_order(&peer, o)).result;
}

static void expect_right(const struct ask_rows *r, struct order o, bool is_direct)
{
    uint64_t before = direct_launches, copied = copies;
    cr_assert_eq(result_of(o), RESULT_OK);
    cr_assert(ask_right(&peer, &o, r), "operation %u, k %u, %llu rows, dimension %u",
              o.run.operation, o.run.k, (unsigned long long)r->count, r->dimension);
    cr_assert_eq(direct_launches - before, is_direct);
    cr_assert_eq(copies == copied, is_direct);
    peer.used = 4096;
}

/* ---- right ---- */

static void ask_all(uint32_t dimension, uint64_t rows, bool is_direct)
{
    static const uint32_t ks[] = {1, 10, 64, 65};
    struct ask_rows r = upload(1, dimension * 100000 + rows, dimension, rows);
    peer.used = 4096;
    for (int m = METRIC_COSINE; m <= METRIC_SQUARED_EUCLIDEAN; m++) {
        enum metric metric = (enum metric)m;
        for (size_t i = 0; i < 4; i++) {
            bool fits = is_direct && ks[i] <= ORDER_DIRECT_K_MAX;
            struct order o = ask_knn(&peer, &r, metric, 1, ks[i], rows + i);
            expect_right(&r, o, fits);
            o = ask_knn(&peer, &r, metric, 1, ks[i], rows + i);
            o.run.has_threshold = true;
            o.run.threshold = m == METRIC_SQUARED_EUCLIDEAN ? (float)dimension / 3 : 0.05f;
            expect_right(&r, o, fits);
        }
        bool fits = is_direct && rows <= ORDER_DIRECT_SCORES_MAX;
        expect_right(&r, ask_scores(&peer, &r, metric, 1, false, rows), fits);
        expect_right(&r, ask_scores(&peer, &r, metric, 2, false, rows), false);
        expect_right(&r, ask_scores(&peer, &r, metric, 1, true, rows), false);
        expect_right(&r, ask_knn(&peer, &r, metric, 2, 3, rows), false);
    }
    ask_free(&r);
}

Test(run_direct, gives_the_same_bits_on_both_sides_of_each_limit)
{
    static const uint64_t rows[] = {1, 7, 64, 65, 2048, 2049};
    open_peer("vram_mib=128 strict=1");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ask_all(24, rows[i], true);
    ask_all(1, 100, true);
    ask_all(1024, 100, true);
    ask_all(1025, 100, false);
    peer_close(&peer);
}

Test(run_direct, is_left_alone_on_a_device_that_cannot)
{
    open_peer("vram_mib=128 strict=1 direct=0");
    ask_all(24, 100, false);
    peer_close(&peer);
}

/* Without watching, an event tells that results have come. */
Test(run_direct, needs_no_watching)
{
    unwatched = true;
    open_peer("vram_mib=128 strict=1 fail=1+:error@cells");
    ask_all(24, 100, true);
    peer_close(&peer);
}

/* ---- the query beside its order ---- */

static uint64_t order_beside(struct order o, const float *query)
{
    struct order *at = ring_reserve(&peer.orders);
    cr_assert(at);
    memcpy(share_query(peer.share, &peer.orders), query, o.run.dimension * sizeof *query);
    o.run.queries = PLACE_WITH_ORDER;
    *at = o;
    at->token = ++peer.token;
    ring_publish(&peer.orders);
    return peer.token;
}

Test(run_direct, reads_the_query_beside_its_order)
{
    enum { ROUNDS = 3, IN_FLIGHT = SHARE_QUERIES - 1 };
    open_peer("vram_mib=128 strict=1");
    struct ask_rows r = upload(1, 1, 33, 500);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct order o[IN_FLIGHT];
        uint64_t tokens[IN_FLIGHT];
        peer.used = 4096;
        for (uint32_t i = 0; i < IN_FLIGHT; i++) {
            o[i] = ask_knn(&peer, &r, METRIC_COSINE, 1, 5, round * 100 + i);
            tokens[i] = order_beside(o[i], peer_at(&peer, o[i].run.queries));
        }
        for (uint32_t i = 0; i < IN_FLIGHT; i++)
            cr_assert_eq(peer_done(&peer, tokens[i]).result, RESULT_OK);
        for (uint32_t i = 0; i < IN_FLIGHT; i++)
            cr_assert(ask_right(&peer, &o[i], &r));
    }
    cr_assert_eq(direct_launches, ROUNDS * IN_FLIGHT);
    ask_free(&r);
    peer_close(&peer);
}

/* ---- no sense ---- */

/* Each changes one field of a direct order; returns whether there is an n-th. */
static bool spoil(uint32_t n, struct order_run *r)
{
    switch (n) {
    case 0: r->queries = PLACE_NONE; break;
    case 1: r->queries = PEER_HEAP_BYTES - 8; break;
    case 2: r->out_ids = PEER_HEAP_BYTES - 8; break;
    case 3: r->out_scores = PLACE_NONE; break;
    case 4: r->out_counts = PEER_HEAP_BYTES - 2; break;
    case 5: r->k = 0; break;
    case 6: r->row_count++; break;
    case 7: r->dimension++; break;
    case 8: r->dimension = 0; break;
    case 9: r->metric = 9; break;
    case 10: r->operation = RUN_SCORES, r->out_scores = PEER_HEAP_BYTES - 8; break;
    case 11: r->k = ORDER_DIRECT_K_MAX + 1, r->queries = PLACE_WITH_ORDER; break;
    case 12: r->query_count = 2, r->queries = PLACE_WITH_ORDER; break;
    case 13: r->dimension = 4096, r->queries = PLACE_WITH_ORDER; break;
    default: return false;
    }
    return true;
}

Test(run_direct, refuses_what_makes_no_sense)
{
    open_peer("vram_mib=128 strict=1");
    struct ask_rows r = upload(1, 1, 24, 100);
    for (uint32_t n = 0;; n++) {
        struct order o = ask_knn(&peer, &r, METRIC_DOT, 1, 5, 1);
        bool more = spoil(n, &o.run);
        cr_assert_eq(result_of(o), more ? RESULT_REFUSED : RESULT_OK, "%u", n);
        if (!more) break;
    }
    ask_free(&r);
    peer_close(&peer);
}

Test(run_direct, names_the_query_that_is_not_finite)
{
    static const float bad[] = {NAN, INFINITY, 3e38f};
    open_peer("vram_mib=128 strict=1");
    struct ask_rows r = upload(1, 1, 24, 100);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct order o = ask_knn(&peer, &r, METRIC_DOT, 1, 5, 1);
        float *query = peer_at(&peer, o.run.queries);
        query[23] = query[0] = bad[i];
        struct completion c = peer_done(&peer, peer_order(&peer, o));
        cr_assert(c.result == RESULT_BAD_QUERY && c.number == 0);
    }
    struct order o = ask_knn(&peer, &r, METRIC_DOT, 1, 5, 1);
    o.version = 2;
    cr_assert_eq(result_of(o), RESULT_NO_REPLICA);
    ask_free(&r);
    peer_close(&peer);
}

/* ---- on a device that fails ---- */

static void one_fails(const char *sim, enum order_result expected)
{
    open_peer(sim);
    struct ask_rows r = upload(1, 1, 24, 100);
    cr_assert_eq(result_of(ask_knn(&peer, &r, METRIC_DOT, 1, 5, 1)), expected, "%s", sim);
    expect_right(&r, ask_knn(&peer, &r, METRIC_DOT, 1, 5, 2), true);
    expect_right(&r, ask_scores(&peer, &r, METRIC_DOT, 1, false, 2), true);
    ask_free(&r);
    peer_close(&peer);
}

Test(run_direct, ends_with_an_error_if_its_results_are_lost)
{
    one_fails("vram_mib=128 strict=1 fail=1:error@cells", RESULT_ERROR);
}

Test(run_direct, ends_with_an_error_if_it_cannot_be_launched)
{
    one_fails("vram_mib=128 strict=1 fail=1:error@direct", RESULT_ERROR);
    one_fails("vram_mib=128 strict=1 fail=1:memory@direct", RESULT_NO_MEMORY);
}

/* Later than results are watched for: the event behind them tells. */
Test(run_direct, waits_for_results_that_are_late)
{
    open_peer("vram_mib=128 strict=1 latency_us=20000");
    struct ask_rows r = upload(1, 1, 24, 100);
    expect_right(&r, ask_knn(&peer, &r, METRIC_DOT, 1, 5, 1), true);
    ask_free(&r);
    peer_close(&peer);
}

static void breaks(const char *sim)
{
    open_peer(sim);
    struct ask_rows r = upload(1, 1, 24, 100);
    struct completion c;
    peer_order(&peer, ask_knn(&peer, &r, METRIC_DOT, 1, 5, 1));
    while (peer_next(&peer, &c))
        cr_assert_neq(c.result, RESULT_OK);
    cr_assert_eq(atomic_load(&peer.share->state), SHARE_BROKEN, "%s", sim);
    ask_free(&r);
    peer_close(&peer);
}

Test(run_direct, sees_a_device_that_fails_for_good)
{
    breaks("vram_mib=128 fail=1:sticky@direct");
    breaks("vram_mib=128 fail=1:sticky@cells");
}
