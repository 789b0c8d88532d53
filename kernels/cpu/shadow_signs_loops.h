/* shadow_signs_loops: products of codes, 32 bytes at a time. VPMADDUBSW takes one side unsigned:
 * the query's magnitudes, up to 128, with the row's codes, up to 127, whose signs the query's
 * change. Two such products are at most 2 * 128 * 127 < 2^15, so nothing saturates.
 * Owner:  included by the variants of x86-64 without VNNI; everything is static.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_SHADOW_SIGNS_LOOPS_H
#define ENGRAM_KERNELS_CPU_SHADOW_SIGNS_LOOPS_H

#include "kernels/cpu/shadow_pairs_loops.h"

#include <immintrin.h>

enum { AHEAD_BYTES = 4096 }; /* as in shadow_vnni_avx512.c */

static inline __m256i add_products(__m256i sum, __m256i query, __m256i row)
{
    __m256i two = _mm256_maddubs_epi16(_mm256_abs_epi8(query), _mm256_sign_epi8(row, query));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(two, _mm256_set1_epi16(1)));
}

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

static int32_t pair(size_t stride, const int8_t *query, const int8_t *row)
{
    __m256i a = _mm256_setzero_si256(), b = a;
    for (size_t i = 0; i < stride; i += 64) {
        a = add_products(a, load_codes(query + i), load_codes(row + i));
        b = add_products(b, load_codes(query + i + 32), load_codes(row + i + 32));
    }
    return add_up(_mm256_add_epi32(a, b));
}

static void products(size_t stride, const int8_t *planes, const int8_t *codes, size_t count,
                     int32_t *high, int32_t *low)
{
    for (size_t r = 0; r < count; r++) {
        const int8_t *row = codes + r * stride;
        __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
        for (size_t i = 0; i < stride; i += 64) {
            __m256i first = load_codes(row + i), second = load_codes(row + i + 32);
            a = add_products(a, load_codes(planes + i), first);
            b = add_products(b, load_codes(planes + i + 32), second);
            c = add_products(c, load_codes(planes + stride + i), first);
            d = add_products(d, load_codes(planes + stride + i + 32), second);
            _mm_prefetch((const char *)row + i + AHEAD_BYTES, _MM_HINT_T0);
        }
        high[r] = add_up(_mm256_add_epi32(a, b));
        low[r] = add_up(_mm256_add_epi32(c, d));
    }
}

#endif
