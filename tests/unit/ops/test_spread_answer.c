/* From records to a reply: order, the best k, sums, paths, against the plainest way to do it. The
 * records are made up; nothing spreads here. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ops/spread_answer.h"
#include "daemon/heap/heap.h"
#include "kernels/canonical.h"
#include "tests/support/sweep.h"

enum { HOPS = 9 };

struct made {
    struct heap *heap;
    struct spread_ask ask;
    uint64_t *ids;
    struct spread_record *records;
    uint64_t count;
    struct arena keep, work;
    unsigned seed;
};

static unsigned draw(struct made *m)
{
    return (unsigned)rand_r(&m->seed);
}

/* Activations: of 0: any; else of so many values. With zeros: one in eight has none. */
static struct made make(uint32_t nodes, uint64_t count, unsigned values, bool zeros, unsigned seed)
{
    struct made m = {.count = count, .seed = seed};
    cr_assert_eq(heap_create(UINT64_C(1) << 30, &m.heap), STATUS_OK);
    arena_init(&m.keep, m.heap, 1);
    arena_init(&m.work, m.heap, 1);
    m.ids = malloc(nodes * sizeof *m.ids);
    uint32_t *numbers = malloc(nodes * sizeof *numbers);
    for (uint32_t i = 0; i < nodes; i++) {
        m.ids[i] = seed % 2 ? i : i * UINT64_C(0x9e3779b97f4a7c15);
        numbers[i] = i;
    }
    for (uint32_t i = nodes; i > 1; i--) {
        uint32_t at = draw(&m) % i, kept = numbers[at];
        numbers[at] = numbers[i - 1];
        numbers[i - 1] = kept;
    }
    m.records = malloc((count + 1) * sizeof *m.records);
    for (uint64_t i = 0; i < count; i++) {
        uint8_t depth = (uint8_t)(i < 3 ? 0 : draw(&m) % (HOPS + 1));
        float a = values ? (float)(draw(&m) % values + 1) / (float)values
                         : (float)(draw(&m) % 1000003 + 1) / 1000003.0f;
        if (seed % 3 == 0) a *= 1e-30f;
        m.records[i] = (struct spread_record){.node = numbers[i],
                                              .parent = SPREAD_NO_NODE,
                                              .activation = zeros && draw(&m) % 8 == 0 ? 0 : a,
                                              .confidence = a / 2,
                                              .visits = draw(&m) % 100 + 1,
                                              .depth = depth,
                                              .tier = (uint8_t)spread_tier_of(depth)};
    }
    /* Whence: any that was touched before. */
    for (uint64_t i = 3; i < count; i++) {
        if (m.records[i].depth == 0) continue;
        uint64_t from = draw(&m) % count;
        while (m.records[from].depth >= m.records[i].depth)
            from = draw(&m) % count;
        m.records[i].parent = m.records[from].node;
    }
    free(numbers);
    m.ask.graph = (struct spread_graph){.nodes = nodes, .ids = m.ids};
    m.ask.question = (struct spread_question){.mode = SPREAD_ENGRAM, .hops = HOPS, .paths = true};
    m.ask.set_count = 1;
    return m;
}

static void unmake(struct made *m)
{
    arena_finish(&m->keep);
    arena_finish(&m->work);
    cr_assert_eq(heap_usage(m->heap).blocks, 0);
    heap_destroy(m->heap);
    free(m->ids);
    free(m->records);
}

/* ---------------------------------------------------------------- the plainest way */

static const uint64_t *order_ids;

static int by_id(const void *a, const void *b)
{
    uint64_t x = order_ids[((const struct spread_record *)a)->node];
    uint64_t y = order_ids[((const struct spread_record *)b)->node];
    return (x > y) - (x < y);
}

static int by_activation(const void *a, const void *b)
{
    float x = ((const struct spread_record *)a)->activation;
    float y = ((const struct spread_record *)b)->activation;
    return x < y ? 1 : x > y ? -1 : by_id(a, b);
}

static const struct spread_record *find(const struct made *m, uint32_t node)
{
    for (uint64_t i = 0; i < m->count; i++)
        if (m->records[i].node == node) return &m->records[i];
    return NULL;
}

