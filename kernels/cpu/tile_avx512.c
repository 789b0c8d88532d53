/* 24 accumulators: the low and high 16 lanes of 12 sums. An unrolled step is 24 fused multiply-adds
 * to 14 loads, so the two multipliers, not the load ports, are the limit. */
#include "kernels/cpu/tile_avx512.h"
#include "kernels/cpu/lanes_avx512.h"

/* A load that stays in a register: gcc would otherwise repeat it as the memory operand of each
 * multiply-add, 30 loads a step, and the load ports become the limit. */
static inline __m512 load_once(const float *from)
{
    __m512 value = _mm512_load_ps(from);
    __asm__("" : "+v"(value));
    return value;
}

WALK_INLINE void step(bool euclidean, const float *packed, const __m512 row[TILE_ROWS],
                      __m512 sums[TILE_QUERIES][TILE_ROWS])
{
#pragma GCC unroll 4
    for (int q = 0; q < TILE_QUERIES; q++) {
        __m512 query = load_once(packed + q * VECTOR_LANES);
#pragma GCC unroll 3
        for (int r = 0; r < TILE_ROWS; r++) {
            if (euclidean) {
                __m512 d = _mm512_sub_ps(query, row[r]);
                sums[q][r] = _mm512_fmadd_ps(d, d, sums[q][r]);
            } else {
                sums[q][r] = _mm512_fmadd_ps(query, row[r], sums[q][r]);
            }
        }
    }
}

WALK_INLINE void tile(bool euclidean, size_t stride, const float *packed,
                      const float *const rows[TILE_ROWS], float sums[TILE_QUERIES * 4])
{
    const float *r0 = rows[0], *r1 = rows[1], *r2 = rows[2];
    __m512 low[TILE_QUERIES][TILE_ROWS], high[TILE_QUERIES][TILE_ROWS];
#pragma GCC unroll 4
    for (int q = 0; q < TILE_QUERIES; q++) {
#pragma GCC unroll 3
        for (int r = 0; r < TILE_ROWS; r++)
            low[q][r] = high[q][r] = _mm512_setzero_ps();
    }
    for (size_t i = 0; i < stride; i += VECTOR_LANES) {
        const float *chunk = packed + i * TILE_QUERIES;
        const __m512 first[TILE_ROWS] = {_mm512_load_ps(r0 + i), _mm512_load_ps(r1 + i),
                                         _mm512_load_ps(r2 + i)};
        step(euclidean, chunk, first, low);
        const __m512 second[TILE_ROWS] = {_mm512_load_ps(r0 + i + 16), _mm512_load_ps(r1 + i + 16),
                                          _mm512_load_ps(r2 + i + 16)};
        step(euclidean, chunk + 16, second, high);
    }
    __m512 quarters[TILE_ROWS];
#pragma GCC unroll 3
    for (int r = 0; r < TILE_ROWS; r++)
        quarters[r] = lanes_quarters(
            _mm512_add_ps(low[0][r], high[0][r]), _mm512_add_ps(low[1][r], high[1][r]),
            _mm512_add_ps(low[2][r], high[2][r]), _mm512_add_ps(low[3][r], high[3][r]));
    _mm512_store_ps(sums, lanes_singles(lanes_pairs(quarters[0], quarters[1]),
                                        lanes_pairs(quarters[2], quarters[2])));
}

void tile_avx512(bool euclidean, size_t stride, const float *packed,
                 const float *const rows[TILE_ROWS], float sums[TILE_QUERIES * 4])
{
    if (euclidean)
        tile(true, stride, packed, rows, sums);
    else
        tile(false, stride, packed, rows, sums);
}
