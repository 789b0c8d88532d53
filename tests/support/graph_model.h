/* graph_model: a graph as a naive list of edges and a list of nodes, walked for everything; and a
 * copy of a graph's parts that learns of changes by dirty runs alone, as a replica does.
 * Owner:  a test.
 * Thread: one.
 * Errors: Criterion's assertions. */
#ifndef ENGRAM_TESTS_GRAPH_MODEL_H
#define ENGRAM_TESTS_GRAPH_MODEL_H

#include "daemon/store/graph.h"

enum { MODEL_EDGES_MAX = 1 << 16, MODEL_NODES_MAX = 1 << 13 };

struct model_edge {
    uint64_t source, target;
    float weight;
};
struct model_node {
    uint64_t id;
    uint8_t kind;
    float factor;
};
struct graph_model {
    struct model_edge edges[MODEL_EDGES_MAX];
    struct model_node nodes[MODEL_NODES_MAX];
    uint64_t edge_count, node_count, version;
};

/* Each does what its namesake of graph.h says, and what that should have counted. */
struct graph_counts model_add(struct graph_model *m, const uint64_t *sources,
                              const uint64_t *targets, const float *weights, uint64_t n,
                              bool replace);
/* How many of them would come beside an edge that is there, or that stands before them. */
uint64_t model_count_doubled(const struct graph_model *m, const uint64_t *sources,
                             const uint64_t *targets, uint64_t n);
/* Applies nothing unless it returns OK; *bad: the first edge that cannot be changed. */
enum status model_add_weights(struct graph_model *m, const struct graph_deltas *d, float *weights,
                              struct graph_counts *out, uint64_t *bad);
enum status model_scale(struct graph_model *m, float factor);
struct graph_counts model_prune(struct graph_model *m, float below);
struct graph_counts model_remove(struct graph_model *m, const uint64_t *sources,
                                 const uint64_t *targets, uint64_t n);
struct graph_counts model_set(struct graph_model *m, const uint64_t *ids, const uint8_t *kinds,
                              const float *factors, uint64_t n);
struct graph_counts model_remove_nodes(struct graph_model *m, const uint64_t *ids, uint64_t n);

bool counts_equal(struct graph_counts a, struct graph_counts b);
/* Everything that can be asked of g is as the model has it, and its forms are whole. */
void model_check(const struct graph_model *m, const struct graph *g);
/* An edition, which may be an older one than the newest. */
void model_check_edition(const struct graph_model *m, const struct graph_edition *g);
/* Every window of the order has its own numbers. model_check looks at that, too. */
void model_check_order(const struct spread_graph *v);

struct graph_shadow {
    char *parts[GRAPH_PARTS];
    uint64_t bytes[GRAPH_PARTS];
};
/* Copies what is dirty, in runs of at most bytes_max, and then everything must be the same. Returns
 * how many bytes were copied. */
uint64_t shadow_follow(struct graph_shadow *s, struct graph *g, uint64_t bytes_max);
void shadow_finish(struct graph_shadow *s);

#endif
