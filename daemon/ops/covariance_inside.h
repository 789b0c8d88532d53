/* covariance_inside: the state of a covariance, and what is known of it before it runs: checks,
 * work in numbers, memory.
 * Owner:  a job's scratch.
 * Thread: check, work, layout: the loop; the rest: workers, as a plan says.
 * Errors: INVALID_ARGUMENT: BAD_SHAPE, BAD_DIMENSION, BAD_WEIGHT, NOT_FINITE, NORM_OVERFLOW;
 *         FAILED_PRECONDITION/NO_ROWS; NOT_FOUND/UNKNOWN_ID; RESOURCE_EXHAUSTED/REPLY_TOO_LARGE. */
#ifndef ENGRAM_OPS_COVARIANCE_INSIDE_H
#define ENGRAM_OPS_COVARIANCE_INSIDE_H

#include "daemon/ops/operation_inside.h"
#include "daemon/ops/radix.h"
#include "daemon/ops/rows.h"
#include "kernels/covariance.h"

enum covariance_stage { COVARIANCE_SUMS, COVARIANCE_PRODUCTS, COVARIANCE_WRITE };

enum { COVARIANCE_STRIP = 256 }; /* columns that a part sums */

struct covariance_job {
    struct row_source rows; /* count and dimension; inline rows or the collection */
    const struct covariance_kernels *kernels;
    const float *weights; /* NULL: 1 each */
    uint64_t blocks;
    double total, divisor;
    bool in_order; /* a whole collection is stored by rising id */
    enum covariance_stage stage;

    /* sums: parts that check inline rows, then a part for each strip of each block */
    uint64_t check_rows, check_parts, strips;
    uint64_t buffers, buffer_bytes; /* worker */
    _Atomic uint64_t bad_row;

    /* products: a part is a tile of a range, which is a power of two of blocks */
    uint64_t sides, tiles; /* tiles of a side; those on and above the diagonal */
    uint64_t range_blocks, ranges;
    uint64_t levels; /* tiles that a worker keeps beside the one that it returns */
    uint64_t tile_numbers;

    /* places in scratch */
    uint64_t numbers; /* of rows, in their order; a collection's only */
    uint64_t items;   /* to sort them by id: twice as many; a whole collection's only */
    uint64_t sums;    /* block x dimension */
    uint64_t packs;   /* worker x two sides */
    uint64_t stacks;  /* worker x levels, tiles */
    uint64_t nodes;   /* range x tile */
};

static inline struct covariance_job *covariance_of(struct job *j)
{
    return j->plan.scratch.data;
}

/* Numbers of a tile that are used, if its right side has so many columns: every variant's
 * micro-tiles end there (kernels/cpu/covariance_loops.h). */
static inline size_t covariance_used(size_t right_columns)
{
    enum { EVERY = 24 };
    return (right_columns + EVERY - 1) / EVERY * EVERY * COVARIANCE_TILE;
}

/* ---- covariance_shapes.c ---- */

enum status covariance_check_request(struct job *j);
void covariance_work(const struct job *j, struct work *w);

/* What the request and its collection say. */
enum status covariance_begin(struct job *j, struct covariance_job *w);
/* Cuts the work into parts. Returns the bytes of scratch. */
uint64_t covariance_layout(const struct job *j, struct covariance_job *w);
/* The same if only the order of rows is made here. */
uint64_t covariance_layout_order(const struct job *j, struct covariance_job *w);

/* ---- covariance_gpu.c ---- */

enum status covariance_gpu_plan(struct job *j);
uint64_t covariance_gpu_pairs(const struct job *j);

/* ---- covariance_rows.c: what is done before the first row is added ---- */

/* Finds the rows of ids, or puts a collection's rows in the order of their ids; checks weights, and
 * sets total and divisor. */
enum status covariance_prepare(struct job *j, struct covariance_job *w);
/* Writes where rows [first, first + count) lie. */
void covariance_point(const struct job *j, const struct covariance_job *w, uint64_t first,
                      size_t count, const float **rows);

#endif
