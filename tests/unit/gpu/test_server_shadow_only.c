/* The GPU process's server with replicas that have no rows, only their codes: the k best are those
 * of the rows, which stay in the heap; what the codes do not tell apart is left to the CPU. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/gpu/replica.h"
#include "daemon/gpu/tasks.h"
#include "tests/support/gpu_ask.h"
#include "tests/unit/gpu/batch_rig.h"

enum { ROWS = 10000, DIMENSION = 96, EACH = 512, K = 5 };

/* A collection, and where its rows are in the heap. */
struct rig {
    struct gpu_peer p;
    struct ask_rows r;
    struct ask_host host;
};

static void open_with(struct rig *g, const char *settings)
{
    static char sim[200];
    snprintf(sim, sizeof sim, "latency_us=0 granularity_kib=16 strict=1 shadow_rows=1000 %s",
             settings);
    *g = (struct rig){0};
    peer_open(&g->p, sim, 2);
}

static uint64_t result_of(struct rig *g, struct order o)
{
    return peer_done(&g->p, peer_order(&g->p, o)).result;
}

/* As pieces of up to 2,000 rows. */
static uint64_t upload(struct rig *g, bool fresh, uint64_t first, uint64_t count)
{
    uint64_t result = RESULT_OK, version = g->r.version, each = 2000;
    for (uint64_t at = first; result == RESULT_OK; at += each, fresh = false) {
        uint64_t left = first + count - at, n = left < each ? left : each;
        struct order o = ask_upload_codes(&g->p, &g->r, fresh, at, n);
        o.version = n == left ? version : 0;
        result = result_of(g, o);
        if (n == left) break;
    }
    g->host = ask_lay(&g->p, &g->r, EACH);
    return result;
}

static void make(struct rig *g, const char *settings)
{
    open_with(g, settings);
    g->r = ask_make(1, 1, 1, DIMENSION, ROWS, 1);
    cr_assert_eq(upload(g, true, 0, ROWS), RESULT_OK);
}

static void finish(struct rig *g)
{
    ask_free(&g->r);
    peer_close(&g->p);
    cr_assert_eq(g->p.result, 0);
}

static struct order question(struct rig *g, enum metric metric, uint64_t queries, uint32_t k)
{
    struct order o = ask_knn(&g->p, &g->r, metric, queries, k, g->r.version + queries);
    ask_from(&o, g->host);
    return o;
}

/* Asks, checks, and returns how many rows were scored. */
static uint64_t ask_best(struct rig *g, enum metric metric, uint64_t queries, uint32_t k)
{
    struct order o = question(g, metric, queries, k);
    struct completion c = peer_done(&g->p, peer_order(&g->p, o));
    cr_assert_eq(c.result, RESULT_OK, "%u", c.result);
    cr_assert(ask_right(&g->p, &o, &g->r), "%llu queries", (unsigned long long)queries);
    return c.number;
}

static void next_version(struct rig *g, uint64_t first, uint64_t count, uint64_t rows)
{
    struct ask_rows *r = &g->r;
    struct ask_rows next =
        ask_make(r->space, r->replica, r->version + 1, r->dimension, rows, r->version + 77);
    uint64_t most = r->count < rows ? r->count : rows;
    for (uint64_t i = 0; i < most; i++) {
        if (i >= first && i < first + count) continue;
        memcpy(next.plain + i * DIMENSION, r->plain + i * DIMENSION, DIMENSION * sizeof(float));
        next.ids[i] = r->ids[i];
    }
    ask_free(r);
    *r = next;
}

/* Rows [first, first + count) become others, and the collection has `rows`. */
static void change(struct rig *g, uint64_t first, uint64_t count, uint64_t rows)
{
    next_version(g, first, count, rows);
    cr_assert_eq(upload(g, false, first, count), RESULT_OK);
}

