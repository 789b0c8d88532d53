/* Sixteen registers hold 12 accumulators, so a tile makes four passes over its rows, which are in
 * the first cache: pass g sums partials 8 g to 8 g + 7 of all 12 pairs. */
#include "kernels/cpu/tile_avx2.h"
#include "kernels/cpu/lanes_avx2.h"

enum { PASSES = 4, PASS_LANES = 8 };

/* A load that stays in a register: repeated as the memory operand of each multiply-add it would
 * make the load ports the limit. */
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
                      const float *r1, const float *r2, __m256 parts[TILE_QUERIES * TILE_ROWS])
{
    __m256 sums[TILE_QUERIES][TILE_ROWS];
#pragma GCC unroll 4
    for (int q = 0; q < TILE_QUERIES; q++)
        sums[q][0] = sums[q][1] = sums[q][2] = _mm256_setzero_ps();
    for (size_t i = 0; i < stride; i += VECTOR_LANES) {
        __m256 a = load_once(r0 + i), b = load_once(r1 + i), c = load_once(r2 + i);
#pragma GCC unroll 4
        for (int q = 0; q < TILE_QUERIES; q++) {
            __m256 query = load_once(packed + i * TILE_QUERIES + q * VECTOR_LANES);
            sums[q][0] = take(euclidean, query, a, sums[q][0]);
            sums[q][1] = take(euclidean, query, b, sums[q][1]);
            sums[q][2] = take(euclidean, query, c, sums[q][2]);
        }
    }
#pragma GCC unroll 4
    for (int q = 0; q < TILE_QUERIES; q++) {
        parts[q * TILE_ROWS] = sums[q][0];
        parts[q * TILE_ROWS + 1] = sums[q][1];
        parts[q * TILE_ROWS + 2] = sums[q][2];
    }
}

WALK_INLINE void tile(bool euclidean, size_t stride, const float *packed,
                      const float *const rows[TILE_ROWS], float sums[TILE_QUERIES * 4])
{
    __m256 parts[PASSES][TILE_QUERIES * TILE_ROWS], eights[TILE_QUERIES * TILE_ROWS];
    for (int g = 0; g < PASSES; g++)
        pass(euclidean, stride, packed + g * PASS_LANES, rows[0] + g * PASS_LANES,
             rows[1] + g * PASS_LANES, rows[2] + g * PASS_LANES, parts[g]);
    for (int i = 0; i < TILE_QUERIES * TILE_ROWS; i++)
        eights[i] = lanes_eights(parts[0][i], parts[1][i], parts[2][i], parts[3][i]);
    for (int q = 0; q < TILE_QUERIES; q++) {
        const __m256 *e = eights + q * TILE_ROWS;
        _mm_store_ps(sums + q * 4, lanes_fold(e[0], e[1], e[2], e[2]));
    }
}

void tile_avx2(bool euclidean, size_t stride, const float *packed,
               const float *const rows[TILE_ROWS], float sums[TILE_QUERIES * 4])
{
    if (euclidean)
        tile(true, stride, packed, rows, sums);
    else
        tile(false, stride, packed, rows, sums);
}
