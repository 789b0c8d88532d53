/* Workspaces: zero when they are new, kept a few, given up when outgrown, counted. */
#include "daemon/store/graph.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "tests/support/sweep.h"

#define MIB (UINT64_C(1) << 20)

struct house {
    struct heap *heap;
    struct store *store;
    struct graph *graph;
};

static struct house open_house(void)
{
    struct house h = {0};
    struct space *space;
    cr_assert_eq(heap_create(256 * MIB, &h.heap), STATUS_OK);
    cr_assert_eq(store_create(h.heap, vectors_variant(0), &h.store), STATUS_OK);
    cr_assert_eq(store_space(h.store, "test", &space), STATUS_OK);
    cr_assert_eq(store_graph_create(h.store, space, "g", NULL, &h.graph), STATUS_OK);
    return h;
}

static void close_house(struct house *h)
{
    store_destroy(h->store);
    cr_assert_eq(heap_usage(h->heap).blocks, 0);
    heap_destroy(h->heap);
}

static void grow(struct graph *g, uint64_t first, uint64_t nodes)
{
    struct graph_counts counts;
    for (uint64_t i = first; i < nodes; i++)
        cr_assert_eq(graph_set_nodes(g, &i, NULL, NULL, 1, &counts, NULL), STATUS_OK);
}

static void check_zero(const struct spread_workspace *w)
{
    const char *bytes = w->memory;
    cr_assert_eq((uintptr_t)bytes % 64, 0);
    uint64_t n = spread_workspace_bytes(w->nodes);
    cr_assert(bytes[0] == 0 && memcmp(bytes, bytes + 1, n - 1) == 0);
}

enum { EACH = 70, KEPT = 64 };

Test(graph_work, is_kept_and_given_up)
{
    struct house h = open_house();
    grow(h.graph, 0, 10);
    uint64_t blocks = heap_usage(h.heap).blocks;
    struct spread_workspace w[EACH], one;
    for (int i = 0; i < EACH; i++) {
        cr_assert_eq(graph_take_workspace(graph_now(h.graph), &w[i]), STATUS_OK);
        cr_assert(w[i].nodes >= 10);
        check_zero(&w[i]);
        for (int k = 0; k < i; k++)
            cr_assert_neq(w[i].memory, w[k].memory);
    }
    cr_assert_eq(heap_usage(h.heap).blocks, blocks + EACH);
    cr_assert(graph_info(h.graph).work_bytes >= EACH * spread_workspace_bytes(10));
    for (int i = 0; i < EACH; i++)
        graph_give_workspace(graph_now(h.graph), &w[i]);
    cr_assert_eq(graph_workspaces_kept(graph_now(h.graph)), KEPT);
    cr_assert_eq(heap_usage(h.heap).blocks, blocks + KEPT);
    uint64_t kept = graph_info(h.graph).work_bytes;
    cr_assert(kept >= KEPT * spread_workspace_bytes(10));
    cr_assert_eq(graph_take_workspace(graph_now(h.graph), &one), STATUS_OK);
    cr_assert_eq(heap_usage(h.heap).blocks, blocks + KEPT);
    graph_give_workspace(graph_now(h.graph), &one);
    cr_assert_null(one.memory);

    /* Outgrown: a new one, and the others go. */
    grow(h.graph, 10, 3000);
    blocks = heap_usage(h.heap).blocks - KEPT;
    cr_assert_eq(graph_take_workspace(graph_now(h.graph), &one), STATUS_OK);
    cr_assert(one.nodes >= 3000);
    graph_give_workspace(graph_now(h.graph), &one);
    cr_assert_eq(heap_usage(h.heap).blocks, blocks + 1);
    cr_assert(graph_info(h.graph).work_bytes < spread_workspace_bytes(5000));
    graph_clear(h.graph);
    cr_assert_eq(graph_info(h.graph).work_bytes, 0);
    cr_assert_eq(heap_usage(h.heap).blocks, 0);
    close_house(&h);
}

enum { LARGE = 3000000 };