Test(server_shadow_only, finds_what_the_rows_say_through_writes, .timeout = 300)
{
    struct rig g;
    make(&g, "vram_mib=5"); /* of which replicas have three: rows alone have four */
    cr_assert_eq(result_of(&g, ask_upload(&g.p,
                                          &(struct ask_rows){.space = 1,
                                                             .replica = 9,
                                                             .version = 1,
                                                             .dimension = DIMENSION,
                                                             .count = ROWS,
                                                             .plain = g.r.plain,
                                                             .ids = g.r.ids},
                                          true, 0, ROWS)),
                 RESULT_NO_MEMORY);
    cr_assert_eq(upload(&g, true, 0, ROWS), RESULT_OK);
    for (enum metric m = METRIC_COSINE; m <= METRIC_SQUARED_EUCLIDEAN; m++) {
        uint64_t passed = ask_best(&g, m, 1, K);
        cr_assert(passed >= K && passed < ROWS / 8, "%llu", (unsigned long long)passed);
        ask_best(&g, m, 3, 1);
        ask_best(&g, m, 40, K);
    }
    ask_best(&g, METRIC_DOT, 1, 200);
    change(&g, 700, 20, ROWS);
    ask_best(&g, METRIC_DOT, 1, K);
    change(&g, ROWS, 400, ROWS + 400); /* it grows */
    ask_best(&g, METRIC_COSINE, 1, K);
    change(&g, 5, 1, ROWS - 300); /* and shrinks */
    ask_best(&g, METRIC_COSINE, 7, K);
    finish(&g);
}

Test(server_shadow_only, takes_a_quarter_of_the_memory, .timeout = 300)
{
    struct rig g;
    open_with(&g, "");
    g.r = ask_make(1, 1, 1, 768, 4000, 1);
    cr_assert_eq(upload(&g, true, 0, 4000), RESULT_OK);
    uint64_t bytes = replica_bytes(replica_find(g.p.gpu, 1)), rows = 4000 * 768 * sizeof(float);
    cr_assert(bytes > rows / 4 && bytes < rows * 28 / 100, "%llu of %llu",
              (unsigned long long)bytes, (unsigned long long)rows);
    ask_best(&g, METRIC_COSINE, 2, K);
    finish(&g);
}

Test(server_shadow_only, takes_filters_and_thresholds, .timeout = 300)
{
    struct rig g;
    make(&g, "");
    for (enum metric m = METRIC_COSINE; m <= METRIC_SQUARED_EUCLIDEAN; m++)
        for (enum filter f = FILTER_NONE; f <= FILTER_NOBODY; f++) {
            struct order o = question(&g, m, 3, 20);
            if (f) o.run.allowed = batch_bitmap(&g.p, ROWS, f, 7);
            o.run.has_threshold = f != FILTER_HALF;
            o.run.threshold = m == METRIC_COSINE ? 0.2f : m == METRIC_DOT ? 9.0f : 55.0f;
            cr_assert_eq(result_of(&g, o), RESULT_OK);
            cr_assert(ask_right(&g.p, &o, &g.r), "metric %d, filter %d", (int)m, (int)f);
        }
    finish(&g);
}

Test(server_shadow_only, answers_batches, .timeout = 300)
{
    struct rig g;
    static struct batch b;
    for (int slow = 0; slow < 2; slow++) { /* which has passes of 16 queries */
        make(&g, slow ? "multiply_adds=1" : "");
        batch_init(&b, &g.r, METRIC_COSINE);
        batch_add(&g.p, &b, 3, 4, FILTER_NONE, 1);
        batch_add(&g.p, &b, 1, 30, FILTER_HALF, 2);
        batch_add(&g.p, &b, 50, 7, FILTER_NONE, 3)->has_threshold = 1;
        batch_add(&g.p, &b, 1, 1, FILTER_NONE, 4);
        b.alone[2].run.threshold = 0.3f;
        for (uint32_t i = 0; i < b.count; i++) {
            ask_from(&b.alone[i], g.host);
            cr_assert_eq(result_of(&g, b.alone[i]), RESULT_OK);
            cr_assert(ask_right(&g.p, &b.alone[i], &g.r));
        }
        struct order o = batch_order(&g.p, &b);
        ask_from(&o, g.host);
        cr_assert_eq(result_of(&g, o), RESULT_OK);
        cr_assert(batch_equal(&g.p, &b));
        finish(&g);
    }
}

/* All rows are equal: no bound tells them apart, and for a while nobody asks. */
Test(server_shadow_only, leaves_to_the_cpu_what_it_cannot_tell_apart, .timeout = 300)
{
    struct rig g;
    open_with(&g, "");
    g.r = ask_make(1, 1, 1, DIMENSION, ROWS, 9);
    for (uint64_t i = 1; i < ROWS; i++)
        memcpy(g.r.plain + i * DIMENSION, g.r.plain, DIMENSION * sizeof(float));
    cr_assert_eq(upload(&g, true, 0, ROWS), RESULT_OK);
    const struct replica_shadow *s = &replica_find(g.p.gpu, 1)->shadow;
    cr_assert_eq(result_of(&g, question(&g, METRIC_COSINE, 7, K)), RESULT_NO_MEMORY);
    cr_assert_eq(s->exact_left, 64);
    change(&g, 0, ROWS, ROWS); /* now they differ, which nobody has seen yet */
    for (int i = 0; i < 64; i++)
        cr_assert_eq(result_of(&g, question(&g, METRIC_COSINE, 1, K)), RESULT_NO_MEMORY);
    ask_best(&g, METRIC_COSINE, 1, K);
    finish(&g);
}

