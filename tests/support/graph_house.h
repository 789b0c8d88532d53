/* graph_house: a heap, a store, a space and a graph in it, and edges to load.
 * Owner:  a test.
 * Thread: one.
 * Errors: Criterion's assertions. */
#ifndef ENGRAM_TESTS_GRAPH_HOUSE_H
#define ENGRAM_TESTS_GRAPH_HOUSE_H

#include "daemon/store/graph.h"

#define MIB (UINT64_C(1) << 20)

struct house {
    struct heap *heap;
    struct store *store;
    struct space *space;
    struct graph *graph; /* "g", empty */
};
struct house open_house(uint64_t bytes_max);
/* All memory must come back. */
void close_house(struct house *h);
/* Of the heap's file: pages that are there. */
uint64_t heap_file_used(struct heap *h);

struct edges {
    uint64_t *sources, *targets, n;
    float *weights;
};
/* Pseudo-random, a few targets far more often than the others. */
struct edges draw_edges(uint64_t n, uint64_t nodes, unsigned seed);
void free_edges(struct edges *e);
struct graph_counts add_edges(struct graph *g, const struct edges *e, bool replace);

#endif
