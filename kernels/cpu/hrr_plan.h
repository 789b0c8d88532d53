/* hrr_plan: the tables of one dimension, and what a worker needs beside them.
 * Owner:  whoever owns the memory; immutable.
 * Thread: any.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_HRR_PLAN_H
#define ENGRAM_KERNELS_CPU_HRR_PLAN_H

#include "kernels/hrr.h"
#include "kernels/transform.h"

/* Floats past the end of each array that whole lanes may read and write. */
enum { HRR_SLACK = 32 };

struct hrr_plan {
    uint32_t dimension;
    uint32_t length; /* N */
    uint32_t points; /* M */
    int32_t width;   /* w: 2^w is the least power of two that is at least M */
    float factor;    /* f = 2^w / M, rounded */
    bool planned;    /* N = dimension */
    struct transform_plan transform;
    /* Where tables begin, in floats from the plan's first byte. */
    uint32_t roots;         /* transform_roots_make's */
    uint32_t product_roots; /* cos 2 pi k / M, k = 0..M / 2, then sin, `product_step` apart */
    uint32_t product_step;
    uint32_t exact_roots; /* cos 2 pi k / d, k < M, then sin, `exact_step` apart; planned alone */
    uint32_t exact_step;
    uint32_t end;
};

/* M numbers and slack, a multiple of 16. */
static inline size_t hrr_plan_array(uint32_t points)
{
    return ((size_t)points + HRR_SLACK + 15) / 16 * 16;
}

static inline const float *hrr_plan_table(const struct hrr_plan *plan, uint32_t from)
{
    return (const float *)(const void *)plan + from;
}

#endif