static void expect_path(const struct made *m, const struct spread_record *r, const uint32_t *path,
                        uint64_t length)
{
    uint64_t left = length;
    for (; r; r = r->parent == SPREAD_NO_NODE ? NULL : find(m, r->parent)) {
        cr_assert_gt(left, 0);
        cr_assert_eq(path[--left], r->node);
    }
    cr_assert_eq(left, 0);
}

static void expect_answer(struct made *m, uint64_t k, bool copy)
{
    struct spread_record *sorted = malloc((m->count + 1) * sizeof *sorted);
    struct spread_set set = {0};
    double sums[SPREAD_TIERS] = {0};
    order_ids = m->ids;
    memcpy(sorted, m->records, m->count * sizeof *sorted);
    qsort(sorted, m->count, sizeof *sorted, by_id);
    for (uint64_t i = 0; i < m->count; i++)
        sums[sorted[i].tier] += (double)sorted[i].activation;
    qsort(sorted, m->count, sizeof *sorted, by_activation);
    uint64_t kept = 0;
    while (kept < m->count && kept < k)
        kept++;

    m->ask.k = k;
    cr_assert(spread_answer_set(&m->ask, m->records, m->count, copy, &m->keep, &m->work, &set));
    cr_assert_eq(set.touched, m->count);
    cr_assert_eq(set.kept, kept);
    for (int tier = 0; tier < SPREAD_TIERS; tier++) {
        float sum = (float)sums[tier];
        cr_assert(!memcmp(&set.tier_sums[tier], &sum, sizeof sum));
    }
    cr_assert_eq(set.order == NULL, copy);
    for (uint64_t i = 0; i < kept; i++) {
        const struct spread_record *r = &set.records[set.order ? set.order[i] : i];
        cr_assert(!memcmp(r, &sorted[i], sizeof *r));
        if (!m->ask.question.paths || (kept > 2000 && i % 97)) continue;
        uint64_t first = i ? set.path_ends[i - 1] : 0;
        expect_path(m, r, set.path_nodes + first, set.path_ends[i] - first);
    }
    arena_clear(&m->work);
    arena_clear(&m->keep);
    free(sorted);
}

Test(spread_answer, is_what_sorting_everything_gives)
{
    const uint64_t counts[] = {0, 1, 3, 4, 60, 1000};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (unsigned seed = 1; seed <= 6; seed++)
            for (unsigned values = 0; values <= 4; values += 2) {
                struct made m = make(seed < 4 ? 1000 : 30000, counts[c], values, seed % 2, seed);
                const uint64_t ks[] = {1, 2, 10, 999, 1000, UINT64_MAX};
                for (size_t k = 0; k < sizeof ks / sizeof *ks; k++)
                    expect_answer(&m, ks[k], k % 2);
                unmake(&m);
            }
}

/* 1 and 2^-24 are half-way between two floats, and sixteen times 2^-54 is lost beside them, one by
 * one, but not before them: the ids say which. */
Test(spread_answer, sums_go_by_id_where_that_matters)
{
    enum { COUNT = 18 };
    for (int small_first = 0; small_first < 2; small_first++) {
        struct made m = make(COUNT, COUNT, 0, false, 1);
        for (uint32_t i = 0; i < COUNT; i++) {
            float a = i == 0 ? 1.0f : i == 1 ? 0x1p-24f : 0x1p-54f;
            m.ids[i] = small_first ? COUNT - i : i;
            m.records[(i * 7 + 3) % COUNT] = (struct spread_record){
                .node = i, .parent = SPREAD_NO_NODE, .activation = a, .visits = 1};
        }
        struct spread_set set = {0};
        m.ask.question.paths = false;
        m.ask.k = 3;
        cr_assert(spread_answer_set(&m.ask, m.records, COUNT, true, &m.keep, &m.work, &set));
        cr_assert_eq(set.tier_sums[SPREAD_HOT], small_first ? 1 + 0x1p-23f : 1.0f);
        cr_assert(set.tier_sums[SPREAD_WARM] == 0 && set.tier_sums[SPREAD_COLD] == 0);
        unmake(&m);
    }
}

Test(spread_answer, of_many, .timeout = 900)
{
    for (unsigned seed = 1; seed <= 3; seed += sweep_stride(2)) {
        struct made m = make(200000, 150000, seed == 2 ? 3 : 0, true, seed);
        m.ask.question.paths = false;
        expect_answer(&m, 10, true);
        expect_answer(&m, 60000, false);
        expect_answer(&m, UINT64_MAX, false);
        unmake(&m);
    }
}

