/* calibrate_shapes: the trials of calibration: which requests, on which collections and graphs
 * (grounds).
 * Owner:  calibrate.
 * Thread: the loop; trial_fill and trial_clear run on workers.
 * Errors: trial_fill: in the job's failure. */
#ifndef ENGRAM_LEARN_CALIBRATE_SHAPES_H
#define ENGRAM_LEARN_CALIBRATE_SHAPES_H

#include "daemon/base/job.h"

enum {
    GROUNDS = 6,             /* first collections, then graphs */
    GROUND_DIMENSION = 256,  /* the widest */
    GROUND_ROWS_MAX = 16384, /* of the longest ground; rows are powers of 2 */
    CHUNK_ROWS = 1024,       /* made in one step of a worker, which takes about 2 ms */
    TRIAL_QUERIES_MAX = 64,
    TRIAL_SHAPES = 91,
};

struct ground {
    uint32_t dimension; /* 0: a graph */
    uint32_t rows;      /* or nodes */
    uint32_t degree;    /* edges that lead out of each node */
};
extern const struct ground grounds[GROUNDS];
/* If memory is scarce, the longer grounds have a 2^shift-th of their rows. */
enum { SHIFT_STEP = 2, SHIFT_MAX = 4 };
uint32_t ground_rows(uint32_t ground, uint32_t shift);

/* kNN with k = 10, all scores, lists, an average, spreads in both modes, pairs to bind,
 * states to complete in one round, the covariance of a ground, its
 * clusters. */
struct trial {
    enum operation operation; /* as in struct work: OPERATION_SPREAD_ENGRAM is separate */
    uint32_t ground;
    uint32_t queries; /* or seed sets; 0: an average, pairs, or a whole ground */
    uint32_t listed;  /* rows in each list, seeds in each set */
    uint32_t hops;
};
extern const struct trial trials[TRIAL_SHAPES];

/* About the results and scratch of the largest trial. */
#define TRIAL_RESULT_BYTES (UINT64_C(8) << 20)

/* Size of the block that requests are made in; it begins with random numbers. */
uint64_t trial_memory_bytes(void);
/* About the memory of all grounds together. */
uint64_t trial_field_bytes(uint32_t shift);
/* Makes j's request in the block, one at a time. False: the ground has fewer rows than it lists. */
bool trial_request(const struct trial *t, uint32_t shift, void *memory, struct job *j);

/* Sets j up for a step of a worker: adds rows [first, first + count) to j's collection, or the
 * edges that leave as many nodes to its graph, which is that ground; count <= CHUNK_ROWS, made in
 * memory. */
void trial_set_fill(struct job *j, uint32_t ground, uint32_t shift, uint64_t first, uint64_t count,
                    void *memory);
void trial_fill(struct job *j);
/* A step of a worker: clears j's collection or graph, the slow part of a drop. */
void trial_clear(struct job *j);

#endif
