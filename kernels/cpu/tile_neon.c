/* 24 of the 32 registers are accumulators. A tile is two groups of three rows, each with four
 * passes over rows that are in the first-level cache: pass g sums partials 8 g to 8 g + 7 of 12
 * pairs. */
#include "kernels/cpu/tile_neon.h"
#include "kernels/cpu/lanes_neon.h"

enum { PASSES = 4, PASS_LANES = 8, THREE = 3, PAIRS = TILE_QUERIES * THREE };

WALK_INLINE float32x4_t take(bool euclidean, float32x4_t query, float32x4_t row, float32x4_t sum)
{
    if (!euclidean) return vfmaq_f32(sum, query, row);
    float32x4_t d = vsubq_f32(query, row);
    return vfmaq_f32(sum, d, d);
}

WALK_INLINE void pass(bool euclidean, size_t stride, const float *packed,
                      const float *const rows[THREE], size_t lane, float32x4_t parts[PAIRS][8])
{
    packed += lane / TILE_HALF * (stride / 2 * TILE_QUERIES) + lane % TILE_HALF;
    const float *r0 = rows[0] + lane, *r1 = rows[1] + lane, *r2 = rows[2] + lane;
    float32x4_t low[TILE_QUERIES][THREE], high[TILE_QUERIES][THREE];
#pragma GCC unroll 4
    for (int q = 0; q < TILE_QUERIES; q++) {
        low[q][0] = low[q][1] = low[q][2] = vdupq_n_f32(0.0f);
        high[q][0] = high[q][1] = high[q][2] = vdupq_n_f32(0.0f);
    }
    for (size_t i = 0; i < stride; i += VECTOR_LANES) {
        float32x4_t a = vld1q_f32(r0 + i), b = vld1q_f32(r1 + i), c = vld1q_f32(r2 + i);
        float32x4_t d = vld1q_f32(r0 + i + 4), e = vld1q_f32(r1 + i + 4);
        float32x4_t f = vld1q_f32(r2 + i + 4);
#pragma GCC unroll 4
        for (int q = 0; q < TILE_QUERIES; q++) {
            const float *from = packed + i / 2 * TILE_QUERIES + q * TILE_HALF;
            float32x4_t query = vld1q_f32(from);
            low[q][0] = take(euclidean, query, a, low[q][0]);
            low[q][1] = take(euclidean, query, b, low[q][1]);
            low[q][2] = take(euclidean, query, c, low[q][2]);
            query = vld1q_f32(from + 4);
            high[q][0] = take(euclidean, query, d, high[q][0]);
            high[q][1] = take(euclidean, query, e, high[q][1]);
            high[q][2] = take(euclidean, query, f, high[q][2]);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < PAIRS; i++) {
        parts[i][lane / 4] = low[i / THREE][i % THREE];
        parts[i][lane / 4 + 1] = high[i / THREE][i % THREE];
    }
}

/* The sums of 4 queries x 3 rows after step 4 of the tree. */
WALK_INLINE void three(bool euclidean, size_t stride, const float *packed,
                       const float *const rows[THREE], float32x4_t fours[PAIRS])
{
    float32x4_t parts[PAIRS][8];
    for (size_t g = 0; g < PASSES; g++)
        pass(euclidean, stride, packed, rows, g * PASS_LANES, parts);
    for (int i = 0; i < PAIRS; i++)
        fours[i] = lanes_fours(parts[i]);
}

WALK_INLINE void tile(bool euclidean, size_t stride, const float *packed,
                      const float *const rows[TILE_ROWS], struct tile_sums *sums)
{
    float32x4_t a[PAIRS], b[PAIRS];
    three(euclidean, stride, packed, rows, a);
    three(euclidean, stride, packed, rows + THREE, b);
    for (int q = 0; q < TILE_QUERIES; q++) {
        const float32x4_t *x = a + q * THREE, *y = b + q * THREE;
        vst1q_f32(sums->first[q], lanes_fold(x[0], x[1], x[2], y[0]));
        vst1q_f32(sums->last[q], lanes_fold(y[1], y[2], y[1], y[2]));
    }
}

void tile_neon(bool euclidean, size_t stride, const float *packed,
               const float *const rows[TILE_ROWS], struct tile_sums *sums)
{
    if (euclidean)
        tile(true, stride, packed, rows, sums);
    else
        tile(false, stride, packed, rows, sums);
}
