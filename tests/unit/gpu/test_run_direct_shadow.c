/* Direct requests through rows in int8: one launch, no copies, the bits that the rows say, and how
 * many of them were scored; on both sides of each limit, and on a device that loses results. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "daemon/gpu/replica.h"
#include "daemon/gpu/sim_probe.h"
#include "tests/support/gpu_ask.h"

static struct gpu_peer peer;
static struct device_ops counted;
static uint64_t through_shadow, other_searches, copies;

/* Counts on the device thread, which waits when the test reads. */
static void count(void *owner, const struct sim_work *w)
{
    (void)owner;
    if (w->kind == WORK_COPY_IN || w->kind == WORK_COPY_OUT) copies++;
    if (w->kind != WORK_KERNEL) return;
    through_shadow += w->call.kernel == KERNEL_SHADOW_DIRECT;
    other_searches += w->call.kernel == KERNEL_DIRECT || w->call.kernel == KERNEL_TOPK ||
                      w->call.kernel == KERNEL_SHADOW_TOPK;
}

static enum device_result counted_open(const struct device_options *options, struct device **out,
                                       struct share_device *info, char *why)
{
    enum device_result result = device_sim.open(options, out, info, why);
    if (!result) sim_probe_watch(*out, count, NULL);
    return result;
}

static void open_with(const char *settings, bool unwatched)
{
    static char sim[200];
    snprintf(sim, sizeof sim, "vram_mib=256 strict=1 latency_us=0 shadow_rows=12000 %s", settings);
    counted = device_sim;
    counted.open = counted_open;
    /* Without sweeps, whose copies would be counted on a machine that is busy for long. */
    peer = (struct gpu_peer){
        .ops = &counted, .unwatched = unwatched, .sweep_after_ns = UINT64_MAX / 2};
    peer_open(&peer, sim, 2);
}

static struct ask_rows upload(uint32_t dimension, uint64_t rows)
{
    struct ask_rows r = ask_make(1, dimension * 100000 + rows, 1, dimension, rows, 5);
    struct completion c = peer_done(&peer, peer_order(&peer, ask_upload(&peer, &r, true, 0, rows)));
    cr_assert_eq(c.result, RESULT_OK);
    peer.used = 4096;
    return r;
}

/* Returns how many rows were scored after a shadow. */
static uint64_t expect_right(const struct ask_rows *r, struct order o, bool by_shadow)
{
    through_shadow = other_searches = copies = 0;
    struct completion c = peer_done(&peer, peer_order(&peer, o));
    cr_assert_eq(c.result, RESULT_OK);
    cr_assert(ask_right(&peer, &o, r), "k %u, %llu rows, dimension %u", o.run.k,
              (unsigned long long)r->count, r->dimension);
    cr_assert_eq(through_shadow, by_shadow, "k %u", o.run.k);
    cr_assert_eq(other_searches, !by_shadow);
    cr_assert(!by_shadow || !copies);
    peer.used = 4096;
    return c.number;
}

static void ask_all(uint32_t dimension, uint64_t rows, bool by_shadow)
{
    static const uint32_t ks[] = {1, 10, 64, 65};
    struct ask_rows r = upload(dimension, rows);
    for (enum metric m = METRIC_COSINE; m <= METRIC_SQUARED_EUCLIDEAN; m++)
        for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
            bool fits = by_shadow && ks[i] <= ORDER_DIRECT_K_MAX;
            struct order o = ask_knn(&peer, &r, m, 1, ks[i], rows + i);
            uint64_t scored = expect_right(&r, o, fits);
            cr_assert(!fits || (scored >= ks[i] && scored <= rows));
            o = ask_knn(&peer, &r, m, 1, ks[i], rows + i);
            o.run.has_threshold = true;
            o.run.threshold = m == METRIC_SQUARED_EUCLIDEAN ? (float)dimension / 3 : 0.05f;
            expect_right(&r, o, fits);
        }
    ask_free(&r);
}

static void ask_one(uint32_t dimension, bool by_shadow)
{
    struct ask_rows r = upload(dimension, 12000);
    expect_right(&r, ask_knn(&peer, &r, METRIC_COSINE, 1, 10, 7), by_shadow);
    ask_free(&r);
}

Test(run_direct_shadow, gives_the_same_bits_on_both_sides_of_each_limit, .timeout = 300)
{
    open_with("", false);
    ask_all(40, 20000, true);
    ask_one(1024, true);
    ask_one(1025, false);
    ask_all(40, 11999, false); /* too few rows for a shadow */
    peer_close(&peer);
    open_with("direct=0", false);
    ask_all(24, 20000, false);
    peer_close(&peer);
}

/* Without watching, an event tells that results have come. */
Test(run_direct_shadow, needs_no_watching, .timeout = 300)
{
    open_with("fail=1+:error@cells", true);
    ask_all(24, 21000, true);
    peer_close(&peer);
}

/* Rows that no bound tells apart are all scored; then some searches do without. */
Test(run_direct_shadow, is_left_alone_where_it_does_not_help, .timeout = 300)
{
    open_with("", false);
    struct ask_rows r = ask_make(1, 1, 1, 24, 20000, 9);
    for (uint64_t i = 1; i < r.count; i++)
        memcpy(r.plain + i * 24, r.plain, 24 * sizeof(float));
    struct order whole = ask_upload(&peer, &r, true, 0, r.count);
    cr_assert_eq(peer_done(&peer, peer_order(&peer, whole)).result, RESULT_OK);
    peer.used = 4096;
    uint64_t scored = expect_right(&r, ask_knn(&peer, &r, METRIC_DOT, 1, 5, 1), true);
    cr_assert_eq(scored, r.count);
    const struct replica_shadow *s = &replica_find(peer.gpu, r.replica)->shadow;
    cr_assert_eq(s->exact_left, 64);
    cr_assert_eq(s->screened, r.count);
    cr_assert_eq(s->passed, r.count);
    cr_assert_eq(expect_right(&r, ask_knn(&peer, &r, METRIC_DOT, 1, 5, 2), false), 0);
    cr_assert_eq(s->exact_left, 63);
    ask_free(&r);
    peer_close(&peer);
}

static void one_fails(const char *settings, enum order_result expected)
{
    open_with(settings, false);
    struct ask_rows r = upload(24, 20000);
    struct order o = ask_knn(&peer, &r, METRIC_DOT, 1, 5, 1);
    cr_assert_eq(peer_done(&peer, peer_order(&peer, o)).result, expected, "%s", settings);
    peer.used = 4096;
    cr_assert(expect_right(&r, ask_knn(&peer, &r, METRIC_DOT, 1, 5, 2), true) > 0);
    ask_free(&r);
    peer_close(&peer);
}

Test(run_direct_shadow, ends_with_an_error_if_its_results_are_lost, .timeout = 300)
{
    one_fails("fail=1:error@cells", RESULT_ERROR);
    one_fails("fail=1:memory@shadow_direct", RESULT_NO_MEMORY);
}

/* As a device whose blocks cannot all start together: the rows are asked. */
Test(run_direct_shadow, is_left_out_if_it_cannot_be_launched, .timeout = 300)
{
    open_with("fail=1:error@shadow_direct", false);
    struct ask_rows r = upload(24, 20000);
    cr_assert_eq(expect_right(&r, ask_knn(&peer, &r, METRIC_DOT, 1, 5, 1), false), 0);
    cr_assert(expect_right(&r, ask_knn(&peer, &r, METRIC_DOT, 1, 5, 2), true) > 0);
    ask_free(&r);
    peer_close(&peer);
}
