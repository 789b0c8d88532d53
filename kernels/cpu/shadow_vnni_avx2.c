/* AVX2 with AVX-VNNI: as shadow_vnni_avx512.c, 32 bytes at a time. */
enum { BIAS = 128, TILE_ROWS = 2 };

#include "kernels/cpu/shadow_fours.h"

#include <immintrin.h>

enum { WIDE = 32, GROUP_VECTORS = SHADOW_GROUP * FOUR / WIDE };
enum { AHEAD_BYTES = 4096 }; /* as in shadow_vnni_avx512.c */

static inline __m256i load_codes(const int8_t *codes)
{
    return _mm256_load_si256((const __m256i *)codes);
}

static inline int32_t add_up(__m256i v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
    return _mm_cvtsi128_si32(s);
}

static int32_t row_bias(size_t stride, const int8_t *codes)
{
    __m256i sum = _mm256_setzero_si256(), one = _mm256_set1_epi8(1);
    for (size_t i = 0; i < stride; i += WIDE)
        sum = _mm256_dpbusd_avx_epi32(sum, one, load_codes(codes + i));
    return BIAS * add_up(sum);
}

static void products(size_t stride, const int8_t *planes, const int8_t *codes, size_t count,
                     int32_t *high, int32_t *low)
{
    const __m256i flip = _mm256_set1_epi8((char)0x80);
    int32_t bias_high = row_bias(stride, planes), bias_low = row_bias(stride, planes + stride);
    for (size_t r = 0; r < count; r++) {
        const int8_t *row = codes + r * stride;
        __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
        for (size_t i = 0; i < stride; i += 2 * WIDE) {
            __m256i first = _mm256_xor_si256(load_codes(row + i), flip);
            __m256i second = _mm256_xor_si256(load_codes(row + i + WIDE), flip);
            _mm_prefetch((const char *)row + i + AHEAD_BYTES, _MM_HINT_T0);
            a = _mm256_dpbusd_avx_epi32(a, first, load_codes(planes + i));
            b = _mm256_dpbusd_avx_epi32(b, second, load_codes(planes + i + WIDE));
            c = _mm256_dpbusd_avx_epi32(c, first, load_codes(planes + stride + i));
            d = _mm256_dpbusd_avx_epi32(d, second, load_codes(planes + stride + i + WIDE));
        }
        high[r] = add_up(_mm256_add_epi32(a, b)) - bias_high;
        low[r] = add_up(_mm256_add_epi32(c, d)) - bias_low;
    }
}

static inline __attribute__((always_inline)) void products_of(size_t together, size_t stride,
                                                              const int8_t *queries,
                                                              const int8_t *codes,
                                                              int32_t (*found)[SHADOW_GROUP])
{
    __m256i sums[TILE_ROWS][GROUP_VECTORS];
#pragma GCC unroll 8
    for (size_t r = 0; r < together; r++)
        for (size_t v = 0; v < GROUP_VECTORS; v++)
            sums[r][v] = _mm256_setzero_si256();
    for (size_t i = 0; i < stride; i += FOUR) {
        __m256i row[TILE_ROWS];
#pragma GCC unroll 8
        for (size_t r = 0; r < together; r++) {
            int32_t four;
            memcpy(&four, codes + r * stride + i, sizeof four);
            row[r] = _mm256_set1_epi32(four);
        }
#pragma GCC unroll 8
        for (size_t v = 0; v < GROUP_VECTORS; v++) {
            __m256i some = load_codes(queries + i * SHADOW_GROUP + v * WIDE);
#pragma GCC unroll 8
            for (size_t r = 0; r < together; r++)
                sums[r][v] = _mm256_dpbusd_avx_epi32(sums[r][v], some, row[r]);
        }
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < together; r++)
        for (size_t v = 0; v < GROUP_VECTORS; v++)
            _mm256_store_si256((__m256i *)found[r] + v, sums[r][v]);
}

static void group_products(size_t together, size_t stride, const int8_t *queries,
                           const int8_t *codes, int32_t (*found)[SHADOW_GROUP])
{
    if (together == TILE_ROWS)
        products_of(TILE_ROWS, stride, queries, codes, found);
    else
        products_of(1, stride, queries, codes, found);
}

static uint32_t mask_of(const int32_t passes[SHADOW_GROUP])
{
    uint32_t mask = 0;
    for (size_t v = 0; v < GROUP_VECTORS; v++) {
        __m256i eight = _mm256_load_si256((const __m256i *)passes + v);
        mask |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(eight)) << 8 * v;
    }
    return mask;
}

const struct shadow_kernels shadow_vnni_avx2 = {
    .name = "avx2",
    .tiles = true,
    .measure = measure,
    .prepare = prepare,
    .scan = scan,
    .pack = pack,
    .tile = tile,
};
