/* shadow: rows in int8, with what a score of theirs can be at most.
 * Owner:  nobody; pure functions. Included by C and by CUDA.
 * Thread: any.
 * Errors: none. A row or query of which nothing is proven passes.
 *
 * A shadow row stands for t in a quarter of its bytes: t = c + s q + e, c the collection's centre,
 * q int8 codes, s a scale, and |e| <= lost. A query stands as x = s_x p + e_x, |e_x| <= lost_x,
 * with codes p of 8 bits (one plane) or p = 256 p1 + p0, two planes of int8, whose e_x is 256
 * times smaller. The product of codes P = sum p_i q_i is exact in int32 whatever adds it up, so
 * CPU and device find the same numbers, and with
 *     D = x t <= x c + s_x s P + lost_x |s q| + |x| lost                                     (4)
 * the same float that D never exceeds (shadow_above). It takes the place of the cheap dot product
 * of screen.h, without an error of its own: a = V = 0 there, since those bounds use D <= dot only.
 *
 * Row. u = 2^-24. d = t - c, each element one rounding: at most u |d_i| (1 + 2u) away, never
 * subnormal in error. s = max |d_i| / 127, q_i = d_i (127 / max) rounded to nearest: at most 127
 * (1 + 3u), which rounds to 127. What is lost is measured, so how q came about proves nothing: r =
 * d - s q, each one fma. Its squares are summed as canonical sums are: 32 partials, m = S / 32 <=
 * 512 fused steps, a tree; gamma(m + 6) < 2^-14.9, squares that underflow add at most S 2^-149 <=
 * 2^-135. So
 *     |e| <= sqrt(sum) (1 + 2^-14) + 2^-66 + 2u |d|,  |d| <= |s q| + 2 sqrt(sum) + 2^-66
 *     lost   = sqrt(sum) (1 + 2^-12) + 2^-20 (length + |c|) + 2^-60
 *     length = s sqrt(sum q_i^2) (1 + 2^-20) >= |s q|
 * in float: the last four roundings are paid by 2^-12 and 2^-20. Of 2^-20 = 16 u on length, 2 u go
 * to d; 14 u on length and 16 u on |c| are there for shadow_above:
 *  - p = fma(256, P1, P0): 256 |p1| <= |p| + 128 sqrt(S), s_x 128 sqrt(S) <= 0.51 |x|; so the two
 *    conversions and the fma cost less than 3.1 u |x| length; the product with s 1.1 u.
 *  - The three fmas: at most u (7 |x| length + 3.1 |x||c| + |x| lost); the last by lost's 2^-12.
 *  - x c is summed in double and rounded once: less than 1.1 u |x||c|.
 * Together less than 12 u |x| length and 5 u |x||c|. No product underflows before the last sum, s
 * >= 2^-107 or 0; three subnormal roundings, 2^-148, are less than what norm_above times 2^-61 has
 * left. |x| <= norm_above = nx (1 + 2^-12) + 2^-60, by (3) of screen.h.
 *
 * A row whose d is not finite, a centre with a norm above 2^62: lost = +inf, which no bound
 * rejects. A row shorter than 2^-100 has code 0. With all norms up to 2^62 (screen.h screens no
 * other) no sum comes near overflow. Any centre is right; a distant one rejects less.
 *
 * Metrics. The codes are those of the rows, and only what a row must reach is the metric's: (scale,
 * offset) and floor of screen.h, with a = V = 0, whose derivation uses D <= dot and not that dot is
 * near D. So one shadow serves all three. Squared Euclidean: Q = |x|^2 + |t|^2 - 2 D is least where
 * D is greatest, and the norms come from (3), not from the codes.
 *
 * Query planes. (4) holds for any s_x p with |x - s_x p| <= lost_x: with 127 levels or 32,639, made
 * by the same steps. Of two planes P = 256 P1 + P0, both exact in int32: |P0| <= S 128 127 < 2^28,
 * |P1| <= S 128 127; only the fma that joins them rounds, which is paid above. A scale is a row's
 * own: no tile shares one, and none of the above says how rows are grouped.
 *
 * What a row must reach, B. A list of k rows that may all be returned (they pass the filter and the
 * threshold) has canonical scores, of which the worst is B: at least k rows reach it, so a row with
 * a strictly worse one is not among the k best, however those k were chosen. They are chosen by
 * their estimates, which prove nothing and need not: B comes from canonical scores alone, by (2) of
 * screen.h. (A bound from the lower bounds estimate - lost_x |s q| - |x| lost of k rows,
 * by (1), would need no row, but is looser by twice the loss, and k rows are soon read.) Ties are
 * not strictly worse: they pass, and ids decide. With fewer than k such rows B is the threshold, or
 * nothing is rejected. A threshold T alone is such a B, too: what is strictly worse than T is not
 * returned; of B and T the stricter one is taken. A row that the filter excludes may be rejected or
 * not, since it is never returned; it must not be among the k.
 *
 * On a CPU B rises while rows are looked at. What was rejected by a lower B is strictly worse than
 * it, and so than the last. Threads with a B each reject what cannot be among the k best of their
 * own rows and so not among those of all. Who reads a shadow of another version than its rows'
 * would apply a bound to another row: who writes a row codes it again before anybody sees it
 * (store/shadow.h, gpu/replica_shadow.h).
 *
 * Extreme rows. A norm above 2^62, or for cosine below 2^-40, has floor NaN, and d that is not
 * finite lost = +inf: neither is "less", so the row passes. A row at its centre has codes 0, lost
 * some 2^-60 + 2^-20 |c|: the bound is x c. Where one element carries the row the others' codes are
 * 0, and lost is their norm, as measured.
 *
 * No rotation. It would give each row the crest factor of a normal one, max |d| sqrt(S) / |d| some
 * 3.4 at 768, and with it lost / |d| = 0.0076; rows of 768 normal numbers have that without, and so
 * have embeddings of texts (docs/performance-gpu.md). To gain where few coordinates are large it
 * would cost each query and row a transform in float, whose rounding (gamma(log2 S + 2) |d|) had to
 * be added to lost. */
