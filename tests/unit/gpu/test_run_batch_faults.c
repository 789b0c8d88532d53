/* Batches that make no sense, that change while they are read, and on a device that fails. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "daemon/base/fault.h"
#include "daemon/gpu/sim_probe.h"
#include "tests/unit/gpu/batch_rig.h"
#include "tests/support/sweep.h"

static struct batch b;

static void make_batch(struct gpu_peer *p, const struct ask_rows *r)
{
    batch_init(&b, r, METRIC_COSINE);
    batch_add(p, &b, 2, 5, FILTER_NONE, 1);
    struct order_run *run = batch_add(p, &b, 3, 9, FILTER_HALF, 2);
    run->has_threshold = 1;
    run->threshold = 0.1f;
    batch_add(p, &b, 1, 4, FILTER_FEW, 3);
    batch_order(p, &b);
}

static enum order_result upload(struct gpu_peer *p, const struct ask_rows *r)
{
    struct completion c = {0};
    uint64_t token = peer_order(p, ask_upload(p, r, true, 0, r->count));
    do
        if (!peer_next(p, &c)) return RESULT_ERROR;
    while (c.token != token);
    return (enum order_result)c.result;
}

/* ---- no sense ---- */

/* Each changes one field, of the order or of its middle request; returns whether there is an
 * n-th. */
static bool spoil(uint32_t n, struct order_run *r, struct order_segment *s)
{
    switch (n) {
    case 0: s->query_count++; break;
    case 1: s->query_count--; break;
    case 2: s->query_count = UINT64_MAX; break;
    case 3: s->query_count = (UINT64_C(1) << 62) + 3; break;
    case 4: s->queries = PEER_HEAP_BYTES - 32; break;
    case 5: s->queries = PLACE_NONE; break;
    case 6: s->queries += 2; break;
    case 7: s->allowed = PEER_HEAP_BYTES - 8; break;
    case 8: s->allowed = UINT64_MAX - 8; break;
    case 9: s->k = 0; break;
    case 10: s->k = TOPK_K_MAX + 1; break;
    case 11: s->k = UINT32_MAX; break;
    case 12: s->k = r->k + 1; break;
    case 13: s->k = 1; break; /* and no other has the order's */
    case 14: s->threshold = NAN; break;
    case 15: s->out_ids = PEER_HEAP_BYTES - 8; break;
    case 16: s->out_ids += 4; break;
    case 17: s->out_scores = PLACE_NONE; break;
    case 18: s->out_scores += 1; break;
    case 19: s->out_counts = PEER_HEAP_BYTES - 8; break;
    case 20: s->out_counts += 2; break;
    case 21: r->segments = PLACE_NONE; break;
    case 22: r->segments = PEER_HEAP_BYTES - 3 * sizeof(struct order_segment) + 1; break;
    case 23: r->segment_count = ORDER_SEGMENTS_MAX + 1; break;
    case 24: r->segment_count = UINT32_MAX; break;
    case 25: r->segment_count--; break;
    case 26: r->k++; break;
    case 27: r->k = 0; break;
    case 28: r->query_count++; break;
    case 29: r->query_count = ORDER_SEGMENT_QUERIES_MAX + 1; break;
    case 30: r->operation = RUN_SCORES; break;
    case 31: r->operation = RUN_AVERAGE; break;
    case 32: r->row_count++; break;
    case 33: r->dimension++; break;
    default: return false;
    }
    return true;
}

