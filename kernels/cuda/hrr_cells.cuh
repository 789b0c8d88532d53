/* hrr_cells: the phases of a bind for any plan, where all threads of a block work on one pair.
 * Owner, thread, errors: as hrr_phases.cuh. */
#ifndef ENGRAM_KERNELS_CUDA_HRR_CELLS_CUH
#define ENGRAM_KERNELS_CUDA_HRR_CELLS_CUH

#include "kernels/cuda/hrr_phases.cuh"

/* ---- any plan: all threads of a block work on one pair, and every pass goes through memory. */

/* Where cell number `at` of a spectrum lies, and how many cells it has. Rows of the last pass and
 * the columns whose first digits follow each other are moved apart by a cell, so that 16 threads
 * meet 16 banks; after a radix of 8 it is two cells, since then only 8 digits are neighbours. */
TRANSFORM_INLINE uint32_t cells_place(const struct transform_plan *plan, uint32_t at)
{
    const bool wide = plan->radix[plan->passes - 1] == 32;
    const uint32_t column = at >> (wide ? 9 : 8);
    return at + (at >> (wide ? 5 : 4)) + (plan->radix[0] == 8 ? 2 * column : column);
}

TRANSFORM_INLINE uint32_t cells_count(const struct transform_plan *plan)
{
    return (cells_place(plan, plan->points) + 1) / 2 * 2;
}

/* Where F(z)[k] lies. */
TRANSFORM_INLINE uint32_t place_of(const struct transform_plan *plan, uint32_t k)
{
    uint32_t at = 0, step = plan->points;
    PHASE_UNROLL
    for (uint32_t i = 0; i < TRANSFORM_PASSES_MAX; i++) {
        if (i >= plan->passes) break;
        step /= plan->radix[i];
        at += k % plan->radix[i] * step;
        k /= plan->radix[i];
    }
    return cells_place(plan, at);
}

TRANSFORM_INLINE float cells_largest(const float *row, uint32_t d, uint32_t t, uint32_t threads)
{
    float most = 0.0f;
    for (uint32_t i = t; i < d; i += threads)
        most = larger_of(most, row[i]);
    return most;
}

/* Element i of a row that zeros follow, scaled. */
TRANSFORM_INLINE float row_element(const float *row, bool turned, uint32_t d, float scale,
                                   uint32_t i)
{
    return i < d ? lane_multiply(row[turned && i > 0 ? d - i : i], scale) : 0.0f;
}

TRANSFORM_INLINE void cells_load(const struct transform_plan *plan, const float *row, bool turned,
                                 uint32_t d, float scale, uint32_t t, uint32_t threads,
                                 struct hrr_cell *cells)
{
    for (uint32_t n = t; n < plan->points; n += threads) {
        struct transform_point p = {row_element(row, turned, d, scale, 2 * n),
                                    row_element(row, turned, d, scale, 2 * n + 1)};
        cell_write(cells + cells_place(plan, n), p);
    }
}

/* A pass over all columns. */
struct hrr_pass {
    const struct hrr_cell *from;
    struct hrr_cell *to; /* = from, unless `digits` */
    bool digits;         /* from holds a spectrum, in the order of its digits */
    const float *roots;  /* cosines, then sines, as transform.h has them */
    uint32_t columns;    /* S */
    bool last;
};

TRANSFORM_INLINE void pass_columns(uint32_t radix, const struct transform_plan *plan,
                                   const struct hrr_pass *pass, uint32_t t, uint32_t threads)
{
    for (uint32_t i = t; i < plan->points / radix; i += threads) {
        struct transform_point x[32], y[32];
        const uint32_t n = i % pass->columns, at = (i - n) * radix + n;
        PHASE_UNROLL
        for (uint32_t h = 0; h < radix; h++) {
            uint32_t k = at + h * pass->columns;
            x[h] =
                cell_read(pass->from + (pass->digits ? place_of(plan, k) : cells_place(plan, k)));
        }
        codelet(radix, x, y);
        cell_write(pass->to + cells_place(plan, at), y[0]);
        PHASE_UNROLL
        for (uint32_t g = 1; g < radix; g++) {
            const float *root = pass->roots + (g - 1) * pass->columns + n;
            if (!pass->last)
                y[g] = point_turn_lanes(y[g], root[0], root[(radix - 1) * pass->columns]);
            cell_write(pass->to + cells_place(plan, at + g * pass->columns), y[g]);
        }
    }
}