#ifndef ENGRAM_KERNELS_SHADOW_H
#define ENGRAM_KERNELS_SHADOW_H

#include "kernels/canonical.h"
#include "kernels/screen.h"

enum {
    SHADOW_ALIGN = 64,         /* codes of a row, rounded up; the pad is 0 */
    SHADOW_LEVELS = 127,       /* one plane */
    SHADOW_LEVELS_TWO = 32639, /* two: 256 * 127 + 127 */
};

/* Bytes from one row's codes to the next. */
CANONICAL_INLINE size_t shadow_stride(uint32_t dimension)
{
    return ((size_t)dimension + SHADOW_ALIGN - 1) / SHADOW_ALIGN * SHADOW_ALIGN;
}

/* Bytes of rows in int8, with what stands beside their codes. */
CANONICAL_INLINE uint64_t shadow_bytes(uint32_t dimension, uint64_t rows)
{
    return rows * (shadow_stride(dimension) + 3 * sizeof(float));
}

/* What stands beside the codes of one row. */
struct shadow_row {
    float scale;
    float lost;   /* >= |t - c - scale q|; +inf: nothing is known */
    float length; /* >= |scale q| */
};

/* What stands beside the codes of one query. */
struct shadow_query {
    float scale;
    float lost;       /* >= |x - scale p| */
    float norm_above; /* >= |x| */
    float centred;    /* x c */
};

/* Rows of a shadow: rows' codes are `stride` bytes apart. */
struct shadow_rows {
    const int8_t *codes;
    const float *scales, *losts, *lengths;
    size_t count;
};

CANONICAL_INLINE float shadow_sqrt(float value)
{
#if defined(__CUDA_ARCH__)
    return __fsqrt_rn(value);
#else
    return sqrtf(value);
#endif
}

CANONICAL_INLINE float shadow_lost(float squares, float length, float centre_norm)
{
    float root = shadow_sqrt(squares);
    float other = canonical_multiply(canonical_add(length, centre_norm), 0x1p-20f);
    float all = canonical_add(canonical_multiply(root, 1 + 0x1p-12f), other);
    return canonical_add(all, 0x1p-60f);
}

CANONICAL_INLINE float shadow_length(float scale, int64_t squares)
{
    float length = canonical_multiply(shadow_sqrt((float)squares), scale);
    return canonical_multiply(length, 1 + 0x1p-20f);
}

/* The steps of a row's codes, of which a vector variant makes its own. */
struct shadow_step {
    float scale, inverse; /* of the codes; 0: all codes are 0 */
};

