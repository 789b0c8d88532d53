/* Every failure of every change to a graph, in turn: it is as it was, to the byte, or as it should
 * be; and no change loses or keeps memory that it should not. */
#include "daemon/store/graph.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "tests/support/graph_model.h"
#include "tests/support/sweep.h"

#define MIB (UINT64_C(1) << 20)

enum { BATCH_MAX = 4096 };
struct batch {
    uint64_t sources[BATCH_MAX], targets[BATCH_MAX], n;
    float weights[BATCH_MAX];
};

/* Nodes [first, first + range), in an order that a computer would not choose. */
static void fill(struct batch *b, uint64_t n, uint64_t first, uint64_t range)
{
    b->n = n;
    for (uint64_t i = 0; i < n; i++) {
        b->sources[i] = first + i * 7919 % range;
        b->targets[i] = first + (i * i + 3) % range;
        b->weights[i] = (float)(i % 13) - 6;
    }
}

struct scene {
    struct heap *heap;
    struct store *store;
    struct graph *graph;
    struct graph_model *model;
    struct batch batch;
};

/* ---- what is tried ---- */

static enum status finish(enum status st, const struct failure *f)
{
    if (st) {
        cr_assert_eq(st, STATUS_RESOURCE_EXHAUSTED);
        cr_assert(f->detail == DETAIL_MEMORY || f->detail == DETAIL_QUOTA);
        cr_assert(strstr(f->text, "no memory for"));
    }
    return st;
}

static enum status add(struct scene *s, bool replace)
{
    struct batch *b = &s->batch;
    struct graph_counts counts = {0}, expected;
    struct failure f = {0};
    enum status st =
        graph_add_edges(s->graph, b->sources, b->targets, b->weights, b->n, replace, &counts, &f);
    if (st) return finish(st, &f);
    expected = model_add(s->model, b->sources, b->targets, b->weights, b->n, replace);
    cr_assert(counts_equal(counts, expected));
    return st;
}

static enum status add_few(struct scene *s)
{
    fill(&s->batch, 40, 90, 60); /* some nodes are there */
    return add(s, false);
}

static enum status add_some(struct scene *s)
{
    fill(&s->batch, 300, 50, 700);
    return add(s, false);
}

static enum status add_counted(struct scene *s)
{
    struct batch *b = &s->batch;
    fill(b, 300, 0, 90);
    uint64_t doubled = model_count_doubled(s->model, b->sources, b->targets, b->n);
    struct graph_counts counts = {0}, expected;
    struct failure f = {0};
    enum status st =
        graph_add_counted(s->graph, b->sources, b->targets, b->weights, b->n, &counts, &f);
    if (st) return finish(st, &f);
    expected = model_add(s->model, b->sources, b->targets, b->weights, b->n, false);
    expected.edges_doubled = doubled;
    cr_assert(doubled > 0 && counts_equal(counts, expected));
    return st;
}

static enum status replace_some(struct scene *s)
{
    fill(&s->batch, 200, 0, 100);
    return add(s, true);
}

static enum status add_many(struct scene *s)
{
    fill(&s->batch, 3000, 20, 900);
    return add(s, false);
}

/* So many new nodes that the index has to grow, and to shrink if they do not stay. */
static enum status add_wide(struct scene *s)
{
    fill(&s->batch, 2200, 5000, 4400);
    for (uint64_t i = 0; i < s->batch.n; i++)
        s->batch.targets[i] = 20000 + i;
    return add(s, false);
}

static enum status replace_many(struct scene *s)
{
    fill(&s->batch, 3000, 0, 100);
    return add(s, true);
}

static enum status add_matrix(struct scene *s)
{
    struct batch *b = &s->batch;
    uint64_t offsets[301], ids[300], columns[1200], n = 0;
    for (uint64_t row = 0; row < 300; row++) {
        offsets[row] = n;
        ids[row] = row * 3 + 1;
        for (uint64_t i = 0; i < row % 9; i++, n++) {
            columns[n] = (row * row + i) % 300;
            b->sources[n] = row * 3 + 1;
            b->targets[n] = columns[n] * 3 + 1;
            b->weights[n] = (float)n;
        }
    }
    offsets[300] = n;
    struct graph_counts counts = {0}, expected, made;
    struct failure f = {0};
    enum status st =
        graph_add_csr(s->graph, ids, 300, offsets, columns, b->weights, n, false, &counts, &f);
    if (st) return finish(st, &f);
    expected = model_add(s->model, b->sources, b->targets, b->weights, n, false);
    made = model_set(s->model, ids, NULL, NULL, 300);
    s->model->version--;
    expected.nodes_added += made.nodes_added;
    cr_assert(counts_equal(counts, expected));
    return st;
}

