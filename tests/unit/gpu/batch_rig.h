/* batch_rig: requests for the k best, asked one by one and as one.
 * Owner:  the test.
 * Thread: one.
 * Errors: what fails fails the test. */
#ifndef ENGRAM_TESTS_GPU_BATCH_RIG_H
#define ENGRAM_TESTS_GPU_BATCH_RIG_H

#include <criterion/criterion.h>
#include <string.h>

#include "tests/kernels/samples.h"
#include "tests/support/gpu_ask.h"

struct batch {
    const struct ask_rows *rows;
    enum metric metric;
    struct order alone[ORDER_SEGMENTS_MAX]; /* each with results of its own */
    uint32_t count;
    struct order order; /* all of them as one */
};

enum filter { FILTER_NONE, FILTER_HALF, FILTER_FEW, FILTER_NOBODY };

static inline void batch_init(struct batch *b, const struct ask_rows *rows, enum metric metric)
{
    b->rows = rows;
    b->metric = metric;
    b->count = 0;
}

static inline uint64_t batch_bitmap(struct gpu_peer *p, uint64_t rows, enum filter filter,
                                    uint64_t seed)
{
    uint64_t words = (rows + 63) / 64, place = peer_take(p, words * sizeof(uint64_t));
    uint64_t *bits = peer_at(p, place);
    for (uint64_t w = 0; w < words; w++) {
        bits[w] = sample_random(&seed);
        if (filter == FILTER_FEW) bits[w] &= bits[w] << 7 & bits[w] >> 9;
        if (filter == FILTER_NOBODY) bits[w] = 0;
    }
    return place;
}

/* One more; returns it, for the test to give it a threshold. */
static inline struct order_run *batch_add(struct gpu_peer *p, struct batch *b, uint64_t queries,
                                          uint32_t k, enum filter filter, uint64_t seed)
{
    cr_assert(b->count < ORDER_SEGMENTS_MAX);
    struct order *o = &b->alone[b->count++];
    *o = ask_knn(p, b->rows, b->metric, queries, k, seed);
    if (filter != FILTER_NONE) o->run.allowed = batch_bitmap(p, b->rows->count, filter, seed);
    return &o->run;
}

enum { GUARD = 64, GUARD_BYTE = 0xcd };

/* Room for a result, and some that nobody may write to. */
static inline uint64_t batch_result(struct gpu_peer *p, uint64_t bytes)
{
    uint64_t place = peer_take(p, bytes + GUARD);
    memset(peer_at(p, place), GUARD_BYTE, bytes + GUARD);
    return place;
}

/* The bytes that it should be, and the guard untouched. */
static inline bool batch_same(struct gpu_peer *p, uint64_t place, uint64_t expected, uint64_t bytes)
{
    unsigned char guard[GUARD];
    memset(guard, GUARD_BYTE, sizeof guard);
    return memcmp(peer_at(p, place), peer_at(p, expected), bytes) == 0 &&
           memcmp((char *)peer_at(p, place) + bytes, guard, sizeof guard) == 0;
}

static inline struct order_segment *batch_segment(struct gpu_peer *p, const struct batch *b,
                                                  uint32_t i)
{
    return (struct order_segment *)peer_at(p, b->order.run.segments) + i;
}

/* The order of all of them, with other places for the results. */
static inline struct order batch_order(struct gpu_peer *p, struct batch *b)
{
    const struct ask_rows *r = b->rows;
    struct order o = {.kind = ORDER_RUN,
                      .space = r->space,
                      .replica = r->replica,
                      .version = r->version,
                      .run = order_run_of(RUN_KNN)};
    o.run.metric = b->metric;
    o.run.dimension = r->dimension;
    o.run.row_count = r->count;
    o.run.segment_count = b->count;
    o.run.segments = peer_take(p, b->count * sizeof(struct order_segment));
    b->order = o;
    for (uint32_t i = 0; i < b->count; i++) {
        const struct order_run *one = &b->alone[i].run;
        uint64_t n = one->query_count;
        *batch_segment(p, b, i) =
            (struct order_segment){.query_count = n,
                                   .queries = one->queries,
                                   .allowed = one->allowed,
                                   .k = one->k,
                                   .has_threshold = one->has_threshold,
                                   .threshold = one->threshold,
                                   .out_ids = batch_result(p, n * one->k * sizeof(uint64_t)),
                                   .out_scores = batch_result(p, n * one->k * sizeof(float)),
                                   .out_counts = batch_result(p, n * sizeof(uint32_t))};
        b->order.run.query_count += n;
        if (one->k > b->order.run.k) b->order.run.k = one->k;
    }
    return b->order;
}

/* What the batch left for each is what it left alone, every byte. */
static inline bool batch_equal(struct gpu_peer *p, const struct batch *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        const struct order_run *one = &b->alone[i].run;
        const struct order_segment *s = batch_segment(p, b, i);
        uint64_t n = one->query_count;
        if (!batch_same(p, s->out_counts, one->out_counts, n * sizeof(uint32_t)) ||
            !batch_same(p, s->out_ids, one->out_ids, n * one->k * sizeof(uint64_t)) ||
            !batch_same(p, s->out_scores, one->out_scores, n * one->k * sizeof(float)))
            return false;
    }
    return true;
}

/* Each by itself, right by the reference as well. */
static inline void batch_ask_alone(struct gpu_peer *p, const struct batch *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        cr_assert_eq(peer_done(p, peer_order(p, b->alone[i])).result, RESULT_OK);
        cr_assert(ask_right(p, &b->alone[i], b->rows), "request %u alone", i);
    }
}

#endif