static struct graph *make_large(struct house *h, struct space *space, const char *name)
{
    struct graph *g;
    cr_assert_eq(store_graph_create(h->store, space, name, NULL, &g), STATUS_OK);
    uint64_t *ids = malloc(LARGE * sizeof *ids);
    for (uint64_t i = 0; i < LARGE; i++)
        ids[i] = i;
    struct graph_counts counts;
    cr_assert_eq(graph_set_nodes(g, ids, NULL, NULL, LARGE, &counts, NULL), STATUS_OK);
    free(ids);
    return g;
}

/* Of three. */
static uint64_t keep_of_three(struct house *h, struct graph *g)
{
    uint64_t blocks = heap_usage(h->heap).blocks;
    struct spread_workspace w[3];
    for (int i = 0; i < 3; i++)
        cr_assert_eq(graph_take_workspace(graph_now(g), &w[i]), STATUS_OK);
    cr_assert(w[0].nodes >= LARGE);
    for (int i = 0; i < 3; i++)
        graph_give_workspace(graph_now(g), &w[i]);
    cr_assert(graph_info(g).work_bytes >= spread_workspace_bytes(LARGE));
    uint64_t kept = heap_usage(h->heap).blocks - blocks, said = graph_workspaces_kept(graph_now(g));
    cr_assert_eq(kept, said < 3 ? said : 3);
    return kept;
}

/* In a heap of so many GiB, with such a quota, or without: what a graph keeps, what another one
 * does then, and that when the first is gone. */
static uint64_t kept_of_large(uint64_t gib, uint64_t quota_gib)
{
    struct house h = {0};
    struct space *space;
    cr_assert_eq(heap_create(gib << 30, &h.heap), STATUS_OK);
    cr_assert_eq(store_create(h.heap, vectors_variant(0), &h.store), STATUS_OK);
    cr_assert_eq(store_space(h.store, "test", &space), STATUS_OK);
    cr_assert_eq(heap_quota(h.heap, space->number, quota_gib << 30), STATUS_OK);
    struct graph *first = make_large(&h, space, "first");
    uint64_t kept = keep_of_three(&h, first);
    struct graph *second = make_large(&h, space, "second");
    kept = kept * 10 + keep_of_three(&h, second);
    graph_clear(first);
    graph_clear(second);
    cr_assert_eq(space->work_bytes, 0);
    store_graph_unlink(h.store, space, first);
    graph_destroy(first);
    kept = kept * 10 + keep_of_three(&h, make_large(&h, space, "third"));
    close_house(&h);
    return kept;
}

Test(graph_work, of_large_graphs_an_eighth_of_the_memory_is_kept)
{
    cr_assert_eq(kept_of_large(2, 0), 111);
    if (sweep_is_quick()) return;
    cr_assert_eq(kept_of_large(6, 0), 212);
    cr_assert_eq(kept_of_large(16, 0), 333);
    cr_assert_eq(kept_of_large(16, 6), 212);
    cr_assert_eq(kept_of_large(16, 2), 111);
}

Test(graph_work, every_failure_is_told)
{
    struct house h = open_house();
    grow(h.graph, 0, 10);
    for (uint32_t nth = 1;; nth++) {
        struct spread_workspace w = {.nodes = 77};
        uint64_t blocks = heap_usage(h.heap).blocks;
        fault_arm(nth);
        enum status st = graph_take_workspace(graph_now(h.graph), &w);
        bool fired = fault_fired() != NULL;
        fault_arm(0);
        cr_assert_eq(st, fired ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK);
        if (!fired) {
            graph_give_workspace(graph_now(h.graph), &w);
            cr_assert_eq(nth, 3);
            break;
        }
        cr_assert_eq(w.nodes, 77);
        cr_assert_eq(heap_usage(h.heap).blocks, blocks);
    }
    close_house(&h);
}

static void *take_and_give(void *graph)
{
    for (int i = 0; i < 2000; i++) {
        struct spread_workspace w;
        cr_assert_eq(graph_take_workspace(graph_now(graph), &w), STATUS_OK);
        unsigned char *bytes = w.memory;
        cr_assert_eq(bytes[5]++, 0); /* nobody else has it */
        bytes[5]--;
        graph_give_workspace(graph_now(graph), &w);
    }
    return NULL;
}

Test(graph_work, is_for_one_at_a_time)
{
    struct house h = open_house();
    grow(h.graph, 0, 10);
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, take_and_give, h.graph), 0);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    close_house(&h);
}
