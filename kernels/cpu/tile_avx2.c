/* Sixteen registers hold 12 accumulators, so a tile is two groups of three rows, each with four
 * passes over rows that are in the first-level cache: pass g sums partials 8 g to 8 g + 7 of 12
 * pairs. */
#include "kernels/cpu/tile_avx2.h"
#include "kernels/cpu/lanes_avx2.h"

enum { PASSES = 4, PASS_LANES = 8, THREE = 3, PAIRS = TILE_QUERIES * THREE };

/* Keeps a load in a register: if the compiler repeated it as the memory operand of each
 * multiply-add, the load ports would be the limit. */
static inline __m256 load_once(const float *from)
{
    __m256 value = _mm256_load_ps(from);
    __asm__("" : "+x"(value));
    return value;
}

WALK_INLINE __m256 take(bool euclidean, __m256 query, __m256 row, __m256 sum)
{
    if (!euclidean) return _mm256_fmadd_ps(query, row, sum);
    __m256 d = _mm256_sub_ps(query, row);
    return _mm256_fmadd_ps(d, d, sum);
}

WALK_INLINE void pass(bool euclidean, size_t stride, const float *packed, const float *r0,
                      const float *r1, const float *r2, __m256 parts[PAIRS])
{
    __m256 sums[TILE_QUERIES][THREE];
#pragma GCC unroll 4
    for (int q = 0; q < TILE_QUERIES; q++)
        sums[q][0] = sums[q][1] = sums[q][2] = _mm256_setzero_ps();
    for (size_t i = 0; i < stride; i += VECTOR_LANES) {
        __m256 a = load_once(r0 + i), b = load_once(r1 + i), c = load_once(r2 + i);
#pragma GCC unroll 4
        for (int q = 0; q < TILE_QUERIES; q++) {
            __m256 query = load_once(packed + i / 2 * TILE_QUERIES + q * TILE_HALF);
            sums[q][0] = take(euclidean, query, a, sums[q][0]);
            sums[q][1] = take(euclidean, query, b, sums[q][1]);
            sums[q][2] = take(euclidean, query, c, sums[q][2]);
        }
    }
#pragma GCC unroll 4
    for (int q = 0; q < TILE_QUERIES; q++) {
        parts[q * THREE] = sums[q][0];
        parts[q * THREE + 1] = sums[q][1];
        parts[q * THREE + 2] = sums[q][2];
    }
}

/* The sums of 4 queries x 3 rows after step 8 of the tree. */
WALK_INLINE void three(bool euclidean, size_t stride, const float *packed,
                       const float *const rows[THREE], __m256 eights[PAIRS])
{
    __m256 parts[PASSES][PAIRS];
    for (size_t g = 0; g < PASSES; g++) {
        size_t lane = g * PASS_LANES;
        const float *from =
            packed + lane / TILE_HALF * (stride / 2 * TILE_QUERIES) + lane % TILE_HALF;
        pass(euclidean, stride, from, rows[0] + lane, rows[1] + lane, rows[2] + lane, parts[g]);
    }
    for (int i = 0; i < PAIRS; i++)
        eights[i] = lanes_eights(parts[0][i], parts[1][i], parts[2][i], parts[3][i]);
}

WALK_INLINE void tile(bool euclidean, size_t stride, const float *packed,
                      const float *const rows[TILE_ROWS], struct tile_sums *sums)
{
    __m256 a[PAIRS], b[PAIRS];
    three(euclidean, stride, packed, rows, a);
    three(euclidean, stride, packed, rows + THREE, b);
    for (int q = 0; q < TILE_QUERIES; q++) {
        const __m256 *x = a + q * THREE, *y = b + q * THREE;
        _mm_store_ps(sums->first[q], lanes_fold(x[0], x[1], x[2], y[0]));
        _mm_store_ps(sums->last[q], lanes_fold(y[1], y[2], y[1], y[2]));
    }
}

void tile_avx2(bool euclidean, size_t stride, const float *packed,
               const float *const rows[TILE_ROWS], struct tile_sums *sums)
{
    if (euclidean)
        tile(true, stride, packed, rows, sums);
    else
        tile(false, stride, packed, rows, sums);
}