/* Rows that the codes do not tell apart, more than a query among several may list, are asked for
 * again, alone. */
Test(server_shadow_only, asks_some_queries_again, .timeout = 300)
{
    struct rig g;
    for (int slow = 0; slow < 2; slow++) {
        open_with(&g, slow ? "multiply_adds=1" : "");
        g.r = ask_make(1, 1, 1, DIMENSION, ROWS, 4);
        for (uint64_t i = 0; i < 900; i++)
            for (uint32_t d = 0; d < DIMENSION; d++)
                g.r.plain[i * DIMENSION + d] = g.r.plain[d] * (1 + 1e-6f * (float)(i % 7));
        cr_assert_eq(upload(&g, true, 0, ROWS), RESULT_OK);
        struct order o = question(&g, METRIC_COSINE, 50, K);
        for (uint64_t q = 13; q < 50; q += 36) /* which are near them */
            memcpy((float *)peer_at(&g.p, o.run.queries) + q * DIMENSION, g.r.plain,
                   DIMENSION * sizeof(float));
        struct completion c = peer_done(&g.p, peer_order(&g.p, o));
        cr_assert_eq(c.result, RESULT_OK);
        cr_assert_geq(c.number, 2 * 900);
        cr_assert(ask_right(&g.p, &o, &g.r));
        finish(&g);
    }
}

Test(server_shadow_only, refuses_nonsense, .timeout = 300)
{
    struct rig g;
    make(&g, "");
    struct order o = question(&g, METRIC_COSINE, 1, K);
    o.run.host_rows = PLACE_NONE;
    cr_assert_eq(result_of(&g, o), RESULT_REFUSED);
    o.run.host_rows = PEER_HEAP_BYTES - 8;
    cr_assert_eq(result_of(&g, o), RESULT_REFUSED);
    ask_from(&o, g.host);
    o.run.host_segment_rows = 0;
    cr_assert_eq(result_of(&g, o), RESULT_REFUSED);
    ask_from(&o, g.host);
    o.run.out_ids = PEER_HEAP_BYTES;
    cr_assert_eq(result_of(&g, o), RESULT_REFUSED);
    o = question(&g, METRIC_COSINE, 1, K);
    uint64_t *places = peer_at(&g.p, g.host.places);
    for (uint64_t i = 0; i < ROWS / EACH + 1; i++)
        places[i] = i % 2 ? UINT64_MAX - 63 : PEER_HEAP_BYTES;
    cr_assert_eq(result_of(&g, o), RESULT_REFUSED);
    g.host = ask_lay(&g.p, &g.r, EACH);
    cr_assert_eq(result_of(&g, ask_scores(&g.p, &g.r, METRIC_DOT, 2, false, 1)), RESULT_REFUSED);
    cr_assert_eq(result_of(&g, ask_average(&g.p, &g.r, 10, 1)), RESULT_REFUSED);
    ask_best(&g, METRIC_COSINE, 1, K);
    /* it gets no rows, and none behind rows that it has not seen */
    cr_assert_eq(result_of(&g, ask_upload(&g.p, &g.r, false, 0, 10)), RESULT_REFUSED);
    cr_assert_eq(upload(&g, true, 0, ROWS), RESULT_OK);
    next_version(&g, ROWS, 600, ROWS + 600);
    cr_assert_eq(result_of(&g, ask_upload_codes(&g.p, &g.r, false, ROWS + 300, 300)), RESULT_ERROR);
    cr_assert_eq(result_of(&g, question(&g, METRIC_DOT, 1, K)), RESULT_NO_REPLICA);
    cr_assert_eq(upload(&g, true, 0, ROWS + 600), RESULT_OK);
    ask_best(&g, METRIC_DOT, 1, K);
    finish(&g);
}

