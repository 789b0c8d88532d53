/* AVX-512 with VNNI. VPDPBUSD adds four products of an unsigned and a signed byte to 32 bits. For
 * one query the row's codes are made unsigned by 128, and 128 times the sum of the query's is taken
 * off again; for many queries it is the queries' codes, once, and the sum of the row's. A sum is at
 * most 255 * 128 * 16384 < 2^30. */
enum { BIAS = 128, ROWS_TOGETHER = 4, TILE_ROWS = 12, LANES = 16 };

#define SHADOW_TILE_OWN
#include "kernels/cpu/shadow_fours.h"

#include <immintrin.h>

/* How far ahead of a scan its rows are asked for. A row is read faster than the processor's own
 * prefetching comes up with it, which begins anew on each page of 4 KiB. */
enum { AHEAD_BYTES = 4096 };

static inline __m512i load_codes(const int8_t *codes)
{
    return _mm512_load_si512((const void *)codes);
}

/* ---- one query ---- */

static int32_t sum_codes(size_t stride, const int8_t *codes)
{
    __m512i sum = _mm512_setzero_si512(), one = _mm512_set1_epi8(1);
    for (size_t i = 0; i < stride; i += 64)
        sum = _mm512_dpbusd_epi32(sum, one, load_codes(codes + i));
    return _mm512_reduce_add_epi32(sum);
}

/* Sums of four vectors each. */
static inline __m128i add_up_four(const __m512i v[4])
{
    __m512i a =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    __m512i b =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    __m512i c = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    __m256i d = _mm256_add_epi32(_mm512_castsi512_si256(c), _mm512_extracti64x4_epi64(c, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(d), _mm256_extracti128_si256(d, 1));
}

/* The sums are local, so that they stay in registers. */
static inline __attribute__((always_inline)) void products_of(size_t together, size_t stride,
                                                              const int8_t *planes,
                                                              const int8_t *codes, __m512i *high,
                                                              __m512i *low)
{
    const __m512i flip = _mm512_set1_epi8((char)0x80);
    __m512i a[ROWS_TOGETHER], b[ROWS_TOGETHER];
#pragma GCC unroll 4
    for (size_t r = 0; r < together; r++)
        a[r] = b[r] = _mm512_setzero_si512();
    for (size_t i = 0; i < stride; i += 64) {
        __m512i first = load_codes(planes + i), second = load_codes(planes + stride + i);
#pragma GCC unroll 4
        for (size_t r = 0; r < together; r++) {
            const int8_t *at = codes + r * stride + i;
            __m512i row = _mm512_xor_si512(load_codes(at), flip);
            _mm_prefetch((const char *)at + AHEAD_BYTES, _MM_HINT_T0);
            a[r] = _mm512_dpbusd_epi32(a[r], row, first);
            b[r] = _mm512_dpbusd_epi32(b[r], row, second);
        }
    }
#pragma GCC unroll 4
    for (size_t r = 0; r < together; r++)
        high[r] = a[r], low[r] = b[r];
}

static void products(size_t stride, const int8_t *planes, const int8_t *codes, size_t count,
                     int32_t *high, int32_t *low)
{
    int32_t bias_high = BIAS * sum_codes(stride, planes);
    int32_t bias_low = BIAS * sum_codes(stride, planes + stride);
    size_t r = 0;
    for (; r + ROWS_TOGETHER <= count; r += ROWS_TOGETHER) {
        __m512i a[ROWS_TOGETHER], b[ROWS_TOGETHER];
        for (size_t i = 0; i < ROWS_TOGETHER; i++)
            products_of(1, stride, planes, codes + (r + i) * stride, &a[i], &b[i]);
        _mm_storeu_si128((__m128i *)(high + r),
                         _mm_sub_epi32(add_up_four(a), _mm_set1_epi32(bias_high)));
        _mm_storeu_si128((__m128i *)(low + r),
                         _mm_sub_epi32(add_up_four(b), _mm_set1_epi32(bias_low)));
    }
    for (; r < count; r++) {
        __m512i a, b;
        products_of(1, stride, planes, codes + r * stride, &a, &b);
        high[r] = _mm512_reduce_add_epi32(a) - bias_high;
        low[r] = _mm512_reduce_add_epi32(b) - bias_low;
    }
}

/* ---- many queries ---- */

/* The rest of shadow_above and of the bound, of sixteen queries and one row. */
static inline __mmask16 passing(const struct shadow_pack *p, const struct shadow_lines *lines,
                                size_t q, __m512i product, const struct shadow_rows *rows,
                                float floor, size_t r)
{
    __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(product), _mm512_set1_ps(rows->scales[r]));
    __m512 above =
        _mm512_fmadd_ps(scaled, _mm512_loadu_ps(p->scales + q), _mm512_loadu_ps(p->centred + q));
    above = _mm512_fmadd_ps(_mm512_loadu_ps(p->losts + q), _mm512_set1_ps(rows->lengths[r]), above);
    above = _mm512_fmadd_ps(_mm512_loadu_ps(p->norms + q), _mm512_set1_ps(rows->losts[r]), above);
    __m512 bound = _mm512_fmadd_ps(_mm512_loadu_ps(lines->scales + q), _mm512_set1_ps(floor),
                                   _mm512_loadu_ps(lines->offsets + q));
    return _mm512_cmp_ps_mask(above, bound, _CMP_NLT_UQ);
}

