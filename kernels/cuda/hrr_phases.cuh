/* hrr_phases: what one thread does between two barriers of a bind (kernels/hrr.h), for CUDA and, so
 * that every bit can be tested without a device, for C.
 * Owner:  hrr.cu; tests/kernels/test_hrr_phases.c.
 * Thread: any; a group of `threads` threads works on one pair, and `t` is this one's number.
 * Errors: none.
 *
 * Two spectra lie in shared memory, A and B. Passes are done in place: a codelet's results take the
 * places of what it read, so that F(z)[g_1 + r_1 g_2 + ..] lies where the digits say, g_1 M / r_1 +
 * g_2 M / (r_1 r_2) + ..; nothing moves to put them in order. Threads that follow each other read
 * neighbours or, in the last pass, rows whose distance is odd: no two in one bank. */
#ifndef ENGRAM_KERNELS_CUDA_HRR_PHASES_CUH
#define ENGRAM_KERNELS_CUDA_HRR_PHASES_CUH

#include "kernels/canonical.h"
#include "kernels/hrr.h"
#include "kernels/transform.h"

#if defined(__CUDACC__)
#define TRANSFORM_INLINE static __host__ __device__ __forceinline__
#define PHASE_UNROLL     _Pragma("unroll")
#define PHASE_UNROLL_2   _Pragma("unroll 2")
#define PHASE_ALIGNED    __align__(8)
#else
#include "kernels/cpu/transform_inline.h"
#define PHASE_UNROLL
#define PHASE_UNROLL_2
#define PHASE_ALIGNED __attribute__((aligned(8)))
#endif

typedef float lane;

TRANSFORM_INLINE lane lane_set(float x)
{
    return x;
}

TRANSFORM_INLINE lane lane_add(lane a, lane b)
{
    return canonical_add(a, b);
}

TRANSFORM_INLINE lane lane_subtract(lane a, lane b)
{
    return canonical_subtract(a, b);
}

TRANSFORM_INLINE lane lane_multiply(lane a, lane b)
{
    return canonical_multiply(a, b);
}

TRANSFORM_INLINE lane lane_fma(lane a, lane b, lane c)
{
    return fmaf(a, b, c);
}

TRANSFORM_INLINE lane lane_fnma(lane a, lane b, lane c)
{
    return fmaf(-a, b, c);
}

TRANSFORM_INLINE lane lane_fms(lane a, lane b, lane c)
{
    return fmaf(a, b, -c);
}

TRANSFORM_INLINE lane lane_divide(lane a, lane b)
{
    return canonical_divide(a, b);
}

#include "kernels/transform_codelets.h"
#include "kernels/hrr_lines.h"

/* A complex number in memory, or a cosine and its sine; moved as 8 bytes. */
struct PHASE_ALIGNED hrr_cell {
    float re, im;
};

TRANSFORM_INLINE struct transform_point cell_read(const struct hrr_cell *from)
{
    struct hrr_cell c = *from;
    struct transform_point p = {c.re, c.im};
    return p;
}

TRANSFORM_INLINE void cell_write(struct hrr_cell *to, struct transform_point p)
{
    struct hrr_cell c = {p.re, p.im};
    *to = c;
}

TRANSFORM_INLINE struct transform_point swap_parts(struct transform_point p)
{
    struct transform_point swapped = {p.im, p.re};
    return swapped;
}

TRANSFORM_INLINE float larger_of(float most, float x)
{
    return fmaxf(most, fabsf(x));
}

/* z_n of a row that is 8-byte aligned and has a plan, or of its involution. */
TRANSFORM_INLINE struct transform_point row_point(const float *row, bool turned, uint32_t d,
                                                  uint32_t n)
{
    if (!turned) return cell_read((const struct hrr_cell *)(const void *)row + n);
    struct transform_point p = {row[n == 0 ? 0 : d - 2 * n], row[d - 2 * n - 1]};
    return p;
}

/* True if no number of a result can overflow: it is at most d 2^(q + 2), q the operands' exponents
 * in sum. */
TRANSFORM_INLINE bool is_bounded(int exponents)
{
    return exponents <= 100;
}

/* Writes the last pass's points, scaled, `step` cells apart; returns the largest magnitude.
 * bounded: as above; 0 is returned then. What most results need not is left out at once for all of
 * them. */
