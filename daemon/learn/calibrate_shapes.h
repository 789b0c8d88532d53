/* calibrate_shapes: what calibration measures: which requests, on which collections and graphs.
 * Owner:  calibrate.
 * Thread: the loop; trial_fill and trial_clear run on workers.
 * Errors: trial_fill: in the job's failure. */
#ifndef ENGRAM_LEARN_CALIBRATE_SHAPES_H
#define ENGRAM_LEARN_CALIBRATE_SHAPES_H

#include "daemon/base/job.h"

enum {
    GROUNDS = 6,             /* collections, then graphs */
    GROUND_DIMENSION = 256,  /* the widest */
    GROUND_ROWS_MAX = 16384, /* the longest; rows are powers of 2 */
    CHUNK_ROWS = 1024,       /* that one step of a worker makes: about 2 ms */
    TRIAL_QUERIES_MAX = 64,
    TRIAL_SHAPES = 74,
};

struct ground {
    uint32_t dimension; /* 0: a graph */
    uint32_t rows;      /* or nodes */
    uint32_t degree;    /* edges that lead out of each node */
};
extern const struct ground grounds[GROUNDS];
/* Where memory is scarce the longer ones have a 2^shift-th of their rows. */
enum { SHIFT_STEP = 2, SHIFT_MAX = 4 };
uint32_t ground_rows(uint32_t ground, uint32_t shift);

/* k 10, all scores, lists, an average, spreads in both modes. */
struct trial {
    enum operation operation; /* as work has it: OPERATION_SPREAD_ENGRAM is one of its own */
    uint32_t ground;
    uint32_t queries; /* or seed sets; 0: an average */
    uint32_t listed;  /* rows in each list, seeds in each set */
    uint32_t hops;
};
extern const struct trial trials[TRIAL_SHAPES];

/* Results and scratch of the largest, about. */
#define TRIAL_RESULT_BYTES (UINT64_C(8) << 20)

/* Of one block, which begins with random numbers. */
uint64_t trial_memory_bytes(void);
/* Of all of it together, about. */
uint64_t trial_field_bytes(uint32_t shift);
/* Makes j's request in the block, one at a time. False: there are fewer rows than it lists. */
bool trial_request(const struct trial *t, uint32_t shift, void *memory, struct job *j);

/* A step of a worker: adds rows [first, first + count) to j's collection, or the edges out of so
 * many nodes to its graph, which is that ground; count <= CHUNK_ROWS, made in memory. */
void trial_set_fill(struct job *j, uint32_t ground, uint32_t shift, uint64_t first, uint64_t count,
                    void *memory);
void trial_fill(struct job *j);
/* A step of a worker: the slow part of a drop. */
void trial_clear(struct job *j);

#endif