Test(server_shadow_only, is_there_only_where_it_is_wanted, .timeout = 300)
{
    struct rig g;
    make(&g, "");
    atomic_store(&g.p.share->shadows, 0);
    g.r.replica = 2;
    cr_assert_eq(upload(&g, true, 0, ROWS), RESULT_NO_MEMORY);
    atomic_store(&g.p.share->shadows, 1);
    cr_assert_eq(upload(&g, true, 0, ROWS), RESULT_OK);
    ask_best(&g, METRIC_COSINE, 1, K);
    ask_free(&g.r);
    g.r = ask_make(1, 3, 1, DIMENSION, 900, 1); /* too few rows */
    cr_assert_eq(upload(&g, true, 0, 900), RESULT_NO_MEMORY);
    finish(&g);
}

/* It has one version: while a search of many passes reads that, uploads are refused. */
Test(server_shadow_only, does_not_change_under_a_search, .timeout = 300)
{
    struct rig g;
    make(&g, "multiply_adds=1 latency_us=5000");
    struct order many = question(&g, METRIC_COSINE, 100, K);
    struct ask_rows first = ask_make(1, 1, 1, DIMENSION, ROWS, 1);
    next_version(&g, 0, 30, ROWS);
    struct order write = ask_upload_codes(&g.p, &g.r, false, 0, 30);
    struct order few = question(&g, METRIC_COSINE, 1, K);
    write.upload.round = 1;
    uint64_t token = peer_order(&g.p, many);
    peer_order(&g.p, write);
    peer_order(&g.p, few);
    for (int i = 0; i < 3; i++) {
        struct completion c = peer_completion(&g.p);
        cr_assert_eq(c.result, c.token == token ? RESULT_OK : RESULT_NO_VERSION, "%u", c.result);
    }
    cr_assert(ask_right(&g.p, &many, &first));
    write.upload.round = 2;
    cr_assert_eq(result_of(&g, write), RESULT_OK);
    g.host = ask_lay(&g.p, &g.r, EACH);
    ask_best(&g, METRIC_COSINE, 20, K);
    ask_free(&first);
    finish(&g);
}

Test(server_shadow_only, makes_room_as_any_replica, .timeout = 300)
{
    struct rig g;
    make(&g, "vram_mib=5");
    struct ask_rows first = g.r;
    g.r = ask_make(2, 2, 1, DIMENSION, ROWS, 2);
    struct order lost = ask_knn(&g.p, &first, METRIC_DOT, 1, K, 1);
    ask_from(&lost, g.host);
    cr_assert_eq(upload(&g, true, 0, ROWS), RESULT_OK);
    cr_assert_eq(atomic_load(&g.p.share->usage.evictions), 1);
    cr_assert_eq(result_of(&g, lost), RESULT_NO_REPLICA);
    ask_best(&g, METRIC_DOT, 1, K);
    ask_free(&first);
    finish(&g);
}

#define UNSEEN __attribute__((noinline, no_sanitize("thread")))

UNSEEN static void flip_bit(const struct replica *r, int range, uint64_t byte, int bit)
{
    r->ranges[range].base[byte] ^= (char)(1 << bit);
}

/* There are no rows to make it anew from: it is gone. */
Test(server_shadow_only, a_sweep_gives_up_what_has_flipped, .timeout = 300)
{
    struct rig g = {.p = {.sweep_after_ns = 1000}};
    peer_open(&g.p, "latency_us=0 granularity_kib=16 strict=1 shadow_rows=1000", 2);
    g.r = ask_make(1, 1, 1, DIMENSION, ROWS, 1);
    cr_assert_eq(upload(&g, true, 0, ROWS), RESULT_OK);
    change(&g, 100, 700, ROWS - 200);
    change(&g, ROWS - 200, 900, ROWS + 700);
    const struct share_usage *u = &g.p.share->usage;
    uint64_t seen = atomic_load(&u->sweeps);
    for (int i = 0; i < 20000 && atomic_load(&u->sweeps) < seen + 2; i++)
        usleep(1000);
    cr_assert_geq(atomic_load(&u->sweeps), seen + 2);
    cr_assert_eq(atomic_load(&u->shadows_differed), 0);
    ask_best(&g, METRIC_COSINE, 1, K);
    flip_bit(replica_find(g.p.gpu, 1), RANGE_CODES, 5000 * 128 + 7, 3);
    for (int i = 0; i < 20000 && !atomic_load(&u->shadows_differed); i++)
        usleep(1000);
    cr_assert_eq(atomic_load(&u->shadows_differed), 1);
    cr_assert_eq(result_of(&g, question(&g, METRIC_COSINE, 1, K)), RESULT_NO_REPLICA);
    cr_assert_eq(upload(&g, true, 0, g.r.count), RESULT_OK);
    ask_best(&g, METRIC_COSINE, 1, K);
    finish(&g);
}