TRANSFORM_INLINE float points_write(uint32_t count, struct transform_point *y,
                                    struct hrr_scaling scaling, bool bounded, uint32_t step,
                                    struct hrr_cell *to)
{
    float most = 0.0f;
    if (scaling.before != 1.0f) {
        PHASE_UNROLL
        for (uint32_t g = 0; g < count; g++)
            y[g] = (struct transform_point){lane_multiply(y[g].re, scaling.before),
                                            lane_multiply(y[g].im, scaling.before)};
    }
    if (!bounded) {
        PHASE_UNROLL
        for (uint32_t g = 0; g < count; g++)
            most = larger_of(larger_of(most, lane_fma(y[g].re, scaling.factor, 0.0f)),
                             lane_fma(y[g].im, scaling.factor, 0.0f));
    }
    PHASE_UNROLL
    for (uint32_t g = 0; g < count; g++) {
        struct transform_point p = {lane_fma(y[g].im, scaling.factor, 0.0f),
                                    lane_fma(y[g].re, scaling.factor, 0.0f)};
        cell_write(to + g * step, p);
    }
    return most;
}

/* ---- M = R1 R2 with both radices constants: a thread has R2 / threads columns of the first pass
 * in registers. All shapes below are constants where these functions are called. */

struct hrr_shape {
    uint32_t first, second; /* R1, R2 */
    uint32_t threads;       /* that work on one pair; R2 is a multiple of it */
};

struct hrr_registers {
    struct transform_point x[32]; /* column c, element h at c R1 + h */
};

/* Cells from one row of R2 to the next, an odd number. */
TRANSFORM_INLINE uint32_t shape_row(struct hrr_shape s)
{
    return s.second | 1;
}

/* Cells of one spectrum. */
TRANSFORM_INLINE uint32_t shape_cells(struct hrr_shape s)
{
    return s.first * shape_row(s);
}

/* Reads this thread's columns of a row; returns the largest magnitude. */
TRANSFORM_INLINE float shape_load(struct hrr_shape s, const float *row, bool turned, uint32_t t,
                                  struct hrr_registers *r)
{
    const uint32_t d = 2 * s.first * s.second;
    float most = 0.0f;
    PHASE_UNROLL
    for (uint32_t c = 0; c < s.second / s.threads; c++) {
        PHASE_UNROLL
        for (uint32_t h = 0; h < s.first; h++)
            r->x[c * s.first + h] = row_point(row, turned, d, h * s.second + c * s.threads + t);
    }
    PHASE_UNROLL
    for (uint32_t i = 0; i < s.first * (s.second / s.threads); i++)
        most = larger_of(larger_of(most, r->x[i].re), r->x[i].im);
    return most;
}

TRANSFORM_INLINE void shape_scale(struct hrr_shape s, float scale, struct hrr_registers *r)
{
    PHASE_UNROLL
    for (uint32_t i = 0; i < s.first * (s.second / s.threads); i++) {
        r->x[i].re = lane_multiply(r->x[i].re, scale);
        r->x[i].im = lane_multiply(r->x[i].im, scale);
    }
}

/* The first pass of this thread's columns. roots: (g - 1) R2 + n. */
TRANSFORM_INLINE void shape_columns(struct hrr_shape s, const struct hrr_registers *r,
                                    const struct hrr_cell *roots, uint32_t t,
                                    struct hrr_cell *cells)
{
    PHASE_UNROLL
    for (uint32_t c = 0; c < s.second / s.threads; c++) {
        struct transform_point y[32];
        const uint32_t n = c * s.threads + t;
        codelet(s.first, r->x + c * s.first, y);
        cell_write(cells + n, y[0]);
        PHASE_UNROLL
        for (uint32_t g = 1; g < s.first; g++) {
            struct transform_point root = cell_read(roots + (g - 1) * s.second + n);
            cell_write(cells + g * shape_row(s) + n, point_turn_lanes(y[g], root.re, root.im));
        }
    }
}

/* The second pass of a row. */
TRANSFORM_INLINE void shape_row_codelet(struct hrr_shape s, const struct hrr_cell *row,
                                        struct transform_point *y)
{
    struct transform_point x[32];
    PHASE_UNROLL
    for (uint32_t i = 0; i < s.second; i++)
        x[i] = cell_read(row + i);
    codelet(s.second, x, y);
}

/* The second pass of the rows from..to - 1; those of B follow those of A. */
TRANSFORM_INLINE void shape_rows(struct hrr_shape s, uint32_t from, uint32_t to, uint32_t t,
                                 struct hrr_cell *cells)
{
    for (uint32_t row = from + t; row < to; row += s.threads) {
        struct transform_point y[32];
        shape_row_codelet(s, cells + row * shape_row(s), y);
        PHASE_UNROLL
        for (uint32_t g = 0; g < s.second; g++)
            cell_write(cells + row * shape_row(s) + g, y[g]);
    }
}