/* Pass i of a plan, whose radix is not known before. */
TRANSFORM_INLINE void cells_pass(const struct transform_plan *plan, const struct hrr_pass *pass,
                                 uint32_t i, uint32_t t, uint32_t threads)
{
    switch (plan->radix[i]) {
    case 2: pass_columns(2, plan, pass, t, threads); break;
    case 3: pass_columns(3, plan, pass, t, threads); break;
    case 4: pass_columns(4, plan, pass, t, threads); break;
    case 5: pass_columns(5, plan, pass, t, threads); break;
    case 7: pass_columns(7, plan, pass, t, threads); break;
    case 8: pass_columns(8, plan, pass, t, threads); break;
    case 9: pass_columns(9, plan, pass, t, threads); break;
    case 16: pass_columns(16, plan, pass, t, threads); break;
    case 20: pass_columns(20, plan, pass, t, threads); break;
    case 24: pass_columns(24, plan, pass, t, threads); break;
    case 25: pass_columns(25, plan, pass, t, threads); break;
    case 32: pass_columns(32, plan, pass, t, threads); break;
    }
}

/* Pass i. */
TRANSFORM_INLINE struct hrr_pass cells_pass_of(const struct transform_plan *plan,
                                               const float *roots, uint32_t i,
                                               const struct hrr_cell *from, struct hrr_cell *to,
                                               bool digits)
{
    struct hrr_pass pass = {
        from, to, digits, roots + plan->roots[i], plan->points, i + 1 == plan->passes};
    PHASE_UNROLL
    for (uint32_t n = 0; n < TRANSFORM_PASSES_MAX; n++)
        pass.columns /= n <= i ? plan->radix[n] : 1;
    return pass;
}

/* X, its parts swapped, in the places of A. roots: cosines, then sines `step` later. */
TRANSFORM_INLINE void cells_product(const struct transform_plan *plan, const float *roots,
                                    uint32_t step, uint32_t t, uint32_t threads, struct hrr_cell *a,
                                    const struct hrr_cell *b)
{
    for (uint32_t k = t; k <= plan->points / 2; k += threads) {
        const uint32_t at_k = place_of(plan, k);
        const uint32_t at_j = place_of(plan, k == 0 ? 0 : plan->points - k);
        struct product_pair x =
            product_of(cell_read(a + at_k), cell_read(a + at_j), cell_read(b + at_k),
                       cell_read(b + at_j), roots[k], roots[step + k]);
        cell_write(a + at_j, swap_parts(x.high));
        cell_write(a + at_k, swap_parts(x.low));
    }
}

/* The quotient's X, its parts swapped, in the places of A; false: a power is below the limit.
 * roots: those of length d. */
TRANSFORM_INLINE bool cells_divide(const struct transform_plan *plan, const float *roots,
                                   uint32_t step, float limit, uint32_t t, uint32_t threads,
                                   struct hrr_cell *a, const struct hrr_cell *b)
{
    bool sound = true;
    for (uint32_t k = t; k <= plan->points / 2; k += threads) {
        const uint32_t j = k == 0 ? 0 : plan->points - k;
        const uint32_t at_k = place_of(plan, k), at_j = place_of(plan, j);
        struct transform_point yk = cell_read(a + at_k), yj = cell_read(a + at_j);
        struct transform_point zk = cell_read(b + at_k), zj = cell_read(b + at_j);
        struct exact_point low = exact_of(yk, yj, zk, zj, roots[k], roots[step + k]);
        struct exact_point high = exact_of(yj, yk, zj, zk, roots[j], roots[step + j]);
        sound = sound && low.here >= limit && high.here >= limit;
        sound = sound && (k > 0 || low.there >= limit);
        cell_write(a + at_j, swap_parts(high.x));
        cell_write(a + at_k, swap_parts(low.x));
    }
    return sound;
}

