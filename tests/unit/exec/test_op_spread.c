/* Spreads as jobs, against the slow reference: both modes, many sets, bad input, no memory. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/exec/operation.h"
#include "daemon/store/graph.h"
#include "tests/support/run_job.h"
#include "tests/support/spread_expect.h"

enum { SEEDS_MAX = 600, SETS_MAX = 64 };

struct bench {
    struct heap *heap;
    struct store *store;
    struct space *space;
    struct graph *graph;
    uint64_t *ids;
    uint32_t nodes;
    uint64_t seed;
};

static uint32_t draw(struct bench *b, uint32_t below)
{
    b->seed = b->seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)((b->seed >> 33) % below);
}

static float draw_weight(struct bench *b)
{
    return (float)(draw(b, 2000) + 1) / 2000.0f;
}

/* Random edges, kinds and factors; weights may be negative in mode linear's graphs. */
static struct bench open_bench(uint32_t nodes, uint64_t edges, bool negative, uint64_t seed)
{
    struct bench b = {.nodes = nodes, .seed = seed};
    cr_assert_eq(heap_create(UINT64_C(1) << 30, &b.heap), STATUS_OK);
    cr_assert_eq(store_create(b.heap, vectors_variant(0), &b.store), STATUS_OK);
    cr_assert_eq(store_space(b.store, "test", &b.space), STATUS_OK);
    cr_assert_eq(store_graph_create(b.store, b.space, "g", NULL, &b.graph), STATUS_OK);
    b.ids = malloc(nodes * sizeof *b.ids);
    uint8_t *kinds = malloc(nodes);
    float *factors = malloc(nodes * sizeof *factors);
    for (uint32_t i = 0; i < nodes; i++) {
        b.ids[i] = i * UINT64_C(0x9e3779b97f4a7c15) >> 8;
        kinds[i] = (uint8_t)draw(&b, 3);
        factors[i] = draw(&b, 4) ? 1.0f : draw_weight(&b) * 2;
    }
    struct graph_counts counts;
    struct failure f;
    cr_assert_eq(graph_set_nodes(b.graph, b.ids, kinds, factors, nodes, &counts, &f), STATUS_OK);
    uint64_t *sources = malloc((edges + 1) * sizeof *sources);
    uint64_t *targets = malloc((edges + 1) * sizeof *targets);
    float *weights = malloc((edges + 1) * sizeof *weights);
    for (uint64_t i = 0; i < edges; i++) {
        sources[i] = b.ids[draw(&b, nodes)];
        targets[i] = b.ids[draw(&b, draw(&b, 4) ? nodes : nodes / 8 + 1)];
        weights[i] = negative && !draw(&b, 5) ? -draw_weight(&b) : draw_weight(&b);
    }
    cr_assert_eq(graph_add_edges(b.graph, sources, targets, weights, edges, false, &counts, &f),
                 STATUS_OK);
    free(sources);
    free(targets);
    free(weights);
    free(kinds);
    free(factors);
    return b;
}

static void close_bench(struct bench *b)
{
    store_destroy(b->store);
    cr_assert_eq(heap_usage(b->heap).blocks, 0);
    heap_destroy(b->heap);
    free(b->ids);
}

/* ---------------------------------------------------------------- questions */

/* A case with its arrays. */
struct asked {
    struct spread_case c;
    uint64_t offsets[SETS_MAX + 1], seeds[SEEDS_MAX], within[SEEDS_MAX];
    float activations[SEEDS_MAX], table[SPREAD_HOPS_MAX];
};

static void ask(struct asked *a, enum spread_mode mode, uint32_t hops)
{
    memset(a, 0, sizeof *a);
    a->c = (struct spread_case){.offsets = a->offsets, .seeds = a->seeds, .sets = 1};
    a->c.how = (struct job_spread){.mode = mode,
                                   .hops = hops,
                                   .decay = DECAY_EXPONENTIAL,
                                   .decay_parameter = 0.7f,
                                   .thresholds = {0.01f, 0.05f, 0.1f}};
}