Test(run_batch_faults, refuses_what_makes_no_sense)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64 strict=1", 4);
    struct ask_rows r = ask_make(1, 1, 1, 24, 200, 3);
    cr_assert_eq(upload(&p, &r), RESULT_OK);
    make_batch(&p, &r);
    batch_ask_alone(&p, &b);
    struct order_segment *middle = batch_segment(&p, &b, 1), sound = *middle;
    for (uint32_t n = 0;; n++) {
        struct order o = b.order;
        bool more = spoil(n, &o.run, middle);
        struct completion c = peer_done(&p, peer_order(&p, o));
        cr_assert_eq(c.result, more ? RESULT_REFUSED : RESULT_OK, "%u: result %u", n, c.result);
        *middle = sound;
        if (!more) break;
    }
    cr_assert(batch_equal(&p, &b));
    /* As many queries as a request may have, and one more. */
    for (uint64_t extra = 0; extra < 2; extra++) {
        batch_init(&b, &r, METRIC_DOT);
        batch_add(&p, &b, ORDER_SEGMENT_QUERIES_MAX - 1, 1, FILTER_NONE, 1);
        batch_add(&p, &b, 1 + extra, 1, FILTER_NONE, 2);
        struct completion c = peer_done(&p, peer_order(&p, batch_order(&p, &b)));
        cr_assert_eq(c.result, extra ? RESULT_REFUSED : RESULT_OK);
    }
    ask_free(&r);
    peer_close(&p);
}

struct meddler {
    struct gpu_peer *p;
    struct order_segment sound;
    atomic_bool stop;
};

/* Writes nonsense over a request for as long as orders are read, and what is sound in between. */
static void *meddle(void *argument)
{
    struct meddler *m = argument;
    volatile struct order_segment *s = batch_segment(m->p, &b, 1);
    uint64_t seed = 8;
    while (!atomic_load(&m->stop)) {
        uint64_t random = sample_random(&seed);
        s->query_count = random % 4 ? m->sound.query_count : random;
        s->queries = random % 5 ? m->sound.queries : random;
        s->allowed = random % 6 ? m->sound.allowed : random;
        s->k = random % 7 ? m->sound.k : (uint32_t)random;
        s->out_ids = random % 3 ? m->sound.out_ids : random;
        s->out_counts = random % 11 ? m->sound.out_counts : random >> 30;
    }
    return NULL;
}

Test(run_batch_faults, uses_what_it_has_checked, .timeout = 900)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64 strict=1 latency_us=0", 4);
    struct ask_rows r = ask_make(1, 1, 1, 24, 20, 3);
    cr_assert_eq(upload(&p, &r), RESULT_OK);
    make_batch(&p, &r);
    struct meddler m = {.p = &p, .sound = *batch_segment(&p, &b, 1)};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, meddle, &m), 0);
    uint32_t done = 0, refused = 0;
    for (uint32_t n = 0; n < 3000; n++) {
        struct completion c = peer_done(&p, peer_order(&p, b.order));
        cr_assert(c.result == RESULT_OK || c.result == RESULT_REFUSED, "result %u", c.result);
        done += c.result == RESULT_OK;
        refused += c.result == RESULT_REFUSED;
    }
    atomic_store(&m.stop, true);
    pthread_join(thread, NULL);
    cr_expect(done > 0 && refused > 0, "%u done, %u refused", done, refused);
    *batch_segment(&p, &b, 1) = m.sound;
    batch_ask_alone(&p, &b);
    cr_assert_eq(peer_done(&p, peer_order(&p, b.order)).result, RESULT_OK);
    cr_assert(batch_equal(&p, &b));
    ask_free(&r);
    peer_close(&p);
}

Test(run_batch_faults, says_when_there_is_no_memory_for_it)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64 strict=1", 4);
    struct ask_rows r = ask_make(1, 1, 1, 24, 200, 3);
    cr_assert_eq(upload(&p, &r), RESULT_OK);
    make_batch(&p, &r);
    batch_ask_alone(&p, &b);
    fault_arm(1);
    struct completion c = peer_done(&p, peer_order(&p, b.order));
    cr_assert_str_eq(fault_fired(), "run_knn: batch");
    fault_arm(0);
    cr_assert_eq(c.result, RESULT_NO_MEMORY);
    cr_assert_eq(peer_done(&p, peer_order(&p, b.order)).result, RESULT_OK);
    cr_assert(batch_equal(&p, &b));
    ask_free(&r);
    peer_close(&p);
}

/* ---- a device that fails ---- */

static struct device_ops watched;
static const char *fault; /* of the last life; NULL: none */
static bool closed;

static void watched_close(struct device *d)
{
    fault = sim_probe_fault(d);
    closed = true;
    device_sim.close(d);
}

