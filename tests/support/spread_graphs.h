/* spread_graphs: made-up graphs in the form that spreads read, and runs of the CPU's engine over
 * them.
 * Owner:  the caller; spread_sample_free.
 * Thread: any; runs on threads start their own.
 * Errors: a failed allocation ends the process. */
#ifndef ENGRAM_TESTS_SUPPORT_SPREAD_GRAPHS_H
#define ENGRAM_TESTS_SUPPORT_SPREAD_GRAPHS_H

#include "kernels/cpu/spread_inside.h"
#include "tests/support/spread_reference.h"

struct spread_sample_edge {
    uint32_t source, target;
    float weight;
};

/* A graph and its arrays. Edges, kinds and factors are given; the rest is made of them. */
struct spread_sample {
    struct spread_graph graph;
    struct spread_list *out, *in;
    struct spread_edge *out_edges, *in_edges;
    uint64_t *ids;
    uint8_t *kinds;
    float *factors;
    uint32_t *order;
    uint32_t in_count_max;
};

/* kinds, factors: nodes, copied; or NULL. ids: node numbers scrambled, unless plain_ids. */
struct spread_sample spread_sample_of(uint32_t nodes, const struct spread_sample_edge *edges,
                                      uint64_t count, const uint8_t *kinds, const float *factors,
                                      bool plain_ids);
/* The edges of every list in another order. */
void spread_sample_shuffle(struct spread_sample *s, uint64_t *seed);
void spread_sample_free(struct spread_sample *s);

/* Edges by law; count of them, weights in (0, 1]. Free them. */
struct spread_sample_edge *spread_uniform_edges(uint32_t nodes, uint64_t count, uint64_t *seed);
/* Ends chosen so that degrees fall with a power of the rank, sources and targets each. */
struct spread_sample_edge *spread_power_edges(uint32_t nodes, uint64_t count, double power,
                                              uint64_t *seed);

/* Numbers nodes as a graph's readers expect it, those of many out-edges first (as many bits of it,
 * in the order that they had); edges go by the new numbers then. The new number of each; free
 * it. */
uint32_t *spread_number_edges(uint32_t nodes, struct spread_sample_edge *edges, uint64_t count);

/* How the engine runs; the answer is the same for all. */
struct spread_way {
    const struct spread_kernels *kernels;
    uint32_t threads; /* 0: all parts on this thread, in shuffled order; else so many */
    bool alone;       /* the run is told so; threads is 0 then */
    enum spread_hop hop;
    bool changing; /* instead: hop d pulls where bit d % 64 of pulls is set, else pushes */
    uint64_t pulls;
    uint64_t seed;       /* of the shuffle */
    uint64_t memory_max; /* 0: no bound on what the run may take; else it gets none beyond */
    uint64_t steps_max;  /* 0: to the end; else it is ended in that step, half of its parts run */
    uint64_t (*now_ns)(void *owner);
    const _Atomic(bool) *cancelled;
};

struct spread_ran {
    struct spread_answer answer;
    bool no_memory;
    uint64_t steps, parts, taken_bytes;
    uint64_t gave_way; /* times, the clearing included */
    bool clean;        /* the workspace was all zero afterwards */
};

struct spread_ran spread_sample_run(const struct spread_graph *g, const struct spread_question *q,
                                    const struct spread_way *way);

#endif
