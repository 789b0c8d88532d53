/* The GPU process's server over the simulated device: cues completed by an attractor. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/support/gpu_engine.h"

static struct completion ask(struct gpu_peer *p, struct order o)
{
    return peer_done(p, peer_order(p, o));
}

/* W and the dentate matrix in two orders, as the front sends them. */
static void upload(struct gpu_peer *p, const struct ask_engine *e)
{
    struct order first = engine_upload(p, e, true, e->dimension, e->dimension * 10u);
    first.version = 0;
    cr_assert_eq(ask(p, first).result, RESULT_OK);
    cr_assert_eq(ask(p, engine_upload(p, e, false, 0, e->dimension)).result, RESULT_OK);
}

static void expect_right(struct gpu_peer *p, struct order o, const struct ask_engine *e,
                         const struct ask_rows *r)
{
    struct completion c = ask(p, o);
    cr_assert_eq(c.result, RESULT_OK, "dimension %u, %llu cues: result %u", o.run.dimension,
                 (unsigned long long)o.run.query_count, c.result);
    cr_assert(engine_right(p, &o, e, r), "dimension %u, %llu cues", o.run.dimension,
              (unsigned long long)o.run.query_count);
}

Test(server_engine, cues_of_all_shapes)
{
    static const uint32_t dimensions[] = {1, 2, 7, 32, 33, 100, 130};
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=256", 4);
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        struct ask_engine e = engine_make(1, 10 + i, 3, dimensions[i]);
        struct ask_rows r = ask_make(1, 100 + i, 5, dimensions[i], 30, i);
        upload(&p, &e);
        cr_assert_eq(ask(&p, ask_upload(&p, &r, true, 0, 30)).result, RESULT_OK);
        for (int form = 0; form < 4; form++) {
            struct ask_rows *stored = form & 1 ? &r : NULL;
            expect_right(&p, engine_ask(&p, &e, stored, 1, form & 2, i), &e, stored);
            expect_right(&p, engine_ask(&p, &e, stored, 13, form & 2, i), &e, stored);
        }
        ask(&p, ask_forget(&r));
        ask_free(&r);
        engine_free(&e);
    }
    peer_close(&p);
}

/* More cues than fit at once: passes, one after the other. */
Test(server_engine, in_passes)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=16", 4);
    struct ask_engine e = engine_make(1, 1, 1, 100);
    struct ask_rows r = ask_make(1, 2, 1, 100, 40, 7);
    upload(&p, &e);
    cr_assert_eq(ask(&p, ask_upload(&p, &r, true, 0, 40)).result, RESULT_OK);
    expect_right(&p, engine_ask(&p, &e, &r, 400, true, 1), &e, &r);
    cr_assert_gt(atomic_load(&p.share->usage.split), 0);
    ask_free(&r);
    engine_free(&e);
    peer_close(&p);
}

/* Other weights, without the dentate matrix; a request of a version that is not there. */
Test(server_engine, weights_change)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct ask_engine e = engine_make(1, 1, 1, 50);
    upload(&p, &e);
    expect_right(&p, engine_ask(&p, &e, NULL, 9, false, 1), &e, NULL);
    engine_change(&e, 2, 77);
    cr_assert_eq(ask(&p, engine_ask(&p, &e, NULL, 9, false, 1)).result, RESULT_NO_REPLICA);
    cr_assert_eq(ask(&p, engine_upload(&p, &e, false, 0, 50)).result, RESULT_OK);
    expect_right(&p, engine_ask(&p, &e, NULL, 9, false, 1), &e, NULL);
    engine_free(&e);
    peer_close(&p);
}

/* A cue that is none, or of which too little is known: BAD_ROW, with its number. */
Test(server_engine, bad_cues)
{
    enum { D = 20 };
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct ask_engine e = engine_make(1, 1, 1, D);
    upload(&p, &e);
    struct order o = engine_ask(&p, &e, NULL, 4, true, 1);
    ((float *)peer_at(&p, o.run.queries))[D + 1] = NAN; /* not known */
    expect_right(&p, o, &e, NULL);
    ((float *)peer_at(&p, o.run.queries))[2 * D + 4] = NAN;
    struct completion c = ask(&p, o);
    cr_assert(c.result == RESULT_BAD_ROW && c.number == 2, "%u, %llu", c.result,
              (unsigned long long)c.number);
    memset((char *)peer_at(&p, o.run.weights) + D, 0, D - 5);
    c = ask(&p, o);
    cr_assert(c.result == RESULT_BAD_ROW && c.number == 1, "%u, %llu", c.result,
              (unsigned long long)c.number);
    engine_free(&e);
    peer_close(&p);
}

static void expect_refused(struct gpu_peer *p, struct order o)
{
    cr_assert_eq(ask(p, o).result, RESULT_REFUSED);
}

/* Orders that make no sense, and replicas that are taken for each other. */
Test(server_engine, bad_orders)
{
    enum { D = 20 };
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct ask_engine e = engine_make(1, 1, 1, D);
    struct ask_rows r = ask_make(1, 2, 1, D, 11 * D, 7);
    upload(&p, &e);
    cr_assert_eq(ask(&p, ask_upload(&p, &r, true, 0, 11 * D)).result, RESULT_OK);
    struct order o = engine_ask(&p, &e, &r, 4, true, 1), bad = o;
    bad.run.k = 0, expect_refused(&p, bad);
    bad.run.k = D + 1, expect_refused(&p, bad);
    bad = o, bad.run.list_count = 3, expect_refused(&p, bad);
    bad = o, bad.run.weights = UINT64_MAX / 2, expect_refused(&p, bad);
    bad = o, bad.run.queries = UINT64_MAX / 2, expect_refused(&p, bad);
    bad = o, bad.run.out_ids = PLACE_NONE, expect_refused(&p, bad);
    bad = o, bad.run.out_scores = PLACE_NONE, expect_refused(&p, bad);
    bad = o, bad.run.row_count = 11 * D - 1, expect_refused(&p, bad);
    bad = o, bad.run.query_count = 0, expect_refused(&p, bad);
    bad = o, bad.run.other.row_count = 3, expect_refused(&p, bad);
    bad = o, bad.replica = r.replica, bad.version = r.version, expect_refused(&p, bad);
    bad = o, bad.other_replica = e.replica, bad.other_version = e.version;
    expect_refused(&p, bad);
    bad = ask_knn(&p, &r, METRIC_DOT, 2, 3, 1);
    bad.replica = e.replica, bad.version = e.version, expect_refused(&p, bad);
    expect_right(&p, o, &e, &r);
    bad = engine_upload(&p, &e, false, 0, D);
    bad.upload.bare = 0, expect_refused(&p, bad); /* without ids */
    ask_free(&r);
    engine_free(&e);
    peer_close(&p);
}