/* The norm's square of a scaled row, as hrr.h sums it, is the first of these after a fold. */
TRANSFORM_INLINE float cells_square_part(const float *row, uint32_t d, float scale, uint32_t part)
{
    float sum = 0.0f;
    for (uint32_t i = part; i < d; i += 32) {
        float x = lane_multiply(row[i], scale);
        sum = fmaf(x, x, sum);
    }
    return sum;
}

/* ---- of a product of several rows */

TRANSFORM_INLINE float cells_most(const struct transform_plan *plan, const struct hrr_cell *cells,
                                  uint32_t t, uint32_t threads)
{
    float most = 0.0f;
    for (uint32_t n = t; n < plan->points; n += threads) {
        struct transform_point p = cell_read(cells + cells_place(plan, n));
        most = larger_of(larger_of(most, p.re), p.im);
    }
    return most;
}

/* Scales all; swapped: their parts are swapped, too, which a product has left so. */
TRANSFORM_INLINE void cells_scale(const struct transform_plan *plan, float scale, bool swapped,
                                  uint32_t t, uint32_t threads, struct hrr_cell *cells)
{
    for (uint32_t n = t; n < plan->points; n += threads) {
        struct hrr_cell *at = cells + cells_place(plan, n);
        struct transform_point p = cell_read(at);
        if (swapped) p = swap_parts(p);
        p.re = lane_multiply(p.re, scale);
        p.im = lane_multiply(p.im, scale);
        cell_write(at, p);
    }
}

/* y[i] of hrr.h, from the inverse's result. */
TRANSFORM_INLINE float cells_element(const struct transform_plan *plan,
                                     const struct hrr_cell *cells, uint32_t i)
{
    struct transform_point p = cell_read(cells + place_of(plan, i / 2));
    return i % 2 ? p.re : p.im;
}

/* The result, folded if the length is not that of the row; returns the largest magnitude. */
TRANSFORM_INLINE float cells_write(const struct transform_plan *plan, const struct hrr_cell *cells,
                                   uint32_t d, struct hrr_scaling scaling, uint32_t t,
                                   uint32_t threads, float *out)
{
    float most = 0.0f;
    for (uint32_t i = t; i < d; i += threads) {
        float y = cells_element(plan, cells, i);
        if (d != 2 * plan->points) y = lane_add(y, cells_element(plan, cells, i + d));
        out[i] = scaled(y, scaling.before, scaling.factor);
        most = larger_of(most, out[i]);
    }
    return most;
}

/* The row u of a dimension without a plan, from the inverse's result, as points that zeros follow;
 * returns the largest magnitude. factor: f. */
TRANSFORM_INLINE float cells_fold(const struct transform_plan *plan, const struct hrr_cell *from,
                                  uint32_t d, float factor, uint32_t t, uint32_t threads,
                                  struct hrr_cell *to)
{
    float most = 0.0f;
    for (uint32_t n = t; n < plan->points; n += threads) {
        float u[2] = {0.0f, 0.0f};
        for (uint32_t i = 2 * n; i < 2 * n + 2 && i < d; i++)
            u[i % 2] =
                fmaf(lane_add(cells_element(plan, from, i), cells_element(plan, from, i + d)),
                     factor, 0.0f);
        struct transform_point p = {u[0], u[1]};
        most = larger_of(larger_of(most, p.re), p.im);
        cell_write(to + cells_place(plan, n), p);
    }
    return most;
}

#endif
