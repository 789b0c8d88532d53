/* 24 accumulators, one zmm for each of 4 x 6 pairs: a pass sums lanes 0-15 of every 32, a second
 * one lanes 16-31, and low + high is step 16 of the tree. A step does 24 fused multiply-adds with
 * 10 loads. The shape 4 x 3 with both halves at once needs 14 loads and ran at 171 GFLOP/s against
 * 178-196, both on 512 dimensions in the first-level cache, of a peak of 240. */
#include "kernels/cpu/tile_avx512.h"
#include "kernels/cpu/lanes_avx512.h"

/* Keeps a load in a register: gcc would otherwise repeat it as the memory operand of each
 * multiply-add, and the load ports would be the limit. */
static inline __m512 load_once(const float *from)
{
    __m512 value = _mm512_load_ps(from);
    __asm__("" : "+v"(value));
    return value;
}

WALK_INLINE __m512 take(bool euclidean, __m512 query, __m512 row, __m512 sum)
{
    if (!euclidean) return _mm512_fmadd_ps(query, row, sum);
    __m512 d = _mm512_sub_ps(query, row);
    return _mm512_fmadd_ps(d, d, sum);
}

/* sums[r][q] over 16 lanes of every 32; the first of them is at packed and rows[r] + lane. */
WALK_INLINE void clear(__m512 sums[TILE_ROWS][TILE_QUERIES])
{
#pragma GCC unroll 6
    for (int r = 0; r < TILE_ROWS; r++) {
#pragma GCC unroll 4
        for (int q = 0; q < TILE_QUERIES; q++)
            sums[r][q] = _mm512_setzero_ps();
    }
}

WALK_INLINE void pass(bool euclidean, size_t stride, const float *packed,
                      const float *const rows[TILE_ROWS], size_t lane,
                      __m512 sums[TILE_ROWS][TILE_QUERIES])
{
    for (size_t i = lane; i < stride; i += VECTOR_LANES) {
        __m512 query[TILE_QUERIES];
#pragma GCC unroll 4
        for (int q = 0; q < TILE_QUERIES; q++)
            query[q] = load_once(packed + q * TILE_HALF);
        packed += TILE_QUERIES * TILE_HALF;
#pragma GCC unroll 6
        for (int r = 0; r < TILE_ROWS; r++) {
            __m512 row = load_once(rows[r] + i);
#pragma GCC unroll 4
            for (int q = 0; q < TILE_QUERIES; q++)
                sums[r][q] = take(euclidean, query[q], row, sums[r][q]);
        }
    }
}

WALK_INLINE void fold(const __m512 quarters[TILE_ROWS], struct tile_sums *sums)
{
    __m512 last = lanes_pairs(quarters[4], quarters[5]);
    _mm512_store_ps(sums->first[0], lanes_singles(lanes_pairs(quarters[0], quarters[1]),
                                                  lanes_pairs(quarters[2], quarters[3])));
    _mm512_store_ps(sums->last[0], lanes_singles(last, last));
}

WALK_INLINE void tile(bool euclidean, size_t stride, const float *packed,
                      const float *const rows[TILE_ROWS], struct tile_sums *sums)
{
    __m512 low[TILE_ROWS][TILE_QUERIES], high[TILE_ROWS][TILE_QUERIES], quarters[TILE_ROWS];
    clear(low);
    pass(euclidean, stride, packed, rows, 0, low);
    clear(high);
    pass(euclidean, stride, packed + stride / 2 * TILE_QUERIES, rows, TILE_HALF, high);
#pragma GCC unroll 6
    for (int r = 0; r < TILE_ROWS; r++)
        quarters[r] = lanes_quarters(
            _mm512_add_ps(low[r][0], high[r][0]), _mm512_add_ps(low[r][1], high[r][1]),
            _mm512_add_ps(low[r][2], high[r][2]), _mm512_add_ps(low[r][3], high[r][3]));
    fold(quarters, sums);
}

void tile_avx512(bool euclidean, size_t stride, const float *packed,
                 const float *const rows[TILE_ROWS], struct tile_sums *sums)
{
    if (euclidean)
        tile(true, stride, packed, rows, sums);
    else
        tile(false, stride, packed, rows, sums);
}

/* The second pass continues the sums of the first: one fold, and no sums to be kept meanwhile. */
void tile_avx512_screen(bool euclidean, size_t stride, const float *packed,
                        const float *const rows[TILE_ROWS], struct tile_sums *sums)
{
    (void)euclidean;
    __m512 both[TILE_ROWS][TILE_QUERIES], quarters[TILE_ROWS];
    clear(both);
    pass(false, stride, packed, rows, 0, both);
    pass(false, stride, packed + stride / 2 * TILE_QUERIES, rows, TILE_HALF, both);
#pragma GCC unroll 6
    for (int r = 0; r < TILE_ROWS; r++)
        quarters[r] = lanes_quarters(both[r][0], both[r][1], both[r][2], both[r][3]);
    fold(quarters, sums);
}