Test(spread_answer, a_path_of_nonsense_ends)
{
    struct made m = make(100, 50, 0, false, 4);
    struct spread_set set = {0};
    m.ask.k = UINT64_MAX;
    m.records[10].parent = m.records[11].node;
    m.records[11].parent = m.records[10].node;
    m.records[12].parent = m.records[12].node;
    m.records[13].parent = 99; /* nobody touched it */
    for (uint64_t i = 0; i < 50; i++)
        if (m.records[i].node == 99) m.records[13].parent = SPREAD_NO_NODE;
    cr_assert(spread_answer_set(&m.ask, m.records, 50, false, &m.keep, &m.work, &set));
    for (uint64_t i = 0; i < set.kept; i++)
        cr_assert_leq(set.path_ends[i] - (i ? set.path_ends[i - 1] : 0), HOPS + 1);
    unmake(&m);
}

/* ---------------------------------------------------------------- the reply */

Test(spread_answer, several_sets_in_one_reply)
{
    enum { SETS = 5 };
    struct made m = make(1000, 900, 0, false, 2);
    const uint64_t firsts[SETS + 1] = {0, 0, 100, 103, 103, 900};
    struct spread_set sets[SETS] = {{0}};
    struct job j = {.heap = m.heap, .reply_bytes_max = 1 << 20, .worker_count = 1};
    j.request.spread.paths = true;
    m.ask.set_count = SETS;
    m.ask.k = 50;
    for (uint64_t i = 3; i < m.count; i++)
        m.records[i].parent = SPREAD_NO_NODE;
    for (int s = 0; s < SETS; s++) {
        cr_assert(spread_answer_set(&m.ask, m.records + firsts[s], firsts[s + 1] - firsts[s], s % 2,
                                    &m.keep, &m.work, &sets[s]));
        sets[s].cycles = 7 + (uint64_t)s;
        sets[s].truncated = s == 2;
    }
    cr_assert_eq(spread_answer_place(&j, &m.ask, sets), STATUS_OK);
    uint64_t entries = spread_answer_entries(&j);
    cr_assert_eq(entries, 50 + 3 + 50);
    for (uint64_t at = 0; at < entries; at += 10)
        spread_answer_write(&j, &m.ask, sets, at, at + 10 < entries ? at + 10 : entries);
    const struct tensor *t = j.result.tensors;
    const uint64_t *offsets = t[0].data, *ids = t[1].data, *paths = t[10].data;
    const float *activations = t[2].data, *confidences = t[3].data;
    cr_assert_eq(t[0].rows, SETS + 1);
    cr_assert_eq(t[9].columns, SPREAD_TIERS);
    cr_assert_eq(t[11].rows, entries);
    for (int s = 0; s < SETS; s++) {
        cr_assert_eq(offsets[s + 1] - offsets[s], sets[s].kept);
        cr_assert_eq(((uint64_t *)t[6].data)[s], firsts[s + 1] - firsts[s]);
        cr_assert_eq(((uint64_t *)t[7].data)[s], 7 + (uint64_t)s);
        cr_assert_eq(((uint8_t *)t[8].data)[s], s == 2);
        for (uint64_t i = 0; i < sets[s].kept; i++) {
            static const float factors[] = {1.0f, 0.95f, 0.9f};
            const struct spread_record *r = &sets[s].records[sets[s].order ? sets[s].order[i] : i];
            uint64_t at = offsets[s] + i;
            cr_assert_eq(ids[at], m.ids[r->node]);
            cr_assert_eq(activations[at], r->activation);
            cr_assert_eq(confidences[at], canonical_multiply(r->confidence, factors[r->tier]));
            cr_assert_eq(((uint32_t *)t[4].data)[at], r->visits);
            cr_assert_eq(((uint32_t *)t[5].data)[at], r->depth);
            cr_assert_eq(paths[at + 1] - paths[at], 1);
            cr_assert_eq(((uint64_t *)t[11].data)[paths[at]], ids[at]);
        }
    }
    heap_give(m.heap, &j.result.block);
    m.ask.k = UINT64_MAX;
    j.reply_bytes_max = 128;
    cr_assert_eq(spread_answer_place(&j, &m.ask, sets), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(j.failure.detail, DETAIL_REPLY_TOO_LARGE);
    unmake(&m);
}
