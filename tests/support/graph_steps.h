/* graph_steps: random changes of a graph and its model, each of which must have the same effect on
 * both.
 * Owner:  a test.
 * Thread: one.
 * Errors: Criterion's assertions. */
#ifndef ENGRAM_TESTS_GRAPH_STEPS_H
#define ENGRAM_TESTS_GRAPH_STEPS_H

#include "tests/support/graph_model.h"

/* Edges between nodes [0, range), some of them hubs. */
enum { STEP_EDGES_MAX = 3000 };
struct step_batch {
    uint64_t sources[STEP_EDGES_MAX], targets[STEP_EDGES_MAX], n;
    float weights[STEP_EDGES_MAX];
};

/* One change of any kind; b: memory for it. */
void graph_step(struct graph_model *m, struct graph *g, struct step_batch *b, uint64_t range,
                unsigned *seed);

#endif
