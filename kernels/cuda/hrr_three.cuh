/* hrr_three: the phases of a bind for M = R1 R2 R3 with constant radices, where R1 R2 threads work
 * on one pair. Every place in memory is a base of the thread's and a constant, so that places cost
 * no instructions: point g_1 R2 R3 + g_2 R3 + g_3 lies at g_1 `step` + g_2 `row` + g_3, and thread
 * t is the row whose digits g_1 and g_2 are t mod R1 and t / R1, which are the low digits of a k
 * that is t more than a multiple of R1 R2.
 * Owner, thread, errors: as hrr_phases.cuh. */
#ifndef ENGRAM_KERNELS_CUDA_HRR_THREE_CUH
#define ENGRAM_KERNELS_CUDA_HRR_THREE_CUH

#include "kernels/cuda/hrr_phases.cuh"

/* R2 R3 and R1 R3 are multiples of R1 R2, which is the number of threads. */
struct hrr_three {
    uint32_t first, second, third;
};

TRANSFORM_INLINE uint32_t three_threads(struct hrr_three s)
{
    return s.first * s.second;
}

TRANSFORM_INLINE uint32_t three_row(struct hrr_three s)
{
    return s.third | 1;
}

/* Sixteen threads meet sixteen banks; of a radix of 8 only 8 digits are neighbours. */
TRANSFORM_INLINE uint32_t three_step(struct hrr_three s)
{
    return s.second * three_row(s) + (s.first == 8 ? 2 : 1);
}

/* Cells of one spectrum. */
TRANSFORM_INLINE uint32_t three_cells(struct hrr_three s)
{
    return (s.first * three_step(s) + 1) / 2 * 2;
}

/* Columns of the first pass that a thread has; column c is number c threads + t. */
TRANSFORM_INLINE uint32_t three_columns(struct hrr_three s)
{
    return s.third / s.first;
}

/* Where the row of thread t begins. */
TRANSFORM_INLINE uint32_t three_base(struct hrr_three s, uint32_t t)
{
    return t % s.first * three_step(s) + t / s.first * three_row(s);
}

/* The first pass of this thread's columns, column c at c R1. roots: those of the pass. */
TRANSFORM_INLINE void three_first(struct hrr_three s, const struct transform_point *x,
                                  const float *roots, uint32_t t, struct hrr_cell *cells)
{
    const uint32_t columns = s.second * s.third;
    PHASE_UNROLL
    for (uint32_t c = 0; c < three_columns(s); c++) {
        struct transform_point y[32];
        const uint32_t n = c * three_threads(s) + t;
        struct hrr_cell *to = cells + n / s.third * three_row(s) + n % s.third;
        const float *root = roots + n;
        codelet(s.first, x + c * s.first, y);
        cell_write(to, y[0]);
        PHASE_UNROLL
        for (uint32_t g = 1; g < s.first; g++)
            cell_write(to + g * three_step(s),
                       point_turn_lanes(y[g], root[(g - 1) * columns],
                                        root[(g - 1 + s.first - 1) * columns]));
    }
}

TRANSFORM_INLINE void three_second(struct hrr_three s, const float *roots, uint32_t t,
                                   struct hrr_cell *cells)
{
    PHASE_UNROLL
    for (uint32_t c = 0; c < s.third / s.second; c++) {
        struct transform_point x[32], y[32];
        const uint32_t i = c * three_threads(s) + t, n = i % s.third;
        struct hrr_cell *at = cells + i / s.third * three_step(s) + n;
        const float *root = roots + n;
        PHASE_UNROLL
        for (uint32_t h = 0; h < s.second; h++)
            x[h] = cell_read(at + h * three_row(s));
        codelet(s.second, x, y);
        cell_write(at, y[0]);
        PHASE_UNROLL
        for (uint32_t g = 1; g < s.second; g++)
            cell_write(at + g * three_row(s),
                       point_turn_lanes(y[g], root[(g - 1) * s.third],
                                        root[(g - 1 + s.second - 1) * s.third]));
    }
}

/* The third pass of one row; neighbouring threads have neighbouring rows. */
TRANSFORM_INLINE void three_third(struct hrr_three s, uint32_t t, struct hrr_cell *cells)
{
    struct transform_point x[32], y[32];
    struct hrr_cell *at = cells + t / s.second * three_step(s) + t % s.second * three_row(s);
    PHASE_UNROLL
    for (uint32_t h = 0; h < s.third; h++)
        x[h] = cell_read(at + h);
    codelet(s.third, x, y);
    PHASE_UNROLL
    for (uint32_t g = 0; g < s.third; g++)
        cell_write(at + g, y[g]);
}

/* X, its parts swapped, in the places of A. roots: cosines, then sines `step` later. */
TRANSFORM_INLINE void three_product_at(uint32_t at_k, uint32_t at_j, const float *root,
                                       uint32_t step, struct hrr_cell *a, const struct hrr_cell *b)
{
    struct product_pair x = product_of(cell_read(a + at_k), cell_read(a + at_j),
                                       cell_read(b + at_k), cell_read(b + at_j), *root, root[step]);
    cell_write(a + at_j, swap_parts(x.high));
    cell_write(a + at_k, swap_parts(x.low));
}

TRANSFORM_INLINE void three_product(struct hrr_three s, const float *roots, uint32_t step,
                                    uint32_t t, struct hrr_cell *a, const struct hrr_cell *b)
{
    /* j = M - k lies in the row of the thread that is as far from the end, and goes back there; of
     * thread 0, which is its own partner, the first k is 0, and so is its j. */
    const uint32_t threads = three_threads(s), partner = t == 0 ? 0 : threads - t;
    const uint32_t low = three_base(s, t);
    const uint32_t high = three_base(s, partner) + (t == 0 ? s.third : s.third - 1);
    PHASE_UNROLL_2
    for (uint32_t i = 0; i < s.third / 2; i++)
        three_product_at(low + i, t == 0 && i == 0 ? low : high - i, roots + t + i * threads, step,
                         a, b);
    if (t == 0)
        three_product_at(s.third / 2, s.third / 2, roots + s.third / 2 * threads, step, a, b);
}

/* Reads this thread's columns of X. */
TRANSFORM_INLINE void three_gather(struct hrr_three s, const struct hrr_cell *a, uint32_t t,
                                   struct transform_point *x)
{
    const struct hrr_cell *at = a + three_base(s, t);
    PHASE_UNROLL
    for (uint32_t c = 0; c < three_columns(s); c++) {
        PHASE_UNROLL
        for (uint32_t h = 0; h < s.first; h++)
            x[c * s.first + h] = cell_read(at + c + h * three_columns(s));
    }
}

/* The third pass of the inverse, scaled and written; returns the largest magnitude. */
TRANSFORM_INLINE float three_write(struct hrr_three s, const struct hrr_cell *cells,
                                   struct hrr_scaling scaling, bool bounded, uint32_t t, float *out)
{
    struct transform_point x[32], y[32];
    const struct hrr_cell *at = cells + three_base(s, t);
    PHASE_UNROLL
    for (uint32_t i = 0; i < s.third; i++)
        x[i] = cell_read(at + i);
    codelet(s.third, x, y);
    return points_write(s.third, y, scaling, bounded, three_threads(s),
                        (struct hrr_cell *)(void *)out + t);
}

#endif
