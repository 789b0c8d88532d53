/* AVX-512: a partial's 32 lanes are two zmm registers. */
#include "kernels/cpu/lanes_avx512.h"
#include "kernels/cpu/tile_avx512.h"

struct partial {
    __m512 low, high;             /* lanes 0-15, 16-31 */
    __m512 low_error, high_error; /* compensated sums only */
};

WALK_INLINE void take(__m512 *p, __m512 *c, bool compensated, __m512 x, __m512 y)
{
    if (!compensated) {
        *p = _mm512_fmadd_ps(x, y, *p);
        return;
    }
    __m512 product = _mm512_mul_ps(x, y);
    __m512 product_error = _mm512_fmsub_ps(x, y, product);
    __m512 sum = _mm512_add_ps(*p, product);
    __m512 added = _mm512_sub_ps(sum, *p);
    __m512 kept = _mm512_sub_ps(sum, added);
    __m512 sum_error = _mm512_add_ps(_mm512_sub_ps(*p, kept), _mm512_sub_ps(product, added));
    *c = _mm512_add_ps(*c, _mm512_add_ps(product_error, sum_error));
    *p = sum;
}

WALK_INLINE void take_form(__m512 *p, __m512 *c, enum walk_form form, bool compensated,
                           __m512 query, __m512 row)
{
    if (form == WALK_EUCLIDEAN) {
        __m512 d = _mm512_sub_ps(query, row);
        take(p, c, compensated, d, d);
    } else {
        take(p, c, compensated, form == WALK_SELF ? row : query, row);
    }
}

/* Folds four partials by the tree. */
WALK_INLINE __m128 fold(__m512 a, __m512 b, __m512 c, __m512 d)
{
    __m512 quarters = lanes_quarters(a, b, c, d);
    __m512 pairs = lanes_pairs(quarters, quarters);
    __m512 singles = lanes_singles(pairs, pairs);
    __m512i firsts = _mm512_castsi128_si512(_mm_setr_epi32(0, 4, 8, 12));
    return _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, singles));
}

WALK_INLINE __m128 corrected(__m128 sum, __m128 correction)
{
    __mmask8 infinite = _mm_fpclass_ps_mask(correction, 0x99); /* NaN, either infinity */
    return _mm_mask_mov_ps(_mm_add_ps(sum, correction), infinite, sum);
}

WALK_INLINE void sum_form(enum walk_form form, bool compensated, size_t stride, const float *query,
                          const struct row_group *group, float sums[WALK_GROUP])
{
    struct partial p[WALK_GROUP];
#pragma GCC unroll 4
    for (int r = 0; r < WALK_GROUP; r++)
        p[r].low = p[r].high = p[r].low_error = p[r].high_error = _mm512_setzero_ps();
    for (size_t i = 0; i < stride; i += VECTOR_LANES) {
        __m512 low = form == WALK_SELF ? p[0].low : _mm512_load_ps(query + i);
        __m512 high = form == WALK_SELF ? p[0].low : _mm512_load_ps(query + i + 16);
#pragma GCC unroll 4
        for (int r = 0; r < WALK_GROUP; r++) {
            const float *row = group->rows[r] + i;
            _mm_prefetch((const char *)(group->ahead[r] + i), _MM_HINT_T0);
            _mm_prefetch((const char *)(group->ahead[r] + i + 16), _MM_HINT_T0);
            take_form(&p[r].low, &p[r].low_error, form, compensated, low, _mm512_load_ps(row));
            take_form(&p[r].high, &p[r].high_error, form, compensated, high,
                      _mm512_load_ps(row + 16));
        }
    }
    __m128 found = fold(_mm512_add_ps(p[0].low, p[0].high), _mm512_add_ps(p[1].low, p[1].high),
                        _mm512_add_ps(p[2].low, p[2].high), _mm512_add_ps(p[3].low, p[3].high));
    if (compensated)
        found = corrected(found, fold(_mm512_add_ps(p[0].low_error, p[0].high_error),
                                      _mm512_add_ps(p[1].low_error, p[1].high_error),
                                      _mm512_add_ps(p[2].low_error, p[2].high_error),
                                      _mm512_add_ps(p[3].low_error, p[3].high_error)));
    _mm_storeu_ps(sums, found);
}

#include "kernels/cpu/variant.h"

