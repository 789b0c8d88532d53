#include "tests/support/graph_house.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/stat.h>

struct house open_house(uint64_t bytes_max)
{
    struct house h = {0};
    cr_assert_eq(heap_create(bytes_max, &h.heap), STATUS_OK);
    cr_assert_eq(store_create(h.heap, vectors_variant(0), &h.store), STATUS_OK);
    cr_assert_eq(store_space(h.store, "test", &h.space), STATUS_OK);
    cr_assert_eq(store_graph_create(h.store, h.space, "g", NULL, &h.graph), STATUS_OK);
    return h;
}

void close_house(struct house *h)
{
    store_destroy(h->store);
    cr_assert_eq(heap_usage(h->heap).blocks, 0);
    heap_destroy(h->heap);
}

uint64_t heap_file_used(struct heap *h)
{
    struct stat st;
    cr_assert_eq(fstat(heap_fd(h), &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

struct edges draw_edges(uint64_t n, uint64_t nodes, unsigned seed)
{
    struct edges e = {malloc(n * 8), malloc(n * 8), n, malloc(n * 4)};
    for (uint64_t i = 0; i < n; i++) {
        double u = (double)rand_r(&seed) / RAND_MAX;
        e.sources[i] = (uint64_t)rand_r(&seed) % nodes;
        e.targets[i] = (uint64_t)((double)(nodes - 1) * u * u * u);
        e.weights[i] = (float)(rand_r(&seed) % 1000) / 1024;
    }
    return e;
}

void free_edges(struct edges *e)
{
    free(e->sources);
    free(e->targets);
    free(e->weights);
}

struct graph_counts add_edges(struct graph *g, const struct edges *e, bool replace)
{
    struct graph_counts counts;
    cr_assert_eq(
        graph_add_edges(g, e->sources, e->targets, e->weights, e->n, replace, &counts, NULL),
        STATUS_OK);
    return counts;
}