/* false: the server has ended. */
static bool ask_batch(struct gpu_peer *p, uint32_t *result)
{
    struct completion c = {0};
    uint64_t token = peer_order(p, b.order);
    do
        if (!peer_next(p, &c)) return false;
    while (c.token != token);
    *result = c.result;
    return true;
}

/* Small, and with queries, filters and results in pieces. */
static void make_either(struct gpu_peer *p, const struct ask_rows *r, bool large)
{
    batch_init(&b, r, METRIC_DOT);
    for (uint32_t i = 0; i < (large ? 50 : 3); i++)
        batch_add(p, &b, large ? 10 : 2, large ? 80 : 6, i % 2 ? FILTER_HALF : FILTER_NONE, i);
    batch_order(p, &b);
}

/* What a device that does not fail says; it lies in a heap that is gone afterwards. */
static void *expected;
static uint64_t expected_bytes;

static void *results(struct gpu_peer *p)
{
    return peer_at(p, batch_segment(p, &b, 0)->out_ids);
}

static bool is_right(struct gpu_peer *p)
{
    return memcmp(results(p), expected, expected_bytes) == 0;
}

static void expect(const struct ask_rows *r, bool large)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64 strict=1", 4);
    cr_assert_eq(upload(&p, r), RESULT_OK);
    make_either(&p, r, large);
    expected_bytes = p.used - batch_segment(&p, &b, 0)->out_ids;
    batch_ask_alone(&p, &b);
    cr_assert_eq(peer_done(&p, peer_order(&p, b.order)).result, RESULT_OK);
    cr_assert(batch_equal(&p, &b));
    free(expected);
    cr_assert(expected = malloc(expected_bytes));
    memcpy(expected, results(&p), expected_bytes);
    peer_close(&p);
}

/* One life; what is answered OK is right, and what is not is right when asked again. */
static bool live(const struct ask_rows *r, const char *sim, bool large)
{
    struct gpu_peer p = {.ops = &watched};
    uint32_t result = RESULT_ERROR;
    fault = NULL;
    closed = false;
    peer_open(&p, sim, 3);
    bool lives = atomic_load(&p.share->state) == SHARE_READY;
    bool there = lives && upload(&p, r) == RESULT_OK;
    if (lives) make_either(&p, r, large);
    lives = lives && ask_batch(&p, &result);
    cr_assert(!lives || result == (there ? RESULT_OK : RESULT_NO_REPLICA) ||
                  result == RESULT_ERROR || result == RESULT_NO_MEMORY,
              "%s: result %u", sim, result);
    if (lives && result != RESULT_OK) {
        cr_assert_eq(upload(&p, r), RESULT_OK, "%s", sim);
        lives = ask_batch(&p, &result);
        cr_assert(!lives || result == RESULT_OK, "%s: again: result %u", sim, result);
    }
    if (lives) cr_assert(is_right(&p), "%s", sim);
    if (!lives) cr_assert_eq(atomic_load(&p.share->state), SHARE_BROKEN);
    peer_close(&p);
    return fault || !closed;
}

Test(run_batch_faults, fail_with_each_call_of_the_device, .timeout = 900)
{
    static const char *const kinds[] = {"memory", "error", "sticky"};
    watched = device_sim;
    watched.close = watched_close;
    struct ask_rows r = ask_make(1, 1, 1, 160, 400, 3);
    for (int large = 0; large < 2; large++) {
        expect(&r, large);
        for (int kind = 0; kind < 3; kind++) {
            uint32_t past = 0, lives = 0;
            for (uint32_t n = 1; past < 4; n += sweep_stride(7), lives += sweep_stride(7)) {
                char sim[128];
                snprintf(sim, sizeof sim, "vram_mib=64 latency_us=20 strict=1 fail=%u:%s", n,
                         kinds[kind]);
                past = live(&r, sim, large) ? 0 : past + 1;
            }
            cr_expect(lives > (large ? 35 : 20), "%s: %u lives", kinds[kind], lives);
        }
    }
    ask_free(&r);
    free(expected);
}