/* A group's queries and a few rows: the products. */
static inline __attribute__((always_inline)) void tile_of(size_t together, size_t stride,
                                                          const int8_t *queries,
                                                          const int8_t *codes, __m512i sums[][2])
{
    __m512i a[TILE_ROWS], b[TILE_ROWS];
#pragma GCC unroll 12
    for (size_t r = 0; r < together; r++)
        a[r] = b[r] = _mm512_setzero_si512();
    for (size_t i = 0; i < stride; i += FOUR) {
        __m512i first = load_codes(queries + i * SHADOW_GROUP);
        __m512i second = load_codes(queries + i * SHADOW_GROUP + 64);
#pragma GCC unroll 12
        for (size_t r = 0; r < together; r++) {
            int32_t four;
            memcpy(&four, codes + r * stride + i, sizeof four);
            __m512i row = _mm512_set1_epi32(four);
            a[r] = _mm512_dpbusd_epi32(a[r], first, row);
            b[r] = _mm512_dpbusd_epi32(b[r], second, row);
        }
    }
#pragma GCC unroll 12
    for (size_t r = 0; r < together; r++)
        sums[r][0] = a[r], sums[r][1] = b[r];
}

static void tile(uint32_t dimension, const void *packed, size_t count,
                 const struct shadow_lines *lines, const struct shadow_rows *rows,
                 const float *floors, uint32_t *masks)
{
    size_t stride = shadow_stride(dimension), padded = shadow_padded(count);
    struct shadow_pack p = pack_at((void *)(uintptr_t)packed, padded);
    for (size_t first = 0, n; first < rows->count; first += n) {
        n = rows->count - first < TILE_ROWS ? 1 : TILE_ROWS;
        const int8_t *codes = rows->codes + first * stride;
        int32_t bias[TILE_ROWS];
        for (size_t r = 0; r < n; r++)
            bias[r] = BIAS * sum_codes(stride, codes + r * stride);
        for (size_t q = 0; q < padded; q += SHADOW_GROUP) {
            __m512i sums[TILE_ROWS][2];
            uint32_t used = count - q < SHADOW_GROUP ? (1u << (count - q)) - 1 : ~0u;
            if (n == TILE_ROWS)
                tile_of(TILE_ROWS, stride, p.codes + q * stride, codes, sums);
            else
                tile_of(1, stride, p.codes + q * stride, codes, sums);
            for (size_t r = 0; r < n; r++) {
                uint32_t mask = 0;
                for (size_t half = 0; half < 2; half++) {
                    __m512i product = _mm512_sub_epi32(sums[r][half], _mm512_set1_epi32(bias[r]));
                    mask |= (uint32_t)passing(&p, lines, q + half * LANES, product, rows,
                                              floors[first + r], first + r)
                            << half * LANES;
                }
                masks[q / SHADOW_GROUP * rows->count + first + r] = mask & used;
            }
        }
    }
}

const struct shadow_kernels shadow_vnni = {
    .name = "avx512",
    .tiles = true,
    .measure = measure,
    .prepare = prepare,
    .scan = scan,
    .pack = pack,
    .tile = tile,
};
