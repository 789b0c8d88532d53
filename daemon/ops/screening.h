/* screening: the k best of many queries over a block of rows, computing canonical scores only for
 * rows that a cheap dot product does not rule out (kernels/screen.h). The result equals that of
 * exact scoring, bit for bit.
 * Owner:  the operation's scratch.
 * Thread: a screening is const while parts run; each worker has a state of its own.
 * Errors: none. */
#ifndef ENGRAM_OPS_SCREENING_H
#define ENGRAM_OPS_SCREENING_H

#include "daemon/ops/rows.h"
#include "kernels/screen.h"
#include "kernels/topk.h"

struct screening {
    struct screen screen;
    const struct vector_kernels *kernels;
    uint32_t dimension;
};

/* The state of one worker; zeroed before its first block. */
struct screening_state {
    uint32_t exact_left; /* blocks to score exactly before the screen is tried again */
    uint32_t exact_next; /* the next value of exact_left, should the screen be useless again */
    float floors[ROWS_BLOCK];
    const float *rows[ROWS_BLOCK];
    float norms[ROWS_BLOCK];
    uint64_t ids[ROWS_BLOCK];
    uint32_t positions[ROWS_BLOCK + 16];
};

/* A block of rows, for a set of queries and their candidates: one topk for each query. */
struct screening_block {
    const struct query_set *queries;
    struct topk *tops;
    struct row_block rows; /* at most ROWS_BLOCK */
    const uint64_t *ids;
    /* By query: NULL, or a bitmap in which bit first_row + i stands for row i. */
    const uint64_t *const *allowed;
    uint64_t first_row;
    float *scores; /* scratch: queries x ROWS_BLOCK */
};

/* True if screening is likely to be faster for k of row_count rows that one worker scans. */
bool screening_pays(const struct vector_kernels *kernels, enum metric metric, uint32_t dimension,
                    uint64_t query_count, uint64_t k, uint64_t row_count);

/* Offers each query every row that may be among its best. */
void screening_offer(const struct screening *s, struct screening_state *state,
                     const struct screening_block *b);

#endif