static enum status set_nodes(struct scene *s)
{
    uint64_t ids[200];
    uint8_t kinds[200];
    float factors[200];
    for (uint64_t i = 0; i < 200; i++) {
        ids[i] = i * 5;
        kinds[i] = (uint8_t)(i % 3);
        factors[i] = (float)i / 16;
    }
    struct graph_counts counts = {0}, expected;
    struct failure f = {0};
    enum status st = graph_set_nodes(s->graph, ids, kinds, factors, 200, &counts, &f);
    if (st) return finish(st, &f);
    expected = model_set(s->model, ids, kinds, factors, 200);
    cr_assert(counts_equal(counts, expected));
    return st;
}

/* These can fail beside a reader only, whatever does not go well inside. */
static enum status remove_edges(struct scene *s)
{
    struct batch *b = &s->batch;
    fill(b, 600, 0, 110);
    struct graph_counts counts;
    struct failure f = {0};
    enum status st = graph_remove_edges(s->graph, b->sources, b->targets, b->n, &counts, &f);
    if (st) return finish(st, &f);
    cr_assert(counts_equal(counts, model_remove(s->model, b->sources, b->targets, b->n)));
    return STATUS_OK;
}

static enum status remove_nodes(struct scene *s)
{
    struct batch *b = &s->batch;
    fill(b, 600, 10, 60);
    struct graph_counts counts;
    struct failure f = {0};
    enum status st = graph_remove_nodes(s->graph, b->sources, b->n, &counts, &f);
    if (st) return finish(st, &f);
    cr_assert(counts_equal(counts, model_remove_nodes(s->model, b->sources, b->n)));
    return STATUS_OK;
}

static enum status scale(struct scene *s)
{
    struct failure f = {0};
    enum status st = graph_scale(s->graph, 0.5f, &f);
    return st ? finish(st, &f) : model_scale(s->model, 0.5f);
}

static enum status prune(struct scene *s)
{
    struct graph_counts counts;
    struct failure f = {0};
    enum status st = graph_prune(s->graph, -2, &counts, &f);
    if (st) return finish(st, &f);
    cr_assert(counts_equal(counts, model_prune(s->model, -2)));
    return STATUS_OK;
}

/* ---- what is there before ---- */

static void begin_empty(struct scene *s) {}

static void begin_small(struct scene *s)
{
    fill(&s->batch, 900, 0, 100);
    cr_assert_eq(add(s, false), STATUS_OK);
}

/* Nobody's numbers, rooms and holes, kinds. */
static void begin_worn(struct scene *s)
{
    begin_small(s);
    cr_assert_eq(set_nodes(s), STATUS_OK);
    cr_assert_eq(add_some(s), STATUS_OK);
    uint64_t ids[40];
    for (uint64_t i = 0; i < 40; i++)
        ids[i] = i * 2;
    struct graph_counts counts;
    model_remove_nodes(s->model, ids, 40);
    graph_remove_nodes(s->graph, ids, 40, &counts, NULL);
}

/* read: while a reader has pinned what is there before. */
static void try_one(void (*begin)(struct scene *), enum status (*change)(struct scene *), bool read)
{
    static struct graph_model model, seen;
    static struct scene s;
    for (uint32_t nth = 1;; nth++) {
        s = (struct scene){.model = &model};
        model = (struct graph_model){0};
        struct space *space = NULL;
        cr_assert_eq(heap_create(64 * MIB, &s.heap), STATUS_OK);
        cr_assert_eq(store_create(s.heap, vectors_variant(0), &s.store), STATUS_OK);
        cr_assert_eq(store_space(s.store, "test", &space), STATUS_OK);
        cr_assert_eq(store_graph_create(s.store, space, "g", NULL, &s.graph), STATUS_OK);
        begin(&s);
        struct graph_shadow shadow = {0};
        shadow_follow(&shadow, s.graph, 0);
        struct heap_usage before = heap_usage(s.heap);
        struct graph_edition *pinned = read ? graph_pin(s.graph) : NULL;
        seen = model;

        fault_arm(nth);
        enum status st = change(&s);
        bool fired = fault_fired() != NULL;
        fault_arm(0);
        if (st) {
            cr_assert(fired);
            cr_assert_eq(resident_dirty_bytes(graph_resident(s.graph)), 0);
            struct heap_usage now = heap_usage(s.heap);
            uint64_t outside = now.bytes_outside - before.bytes_outside;
            uint64_t grown = now.bytes_used - before.bytes_used - outside;
            cr_assert(graph_nodes(graph_now(s.graph)) ? grown <= MIB : grown == 0);
            cr_assert_leq(outside, MIB);
        }
        model_check(&model, s.graph);
        shadow_follow(&shadow, s.graph, 0);
        if (pinned) model_check_edition(&seen, pinned);
        cr_assert_eq(change(&s), STATUS_OK); /* nothing is in the way of the next */
        model_check(&model, s.graph);
        shadow_follow(&shadow, s.graph, 0);
        shadow_finish(&shadow);
        if (pinned) model_check_edition(&seen, pinned);
        if (pinned) graph_release(pinned);

        store_destroy(s.store);
        cr_assert_eq(heap_usage(s.heap).blocks, 0);
        heap_destroy(s.heap);
        if (!fired) break;
        cr_assert(nth < 100);
    }
}