/* most: the greatest |t - c|, NaN where one is. */
CANONICAL_INLINE struct shadow_step shadow_step(float most, int levels)
{
    struct shadow_step step = {0.0f, 0.0f};
    if (most >= 0x1p-100f && canonical_is_finite(most)) {
        step.scale = canonical_divide(most, (float)levels);
        step.inverse = canonical_divide((float)levels, most);
    }
    return step;
}

CANONICAL_INLINE int shadow_code(struct shadow_step step, float difference)
{
    return (int)rintf(canonical_multiply(difference, step.inverse));
}

/* Literal; the variants' tables (struct shadow_kernels) give the same bits. Writes the codes of a
 * padded row (centre: as long, or NULL for 0) at codes[0 .. vector_stride - 1]. */
CANONICAL_INLINE struct shadow_row shadow_measure(uint32_t dimension, const float *row,
                                                  const float *centre, float centre_norm,
                                                  int levels, int *codes)
{
    const struct shadow_row unknown = {0.0f, INFINITY, 0.0f};
    size_t stride = vector_stride(dimension);
    float p[VECTOR_LANES] = {0}, most = 0.0f;
    int64_t squares = 0;
    bool finite = centre_norm <= SCREEN_NORM_MAX;
    for (size_t i = 0; i < stride; i++) {
        float d = canonical_subtract(row[i], centre ? centre[i] : 0.0f);
        finite = finite && canonical_is_finite(d);
        most = fmaxf(most, fabsf(d));
    }
    struct shadow_step step = shadow_step(finite ? most : INFINITY, levels);
    for (size_t i = 0; i < stride; i++) {
        float d = canonical_subtract(row[i], centre ? centre[i] : 0.0f);
        codes[i] = step.scale > 0.0f ? shadow_code(step, d) : 0;
        squares += (int64_t)codes[i] * codes[i];
        float lost = fmaf(-step.scale, (float)codes[i], d);
        canonical_take(&p[i % VECTOR_LANES], lost, lost);
    }
    if (!finite) return unknown;
    struct shadow_row shadow;
    shadow.scale = step.scale;
    shadow.length = shadow_length(step.scale, squares);
    shadow.lost = shadow_lost(canonical_tree(p), shadow.length, centre_norm);
    return shadow;
}

/* The two planes of a code of SHADOW_LEVELS_TWO: 256 high + low. */
CANONICAL_INLINE int shadow_high(int code)
{
    return (code + 128 + 32768) / 256 - 128;
}

CANONICAL_INLINE int shadow_low(int code)
{
    return code - 256 * shadow_high(code);
}

/* x and c padded, c NULL for 0; codes as those of shadow_measure, which it calls. */
static inline struct shadow_query shadow_query(uint32_t dimension, const float *query, float norm,
                                               const float *centre, int levels, int *codes)
{
    struct shadow_row row = shadow_measure(dimension, query, NULL, 0.0f, levels, codes);
    double sum = 0;
    for (size_t i = 0; centre && i < vector_stride(dimension); i++)
        sum = fma((double)query[i], (double)centre[i], sum);
    struct shadow_query out = {row.scale, row.lost, norm * (1 + 0x1p-12f) + 0x1p-60f, (float)sum};
    return out;
}

/* The estimate of x t. high: 0 for one plane. */
CANONICAL_INLINE float shadow_estimate(const struct shadow_query *q, float row_scale, int32_t high,
                                       int32_t low)
{
    float product = fmaf(256.0f, (float)high, (float)low);
    return fmaf(canonical_multiply(product, row_scale), q->scale, q->centred);
}

/* What x t is at most, from its estimate (4). */
CANONICAL_INLINE float shadow_above(const struct shadow_query *q, float estimate, float row_lost,
                                    float row_length)
{
    return fmaf(q->norm_above, row_lost, fmaf(q->lost, row_length, estimate));
}

/* For screen_line and screen_floor: a row is rejected if shadow_above < fma(scale, floor, offset),
 * and every query and row for which these give no bound passes. */
static inline struct screen screen_of_shadow(enum metric metric, uint32_t dimension)
{
    struct screen s = screen_of(metric, dimension);
    s.approximate = 0;
    s.flushed = 0;
    return s;
}

#endif