static void tile(enum metric metric, uint32_t dimension, const struct query_pack *queries,
                 struct row_block block, float *scores, size_t scores_stride)
{
    struct tile_job job = {tile_avx512, sum, dimension, queries, scores, scores_stride};
    tile_walk(&job, metric, block);
}

static size_t pass(const float *scores, size_t count, float bound, bool lower_is_better,
                   uint32_t *positions)
{
    size_t passed = 0;
    __m512 limit = _mm512_set1_ps(bound);
    __m512i index = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (size_t i = 0; i < count; i += 16) {
        __mmask16 live = count - i < 16 ? (__mmask16)((1u << (count - i)) - 1) : 0xffff;
        __m512 score = _mm512_maskz_loadu_ps(live, scores + i);
        __mmask16 in = lower_is_better ? _mm512_mask_cmp_ps_mask(live, score, limit, _CMP_LE_OQ)
                                       : _mm512_mask_cmp_ps_mask(live, score, limit, _CMP_GE_OQ);
        if (in) {
            _mm512_storeu_si512(positions + passed, _mm512_maskz_compress_epi32(in, index));
            passed += (size_t)__builtin_popcount(in);
        }
        index = _mm512_add_epi32(index, _mm512_set1_epi32(16));
    }
    return passed;
}

static void screen(uint32_t dimension, const struct query_pack *queries, struct row_block block,
                   float *dots, size_t dots_stride)
{
    tile_screen(tile_avx512_screen, dimension, queries, block, dots, dots_stride);
}

static size_t screen_pass(const float *dots, const float *floors, size_t count, float scale,
                          float offset, uint32_t *positions)
{
    size_t passed = 0;
    __m512 scales = _mm512_set1_ps(scale), offsets = _mm512_set1_ps(offset);
    __m512i index = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (size_t i = 0; i < count; i += 16) {
        __mmask16 live = count - i < 16 ? (__mmask16)((1u << (count - i)) - 1) : 0xffff;
        __m512 floor = _mm512_maskz_loadu_ps(live, floors + i);
        __m512 limit = _mm512_fmadd_ps(scales, floor, offsets);
        __mmask16 in = _mm512_mask_cmp_ps_mask(live, _mm512_maskz_loadu_ps(live, dots + i), limit,
                                               _CMP_NLT_UQ);
        if (in) {
            _mm512_storeu_si512(positions + passed, _mm512_maskz_compress_epi32(in, index));
            passed += (size_t)__builtin_popcount(in);
        }
        index = _mm512_add_epi32(index, _mm512_set1_epi32(16));
    }
    return passed;
}

/* 64 columns at a time: four chains of fused multiply-adds hide their latency. */
static void weighted_sum(const float *const *rows, const float *weights, size_t count, size_t first,
                         size_t columns, float *sums)
{
    for (size_t c = 0; c < columns; c += 64) {
        __mmask16 live[4];
        __m512 sum4[4];
        for (size_t j = 0; j < 4; j++) {
            size_t left = columns - c > j * 16 ? columns - c - j * 16 : 0;
            live[j] = left < 16 ? (__mmask16)((1u << left) - 1) : 0xffff;
            sum4[j] = _mm512_setzero_ps();
        }
        for (size_t i = 0; i < count; i++) {
            __m512 weight = _mm512_set1_ps(weights[i]);
            for (size_t j = 0; j < 4; j++) {
                __m512 row = _mm512_maskz_loadu_ps(live[j], rows[i] + first + c + j * 16);
                sum4[j] = _mm512_fmadd_ps(weight, row, sum4[j]);
            }
        }
        for (size_t j = 0; j < 4; j++)
            _mm512_mask_storeu_ps(sums + c + j * 16, live[j], sum4[j]);
    }
}

const struct vector_kernels vectors_avx512 = {
    .name = "avx512",
    .norms = norms,
    .scan = scan,
    .gather = gather,
    .pack_bytes = tile_pack_bytes,
    .pack = tile_pack,
    .tile = tile,
    .pass = pass,
    .screen_pack_bytes = tile_pack_bytes,
    .screen_pack = tile_screen_pack,
    .screen = screen,
    .screen_pass = screen_pass,
    .weighted_sum = weighted_sum,
    .normalize = walk_normalize,
};
