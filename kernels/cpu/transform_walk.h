/* transform_walk: the passes of transform.h over lanes of columns.
 * Owner:  included by one variant at a time, below its lanes (transform_lanes_*.h), and compiled
 *         with that variant's flags; everything is static.
 * Thread: any; no state.
 * Errors: none.
 *
 * Arrays have HRR_SLACK floats behind them: whole lanes are read there, and never written. */
#ifndef ENGRAM_KERNELS_CPU_TRANSFORM_WALK_H
#define ENGRAM_KERNELS_CPU_TRANSFORM_WALK_H

#include "kernels/transform.h"
#include "kernels/transform_codelets.h"

/* Complex numbers, their parts apart. */
struct split {
    float *re, *im;
};

TRANSFORM_INLINE struct split split_at(struct split s, size_t at)
{
    return (struct split){s.re + at, s.im + at};
}

TRANSFORM_INLINE void split_store(struct split to, struct transform_point x, size_t count)
{
    if (count >= LANES) {
        lane_store(to.re, x.re);
        lane_store(to.im, x.im);
    } else {
        lane_store_part(to.re, x.re, count);
        lane_store_part(to.im, x.im, count);
    }
}

/* A pass that is not the last. */
struct columns {
    struct split from, to;
    size_t groups;      /* transforms left by the passes before */
    size_t columns;     /* S, of each */
    const float *roots; /* cosines, then sines (radix - 1) columns later */
};

TRANSFORM_INLINE void column_block(uint32_t radix, const struct columns *c, size_t group, size_t at,
                                   size_t count)
{
    struct transform_point x[32], y[32];
    struct split from = split_at(c->from, group * radix * c->columns + at);
    struct split to = split_at(c->to, group * c->columns + at);
    const float *cosines = c->roots + at, *sines = cosines + (radix - 1) * c->columns;
    TRANSFORM_UNROLL
    for (uint32_t h = 0; h < radix; h++) {
        x[h].re = lane_load(from.re + h * c->columns);
        x[h].im = lane_load(from.im + h * c->columns);
    }
    codelet(radix, x, y);
    split_store(to, y[0], count);
    TRANSFORM_UNROLL
    for (uint32_t g = 1; g < radix; g++) {
        size_t root = (g - 1) * c->columns;
        split_store(split_at(to, g * c->groups * c->columns),
                    point_turn_lanes(y[g], lane_load(cosines + root), lane_load(sines + root)),
                    count);
    }
}

TRANSFORM_INLINE void column_walk(uint32_t radix, const struct columns *c)
{
    for (size_t group = 0; group < c->groups; group++) {
        size_t at = 0;
        for (; at + LANES <= c->columns; at += LANES)
            column_block(radix, c, group, at, LANES);
        if (at < c->columns) column_block(radix, c, group, at, c->columns - at);
    }
}

/* The last pass: `rows` transforms of neighbours, whose results lie `rows` apart. */
struct rows {
    struct split from, to;
    size_t rows;
};

TRANSFORM_INLINE void row_block(uint32_t radix, const struct rows *r, size_t at, size_t count)
{
    struct transform_point x[32], y[32];
    lane re[32], im[32];
    int32_t offsets[LANES];
    for (size_t l = 0; l < LANES; l++)
        offsets[l] = (int32_t)((l < count ? at + l : at) * radix);
    if (radix >= LANES) {
        TRANSFORM_UNROLL
        for (uint32_t i = 0; i < radix; i += LANES) {
            uint32_t first = i + LANES <= radix ? i : radix - LANES;
            lane_tile(r->from.re + first, offsets, re + first);
            lane_tile(r->from.im + first, offsets, im + first);
        }
    } else {
        TRANSFORM_UNROLL
        for (uint32_t i = 0; i < radix; i++) {
            re[i] = lane_gather(r->from.re + i, offsets);
            im[i] = lane_gather(r->from.im + i, offsets);
        }
    }
    TRANSFORM_UNROLL
    for (uint32_t i = 0; i < radix; i++)
        x[i] = (struct transform_point){re[i], im[i]};
    codelet(radix, x, y);
    TRANSFORM_UNROLL
    for (uint32_t g = 0; g < radix; g++)
        split_store(split_at(r->to, g * r->rows + at), y[g], count);
}

TRANSFORM_INLINE void row_walk(uint32_t radix, const struct rows *r)
{
    size_t at = 0;
    for (; at + LANES <= r->rows; at += LANES)
        row_block(radix, r, at, LANES);
    if (at < r->rows) row_block(radix, r, at, r->rows - at);
}

/* One of each radix, as plans have them. */
#define TRANSFORM_PASSES(X) X(2) X(3) X(4) X(5) X(7) X(8) X(9) X(16) X(20) X(24) X(25) X(32)
#define TRANSFORM_FUNCTIONS(radix)                           \
    static void column_pass_##radix(const struct columns *c) \
    {                                                        \
        column_walk(radix, c);                               \
    }                                                        \
    static void row_pass_##radix(const struct rows *r)       \
    {                                                        \
        row_walk(radix, r);                                  \
    }
TRANSFORM_PASSES(TRANSFORM_FUNCTIONS)

static void column_pass(uint32_t radix, const struct columns *c)
{
    switch (radix) {
#define TRANSFORM_COLUMN(radix) \
    case radix: column_pass_##radix(c); break;
        TRANSFORM_PASSES(TRANSFORM_COLUMN)
    }
}

static void row_pass(uint32_t radix, const struct rows *r)
{
    switch (radix) {
#define TRANSFORM_ROW(radix) \
    case radix: row_pass_##radix(r); break;
        TRANSFORM_PASSES(TRANSFORM_ROW)
    }
}

/* to = F(from); from stays as it is, other is scratch, and the three are apart. */
static void transform(const struct transform_plan *plan, const float *roots, struct split from,
                      struct split other, struct split to)
{
    struct columns c = {.from = from, .groups = 1, .columns = plan->points};
    for (uint32_t i = 0; i + 1 < plan->passes; i++) {
        c.columns /= plan->radix[i];
        c.roots = roots + plan->roots[i];
        c.to = (plan->passes - i) % 2 == 0 ? other : to;
        column_pass(plan->radix[i], &c);
        c.from = c.to;
        c.groups *= plan->radix[i];
    }
    struct rows r = {.from = c.from, .to = to, .rows = c.groups};
    row_pass(plan->radix[plan->passes - 1], &r);
}

#endif