static void ask_randomly(struct bench *b, struct asked *a, enum spread_mode mode)
{
    ask(a, mode, 1 + draw(b, 5));
    struct job_spread *how = &a->c.how;
    how->decay = 1 + draw(b, 5);
    how->paths = draw(b, 2);
    how->last_hop = mode == SPREAD_LINEAR && !how->paths && !draw(b, 3);
    how->fan = mode == SPREAD_ENGRAM ? draw(b, 3) : 0;
    how->ignore_kinds = mode == SPREAD_ENGRAM && draw(b, 2);
    how->touched_max = draw(b, 3) ? 0 : 1 + draw(b, b->nodes);
    for (int t = 0; t < 3; t++)
        how->thresholds[t] = draw(b, 4) ? draw_weight(b) * 0.1f : 0;
    for (uint32_t d = 0; d < how->hops; d++)
        a->table[d] = draw_weight(b);
    a->c.table = a->table;
    a->c.k = draw(b, 2) ? 0 : 1 + draw(b, 40);
    a->c.sets = 1 + draw(b, draw(b, 2) ? 3 : SETS_MAX);
    for (uint64_t s = 0; s < a->c.sets; s++)
        a->offsets[s + 1] = a->offsets[s] + draw(b, 9);
    a->c.seed_count = a->offsets[a->c.sets];
    bool bounded = !draw(b, 3);
    for (uint64_t i = 0; i < a->c.seed_count; i++) {
        a->seeds[i] = b->ids[draw(b, draw(b, 2) ? 5 : b->nodes)];
        a->activations[i] = draw_weight(b) * 1.2f;
        a->within[i] = a->seeds[i];
    }
    if (draw(b, 2)) a->c.activations = a->activations;
    if (!bounded || !a->c.seed_count) return;
    a->c.within = a->within;
    for (a->c.within_count = a->c.seed_count; a->c.within_count < SEEDS_MAX; a->c.within_count++)
        a->within[a->c.within_count] = b->ids[draw(b, b->nodes)];
}

static struct tensor numbers(const uint64_t *data, uint64_t rows)
{
    return (struct tensor){DTYPE_UINT64, rows, 1, (void *)data};
}

static struct tensor floats(const float *data, uint64_t rows)
{
    return (struct tensor){DTYPE_FLOAT32, rows, 1, (void *)data};
}

static struct job job_of(struct bench *b, const struct spread_case *c)
{
    struct job j = {.operation = OPERATION_SPREAD,
                    .space = b->space,
                    .graph = b->graph,
                    .heap = b->heap,
                    .kernels = vectors_choose("auto"),
                    .worker_count = 3,
                    .reply_bytes_max = UINT64_C(1) << 27};
    j.request.spread = c->how;
    j.request.k = c->k;
    j.request.ids = numbers(c->seeds, c->seed_count);
    if (c->offsets) j.request.offsets = numbers(c->offsets, c->sets + 1);
    if (c->activations) j.request.weights = floats(c->activations, c->seed_count);
    if (c->how.decay == DECAY_TABLE) j.request.table = floats(c->table, c->how.hops);
    if (c->within) j.request.filter_ids = numbers(c->within, c->within_count);
    j.ticket.work = operation_work(&j);
    return j;
}

static struct spread_reply reply_of(const struct job *j)
{
    const struct tensor *t = j->result.tensors;
    return (struct spread_reply){.sets = t[0].rows - 1,
                                 .count = t[1].rows,
                                 .offsets = t[0].data,
                                 .ids = t[1].data,
                                 .activations = t[2].data,
                                 .confidences = t[3].data,
                                 .visits = t[4].data,
                                 .depths = t[5].data,
                                 .touched = t[6].data,
                                 .cycles = t[7].data,
                                 .truncated = t[8].data,
                                 .tier_sums = t[9].data,
                                 .path_offsets = t[10].data,
                                 .path_ids = t[11].data};
}

static void expect_right(struct bench *b, const struct spread_case *c)
{
    struct job j = job_of(b, c);
    for (uint32_t workers = 1; workers <= 7; workers += 3) {
        run_job_reset(&j);
        j.worker_count = workers;
        cr_assert_eq(run_job(&j, workers), STATUS_OK, "%s", j.failure.text);
        struct spread_reply r = reply_of(&j);
        const char *wrong = spread_reply_wrong(b->graph, c, &r);
        cr_assert_null(wrong, "%s (%u workers)", wrong, workers);
        cr_assert_eq(j.result.rows, graph_edges(b->graph));
        cr_assert_eq(j.result.version, resident_version(graph_resident(b->graph)));
    }
    run_job_reset(&j);
}

/* ---------------------------------------------------------------- right answers */

