/* superpose_loops: sums of rows by loops over columns, which the compiler vectorises with the
 * instructions of the file that includes them.
 * Owner:  included once by each superpose_VARIANT.c; everything is static.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_SUPERPOSE_LOOPS_H
#define ENGRAM_KERNELS_CPU_SUPERPOSE_LOOPS_H

#include "kernels/superpose.h"

#include <math.h>
#include <string.h>

#define SUPERPOSE_INLINE static inline __attribute__((always_inline))

enum {
    SUPERPOSE_TOGETHER = 4,   /* rows that are added to a column while its sum is in a register */
    SUPERPOSE_STEP = 64,      /* columns between prefetches: 256 bytes of each row */
    SUPERPOSE_COLUMNS = 4096, /* columns of a pass over a block, whose sums stay in the cache */
    /* Columns of the rows between the one that is added and the one that is prefetched: 32 KiB,
     * which memory takes some us to bring. They go to the second cache, which waits for more lines
     * at a time than the first can. */
    SUPERPOSE_AHEAD = 8192
};

/* Some of a list's rows, the same number of which, at `ahead`, are needed soon. */
struct superpose_group {
    const float *const *rows;
    const float *const *ahead;
    const float *weights; /* NULL: all are 1 */
};

SUPERPOSE_INLINE void superpose_step(int together, bool weighted, bool fresh,
                                     const struct superpose_group *group, size_t first,
                                     size_t columns, float *restrict sums)
{
    const float *rows[SUPERPOSE_TOGETHER];
    float weights[SUPERPOSE_TOGETHER];
#pragma GCC unroll 4
    for (int r = 0; r < together; r++) {
        rows[r] = group->rows[r] + first;
        weights[r] = weighted ? group->weights[r] : 1.0f;
    }
    for (size_t c = 0; c < columns; c++) {
        float sum = fresh ? 0.0f : sums[c];
#pragma GCC unroll 4
        for (int r = 0; r < together; r++)
            sum = weighted ? fmaf(weights[r], rows[r][c], sum) : sum + rows[r][c];
        sums[c] = sum;
    }
}

SUPERPOSE_INLINE void superpose_form(int together, bool weighted, bool fresh,
                                     const struct superpose_group *group, size_t first,
                                     size_t columns, float *sums)
{
    size_t c = 0;
    for (; c + SUPERPOSE_STEP <= columns; c += SUPERPOSE_STEP) {
#pragma GCC unroll 4
        for (int r = 0; r < together; r++) {
            for (int line = 0; line < SUPERPOSE_STEP; line += 16)
                __builtin_prefetch(group->ahead[r] + first + c + line, 0, 2);
        }
        superpose_step(together, weighted, fresh, group, first + c, SUPERPOSE_STEP, sums + c);
    }
    if (c < columns)
        superpose_step(together, weighted, fresh, group, first + c, columns - c, sums + c);
}

SUPERPOSE_INLINE void superpose_group(int together, bool fresh, const struct superpose_group *group,
                                      size_t first, size_t columns, float *sums)
{
    if (group->weights && fresh)
        superpose_form(together, true, true, group, first, columns, sums);
    else if (group->weights)
        superpose_form(together, true, false, group, first, columns, sums);
    else if (fresh)
        superpose_form(together, false, true, group, first, columns, sums);
    else
        superpose_form(together, false, false, group, first, columns, sums);
}

/* A block's sums of some columns. `known`: rows that may be prefetched, the block's included. */
static void superpose_columns(struct superpose_group group, size_t count, size_t known,
                              size_t first, size_t columns, float *sums)
{
    size_t distance = SUPERPOSE_AHEAD / columns + 1;
    if (distance < SUPERPOSE_TOGETHER) distance = SUPERPOSE_TOGETHER;
    if (count == 0) memset(sums, 0, columns * sizeof *sums);
    for (size_t i = 0; i < count;) {
        size_t left = count - i;
        size_t together = left >= 4 ? 4 : left >= 2 ? 2 : 1;
        bool soon = known - i >= distance + SUPERPOSE_TOGETHER;
        group.ahead = soon ? group.rows + distance : group.rows;
        if (together == 4)
            superpose_group(4, i == 0, &group, first, columns, sums);
        else if (together == 2)
            superpose_group(2, i == 0, &group, first, columns, sums);
        else
            superpose_group(1, i == 0, &group, first, columns, sums);
        i += together;
        group.rows += together;
        if (group.weights) group.weights += together;
    }
}

static void superpose_block(uint32_t dimension, struct superpose_group group, size_t count,
                            size_t known, float *sums)
{
    for (size_t first = 0; first < dimension; first += SUPERPOSE_COLUMNS) {
        size_t left = dimension - first;
        size_t columns = left < SUPERPOSE_COLUMNS ? left : SUPERPOSE_COLUMNS;
        superpose_columns(group, count, known, first, columns, sums + first);
    }
    memset(sums + dimension, 0, (vector_stride(dimension) - dimension) * sizeof *sums);
}

static void superpose_add(size_t stride, float *restrict left, const float *restrict right)
{
    for (size_t c = 0; c < stride; c++)
        left[c] = left[c] + right[c];
}

/* The tree, bottom up: a node waits for its neighbour, so that at most one of each level does. */
static void superpose_list(uint32_t dimension, struct superpose_group group, size_t count,
                           size_t known, float *scratch, float *sum)
{
    size_t stride = vector_stride(dimension), waiting = 0, block = 0, done = 0;
    do {
        float *node = waiting ? scratch + (waiting - 1) * stride : sum;
        size_t some = count - done < SUPERPOSE_BLOCK ? count - done : SUPERPOSE_BLOCK;
        superpose_block(dimension, group, some, known - done, node);
        waiting++, block++, done += some;
        group.rows += some;
        if (group.weights) group.weights += some;
        size_t whole = block;
        while (waiting > 1 && (whole % 2 == 0 || done == count)) {
            waiting--, whole /= 2;
            superpose_add(stride, waiting > 1 ? scratch + (waiting - 2) * stride : sum,
                          scratch + (waiting - 1) * stride);
        }
    } while (done < count);
}

static void sums(uint32_t dimension, const struct superpose_lists *lists, float *scratch,
                 float *out)
{
    const uint64_t *offsets = lists->offsets;
    for (size_t i = 0; i < lists->count; i++, out += vector_stride(dimension)) {
        struct superpose_group group = {
            .rows = lists->rows + offsets[i],
            .weights = lists->weights ? lists->weights + offsets[i] : NULL,
        };
        superpose_list(dimension, group, (size_t)(offsets[i + 1] - offsets[i]),
                       (size_t)(offsets[lists->count] - offsets[i]), scratch, out);
    }
}

static uint32_t largest(const float *numbers, size_t count)
{
    int32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t bits;
        memcpy(&bits, numbers + i, sizeof bits);
        bits &= INT32_MAX;
        most = bits > most ? bits : most;
    }
    return (uint32_t)most;
}

static void fold(uint32_t dimension, float *nodes, size_t count)
{
    size_t stride = vector_stride(dimension);
    for (; count > 1; count = (count + 1) / 2) {
        for (size_t i = 0; i < count / 2; i++) {
            if (i > 0) memcpy(nodes + i * stride, nodes + 2 * i * stride, stride * sizeof *nodes);
            superpose_add(stride, nodes + i * stride, nodes + (2 * i + 1) * stride);
        }
        if (count % 2)
            memmove(nodes + count / 2 * stride, nodes + (count - 1) * stride,
                    stride * sizeof *nodes);
    }
}

#endif