Test(graph_faults, leave_it_as_it_was, .timeout = 900)
{
    void (*const begins[])(struct scene *) = {begin_empty, begin_small, begin_worn};
    enum status (*const changes[])(struct scene *) = {
        add_few,    add_some,  add_counted,  replace_some, add_many, add_wide, replace_many,
        add_matrix, set_nodes, remove_edges, remove_nodes, scale,    prune};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        for (size_t k = 0; k < sizeof changes / sizeof *changes; k++)
            for (int read = 0; read < 2; read++)
                if ((i + k + (size_t)read) % sweep_stride(3) == 0)
                    try_one(begins[i], changes[k], read);
}

Test(graph_faults, leave_no_half_made_graph)
{
    for (uint32_t nth = 1;; nth++) {
        struct heap *heap;
        struct store *store;
        struct space *space;
        struct graph *g = NULL;
        struct failure f = {0};
        cr_assert_eq(heap_create(16 * MIB, &heap), STATUS_OK);
        cr_assert_eq(store_create(heap, vectors_variant(0), &store), STATUS_OK);
        cr_assert_eq(store_space(store, "test", &space), STATUS_OK);
        fault_arm(nth);
        enum status st = store_graph_create(store, space, "g", &f, &g);
        bool fired = fault_fired() != NULL;
        fault_arm(0);
        cr_assert_eq(st, fired ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK);
        cr_assert_eq(space->graph_count, fired ? 0 : 1);
        if (fired) cr_assert(f.detail == DETAIL_MEMORY && !g);
        store_destroy(store);
        heap_destroy(heap);
        if (!fired) break;
    }
}

/* A quota says that it is a quota, and what was there stays. */
Test(graph_faults, a_full_quota_is_told)
{
    static struct graph_model model;
    static struct scene s;
    s = (struct scene){.model = &model};
    struct space *space = NULL;
    cr_assert_eq(heap_create(64 * MIB, &s.heap), STATUS_OK);
    cr_assert_eq(store_create(s.heap, vectors_variant(0), &s.store), STATUS_OK);
    cr_assert_eq(store_space(s.store, "test", &space), STATUS_OK);
    cr_assert_eq(heap_quota(s.heap, space->number, 300000), STATUS_OK);
    cr_assert_eq(store_graph_create(s.store, space, "g", NULL, &s.graph), STATUS_OK);
    begin_small(&s);
    struct failure f = {0};
    struct graph_counts counts;
    uint32_t refused = 0;
    for (uint64_t first = 0; first < 40000 && !refused; first += 1000) {
        fill(&s.batch, 1000, first, 5000);
        struct batch *b = &s.batch;
        enum status st =
            graph_add_edges(s.graph, b->sources, b->targets, b->weights, b->n, false, &counts, &f);
        if (st) {
            cr_assert_eq(st, STATUS_RESOURCE_EXHAUSTED);
            cr_assert_eq(f.detail, DETAIL_QUOTA);
            refused++;
        } else {
            model_add(&model, b->sources, b->targets, b->weights, b->n, false);
        }
    }
    cr_assert_eq(refused, 1);
    model_check(&model, s.graph);
    store_destroy(s.store);
    cr_assert_eq(heap_usage(s.heap).blocks, 0);
    heap_destroy(s.heap);
}