Test(op_spread, random_questions_of_small_graphs, .timeout = 120)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct bench b = open_bench(40 + 100 * (uint32_t)seed, 500 * seed, seed % 2, seed);
        struct asked a;
        for (int i = 0; i < 30; i++) {
            ask_randomly(&b, &a, i % 2 ? SPREAD_LINEAR : SPREAD_ENGRAM);
            expect_right(&b, &a.c);
        }
        close_bench(&b);
    }
}

Test(op_spread, one_set_by_several_workers, .timeout = 120)
{
    struct bench b = open_bench(3000, 60000, false, 5);
    struct asked a;
    for (int mode = SPREAD_LINEAR; mode <= SPREAD_ENGRAM; mode++) {
        ask(&a, (enum spread_mode)mode, 3);
        a.c.offsets = NULL;
        a.c.seed_count = 20;
        for (int i = 0; i < 20; i++)
            a.seeds[i] = b.ids[draw(&b, b.nodes)];
        expect_right(&b, &a.c);
        a.c.k = 10;
        a.c.how.thresholds[0] = a.c.how.thresholds[1] = a.c.how.thresholds[2] = 0;
        expect_right(&b, &a.c);
    }
    close_bench(&b);
}

Test(op_spread, nothing_is_an_answer_too)
{
    struct bench b = open_bench(20, 0, false, 1);
    struct asked a;
    ask(&a, SPREAD_LINEAR, 4);
    expect_right(&b, &a.c); /* one set without seeds */
    a.c.sets = 3;
    expect_right(&b, &a.c);
    a.c.how.paths = true;
    expect_right(&b, &a.c);
    a.c.how.mode = SPREAD_ENGRAM;
    expect_right(&b, &a.c);
    a.c.offsets = NULL;
    a.c.seed_count = 2;
    a.seeds[0] = b.ids[3];
    a.seeds[1] = b.ids[4];
    expect_right(&b, &a.c); /* seeds without edges */
    close_bench(&b);
}

Test(op_spread, a_bitmap_is_a_node_set_as_ids_are)
{
    struct bench b = open_bench(300, 3000, false, 9);
    struct asked a;
    uint8_t bits[64];
    ask(&a, SPREAD_LINEAR, 4);
    a.c.offsets = NULL;
    a.c.seed_count = 1;
    /* Nodes of small ids, among the others. */
    struct graph_counts counts;
    struct failure f;
    for (uint64_t i = 0; i < 400; i++) {
        uint64_t from = 1000 + i, to = 1000 + (i * 7 + 1) % 400;
        float weight = 0.9f;
        cr_assert_eq(graph_add_edges(b.graph, &from, &to, &weight, 1, false, &counts, &f),
                     STATUS_OK);
    }
    a.seeds[0] = 1008;
    for (int scarce = 0; scarce < 2; scarce++) {
        memset(bits, 0, sizeof bits);
        a.c.within = a.within;
        a.c.within_count = 0;
        for (uint64_t i = 0; i < 400; i += scarce ? 40 : 2) {
            bits[i / 8] |= (uint8_t)(1u << i % 8);
            a.within[a.c.within_count++] = 1000 + i;
        }
        bits[1] |= 1;
        a.within[a.c.within_count++] = 1008;
        struct job j = job_of(&b, &a.c);
        j.request.filter_ids = (struct tensor){0};
        j.request.filter_bitmap = (struct tensor){DTYPE_UINT8, 50, 1, bits};
        j.request.filter_bitmap_first = 1000;
        cr_assert_eq(run_job(&j, 1), STATUS_OK, "%s", j.failure.text);
        struct spread_reply r = reply_of(&j);
        const char *wrong = spread_reply_wrong(b.graph, &a.c, &r);
        cr_assert_null(wrong, "%s", wrong);
        run_job_reset(&j);
    }
    close_bench(&b);
}

/* ---------------------------------------------------------------- bad input */

static void expect_refused(struct job *j, enum status code, enum detail detail, const char *words)
{
    for (uint32_t workers = 1; workers <= 3; workers += 2) {
        uint64_t blocks = heap_usage(j->heap).blocks;
        j->worker_count = workers;
        cr_assert_eq(run_job(j, 1), code, "%s: %s", words, j->failure.text);
        cr_assert_eq(j->failure.detail, detail, "%s: %s", words, j->failure.text);
        cr_assert_not_null(strstr(j->failure.text, words), "%s: %s", words, j->failure.text);
        cr_assert_leq(heap_usage(j->heap).blocks, blocks + 1, "but for a workspace kept");
        run_job_reset(j);
    }
}