/* X[k] and X[M - k], their parts swapped, in the places of A. roots: k. */
TRANSFORM_INLINE void shape_product_at(struct hrr_shape s, const struct hrr_cell *roots, uint32_t k,
                                       struct hrr_cell *a, const struct hrr_cell *b)
{
    const uint32_t points = s.first * s.second, j = k == 0 ? 0 : points - k;
    const uint32_t at_k = k % s.first * shape_row(s) + k / s.first;
    const uint32_t at_j = j % s.first * shape_row(s) + j / s.first;
    struct transform_point root = cell_read(roots + k);
    struct product_pair x = product_of(cell_read(a + at_k), cell_read(a + at_j),
                                       cell_read(b + at_k), cell_read(b + at_j), root.re, root.im);
    cell_write(a + at_j, swap_parts(x.high));
    cell_write(a + at_k, swap_parts(x.low));
}

/* All of X. What is fetched of a long text costs more than the steps of a loop. */
TRANSFORM_INLINE void shape_product(struct hrr_shape s, const struct hrr_cell *roots, uint32_t t,
                                    struct hrr_cell *a, const struct hrr_cell *b)
{
    const uint32_t half = s.first * s.second / 2;
    if (half >= 256) {
        PHASE_UNROLL_2
        for (uint32_t k = t; k <= half; k += s.threads)
            shape_product_at(s, roots, k, a, b);
        return;
    }
    PHASE_UNROLL
    for (uint32_t i = 0; i < half / s.threads + 1; i++) {
        if (i * s.threads + t <= half) shape_product_at(s, roots, i * s.threads + t, a, b);
    }
}

/* The same for a whole warp and R1 that divides it: places are a base and a constant. */
TRANSFORM_INLINE void shape_product_warp(struct hrr_shape s, const struct hrr_cell *roots,
                                         uint32_t t, struct hrr_cell *a, const struct hrr_cell *b)
{
    const uint32_t points = s.first * s.second, rounds = points / 2 / 32, on = 32 / s.first;
    const uint32_t j = t == 0 ? 0 : points - t;
    const uint32_t low = t % s.first * shape_row(s) + t / s.first;
    const uint32_t high = j % s.first * shape_row(s) + (t == 0 ? s.second : j / s.first);
    PHASE_UNROLL_2
    for (uint32_t i = 0; i < rounds; i++) {
        const uint32_t at_k = low + i * on, at_j = t == 0 && i == 0 ? low : high - i * on;
        struct transform_point root = cell_read(roots + t + 32 * i);
        struct product_pair x =
            product_of(cell_read(a + at_k), cell_read(a + at_j), cell_read(b + at_k),
                       cell_read(b + at_j), root.re, root.im);
        cell_write(a + at_j, swap_parts(x.high));
        cell_write(a + at_k, swap_parts(x.low));
    }
    if (t == 0) shape_product_at(s, roots, points / 2, a, b);
}

/* Reads this thread's columns of X. */
TRANSFORM_INLINE void shape_gather(struct hrr_shape s, const struct hrr_cell *a, uint32_t t,
                                   struct hrr_registers *r)
{
    PHASE_UNROLL
    for (uint32_t c = 0; c < s.second / s.threads; c++) {
        const uint32_t n = c * s.threads + t, digit = n % s.first;
        const struct hrr_cell *column = a + digit * shape_row(s) + n / s.first;
        PHASE_UNROLL
        for (uint32_t h = 0; h < s.first; h++) {
            /* k = h R2 + n in digits, with a carry where both low digits make one */
            const uint32_t low = h * s.second % s.first, high = h * s.second / s.first;
            const bool carry = low > 0 && digit >= s.first - low;
            const struct hrr_cell *at = column + low * shape_row(s) + high;
            r->x[c * s.first + h] = cell_read(carry ? at - s.first * shape_row(s) + 1 : at);
        }
    }
}

/* The second pass of the inverse, scaled and written; returns the largest magnitude. */
TRANSFORM_INLINE float shape_write(struct hrr_shape s, const struct hrr_cell *a,
                                   struct hrr_scaling scaling, uint32_t t, float *out)
{
    float most = 0.0f;
    for (uint32_t row = t; row < s.first; row += s.threads) {
        struct transform_point y[32];
        struct hrr_cell *to = (struct hrr_cell *)(void *)out + row;
        shape_row_codelet(s, a + row * shape_row(s), y);
        PHASE_UNROLL
        for (uint32_t g = 0; g < s.second; g++) {
            struct transform_point p = {scaled(y[g].im, scaling.before, scaling.factor),
                                        scaled(y[g].re, scaling.before, scaling.factor)};
            most = larger_of(larger_of(most, p.re), p.im);
            cell_write(to + g * s.first, p);
        }
    }
    return most;
}

#endif