Test(op_spread, names_what_is_wrong)
{
    struct bench b = open_bench(100, 1000, false, 3);
    struct asked a;
    uint8_t bits[16] = {0};
    ask(&a, SPREAD_ENGRAM, 4);
    a.c.offsets = NULL;
    a.c.seed_count = 3;
    for (int i = 0; i < 3; i++)
        a.seeds[i] = b.ids[i];
    a.seeds[2] = 12345;
    struct job j = job_of(&b, &a.c);
    expect_refused(&j, STATUS_NOT_FOUND, DETAIL_UNKNOWN_NODE, "no node 12345 (seed 2)");

    a.seeds[2] = b.ids[2];
    a.c.within = a.within;
    a.c.within_count = 3;
    memcpy(a.within, a.seeds, sizeof a.within);
    a.within[1] = 777;
    j = job_of(&b, &a.c);
    expect_refused(&j, STATUS_NOT_FOUND, DETAIL_UNKNOWN_NODE, "no node 777 (id of the node set 1)");
    a.within[1] = b.ids[50];
    j = job_of(&b, &a.c);
    expect_refused(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SEED, "seed 1: node");

    j.request.filter_ids = (struct tensor){0};
    j.request.filter_bitmap = (struct tensor){DTYPE_UINT8, 16, 1, bits};
    j.request.filter_bitmap_first = UINT64_MAX - 5;
    bits[0] = 0x20; /* nobody's */
    expect_refused(&j, STATUS_NOT_FOUND, DETAIL_UNKNOWN_NODE, "bit of the node set 5");
    memset(bits, 0, sizeof bits);
    bits[1] = 2; /* past the last id there can be */
    expect_refused(&j, STATUS_NOT_FOUND, DETAIL_UNKNOWN_NODE, "bit of the node set 9");
    memset(bits, 0xff, sizeof bits);
    j.request.filter_bitmap_first = 3;
    expect_refused(&j, STATUS_NOT_FOUND, DETAIL_UNKNOWN_NODE, "no node 3 (bit of the node set 0)");
    close_bench(&b);
}

Test(op_spread, a_reply_too_large_is_refused)
{
    struct bench b = open_bench(2000, 20000, false, 3);
    struct asked a;
    ask(&a, SPREAD_LINEAR, 4);
    a.c.offsets = NULL;
    a.c.seed_count = 1;
    a.seeds[0] = b.ids[0];
    a.c.how.thresholds[0] = 0;
    struct job j = job_of(&b, &a.c);
    j.reply_bytes_max = 1024;
    expect_refused(&j, STATUS_RESOURCE_EXHAUSTED, DETAIL_REPLY_TOO_LARGE, "1024");
    j.request.k = 10;
    j.worker_count = 3;
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    run_job_reset(&j);
    close_bench(&b);
}

/* ---------------------------------------------------------------- memory, time, leaving */

/* With less and less of it: an answer, which is right, or a refusal that says so. */
Test(op_spread, memory_that_is_short, .timeout = 120)
{
    struct bench b = open_bench(20000, 200000, false, 4);
    struct asked a;
    unsigned answered = 0, refused = 0;
    for (int mode = SPREAD_LINEAR; mode <= SPREAD_ENGRAM; mode++) {
        ask(&a, (enum spread_mode)mode, 3);
        a.c.sets = 6;
        a.c.k = 100;
        for (uint64_t s = 0; s < a.c.sets; s++) {
            a.offsets[s + 1] = a.offsets[s] + 2;
            a.seeds[2 * s] = b.ids[draw(&b, b.nodes)];
            a.seeds[2 * s + 1] = b.ids[draw(&b, b.nodes)];
        }
        a.c.seed_count = 12;
        struct job j = job_of(&b, &a.c);
        uint64_t has = heap_owner_bytes(b.heap, b.space->number);
        for (uint64_t more = UINT64_C(64) << 20; more >= 1 << 16; more -= more / 3) {
            cr_assert_eq(heap_quota(b.heap, b.space->number, has + more), STATUS_OK);
            j.worker_count = 5;
            if (run_job(&j, 1) == STATUS_OK) {
                struct spread_reply r = reply_of(&j);
                const char *wrong = spread_reply_wrong(b.graph, &a.c, &r);
                cr_assert_null(wrong, "%s", wrong);
                answered++;
            } else {
                cr_assert_eq(j.failure.code, STATUS_RESOURCE_EXHAUSTED);
                cr_assert_eq(j.failure.detail, DETAIL_QUOTA, "%s", j.failure.text);
                refused++;
            }
            run_job_reset(&j);
        }
        heap_quota(b.heap, b.space->number, 0);
    }
    cr_assert_gt(answered, 2);
    cr_assert_gt(refused, 2);
    close_bench(&b);
}

/* Each of them fails once: a refusal, or another way to the right answer, and nothing stays behind. */
Test(op_spread, every_failure_in_turn, .timeout = 120)
{
    struct bench b = open_bench(500, 8000, false, 6);
    struct asked a;
    unsigned refused = 0, answered = 0;
    for (int which = 0; which < 4; which++) {
        ask(&a, which % 2 ? SPREAD_LINEAR : SPREAD_ENGRAM, 3);
        a.c.how.paths = true;
        a.c.seed_count = 6;
        if (which / 2) a.c.offsets = NULL;
        a.c.sets = 3;
        for (uint64_t s = 0; s < 3; s++)
            a.offsets[s + 1] = 2 * s + 2;
        for (int i = 0; i < 6; i++)
            a.seeds[i] = b.ids[i * 9];
        struct job j = job_of(&b, &a.c);
        for (uint32_t nth = 1;; nth++) {
            j.worker_count = 1 + nth % 3;
            fault_arm(nth);
            enum status st = run_job(&j, nth);
            bool fired = fault_fired() != NULL;
            fault_arm(0);
            if (st) {
                cr_assert(fired && st == STATUS_RESOURCE_EXHAUSTED, "%s", j.failure.text);
                cr_assert_eq(j.failure.detail, DETAIL_MEMORY);
                refused++;
            } else {
                struct spread_reply r = reply_of(&j);
                const char *wrong = spread_reply_wrong(b.graph, &a.c, &r);
                cr_assert_null(wrong, "%s", wrong);
                answered++;
            }
            run_job_reset(&j);
            if (!fired) break;
            cr_assert_lt(nth, 200);
        }
    }
    cr_assert(refused >= 4 && answered > 4, "%u refused, %u answered", refused, answered);
    close_bench(&b);
}

Test(op_spread, time_that_is_up_truncates)
{
    struct bench b = open_bench(1000, 10000, false, 4);
    struct asked a;
    ask(&a, SPREAD_LINEAR, 100);
    a.c.how.decay = DECAY_CONSTANT;
    a.c.how.thresholds[0] = 0;
    a.c.offsets = NULL;
    a.c.seed_count = 1;
    a.seeds[0] = b.ids[0];
    struct job j = job_of(&b, &a.c);
    j.deadline_ns = 1; /* long ago */
    for (uint32_t workers = 1; workers <= 3; workers += 2) {
        j.worker_count = workers;
        cr_assert_eq(run_job(&j, 1), STATUS_OK);
        cr_assert_eq(((uint8_t *)j.result.tensors[8].data)[0], 1);
        cr_assert_lt(j.result.tensors[1].rows, 1000);
        run_job_reset(&j);
    }
    j.deadline_ns = 0;
    j.request.spread.time_max_us = UINT64_MAX;
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    cr_assert_eq(((uint8_t *)j.result.tensors[8].data)[0], 0);
    run_job_reset(&j);
    close_bench(&b);
}

Test(op_spread, cancelled_it_leaves_nothing)
{
    struct bench b = open_bench(1000, 10000, false, 4);
    struct asked a;
    ask(&a, SPREAD_ENGRAM, 4);
    a.c.seed_count = 4;
    a.c.sets = 2;
    a.offsets[1] = 2;
    a.offsets[2] = 4;
    for (int i = 0; i < 4; i++)
        a.seeds[i] = b.ids[i];
    struct job j = job_of(&b, &a.c);
    for (int one = 0; one < 2; one++) {
        atomic_store(&j.cancelled, true);
        run_job(&j, 1);
        cr_assert_null(j.result.block.data);
        run_job_reset(&j);
        atomic_store(&j.cancelled, false);
        cr_assert_eq(run_job(&j, 1), STATUS_OK);
        run_job_reset(&j);
        j.request.offsets = (struct tensor){0};
    }
    close_bench(&b);
}
