/* AVX2 and FMA: a partial's 32 lanes are four ymm registers. */
#include "kernels/cpu/lanes_avx2.h"
#include "kernels/cpu/tile_avx2.h"

enum { PARTS = 4, PART_LANES = 8 };

WALK_INLINE void take(__m256 *p, __m256 *c, bool compensated, __m256 x, __m256 y)
{
    if (!compensated) {
        *p = _mm256_fmadd_ps(x, y, *p);
        return;
    }
    __m256 product = _mm256_mul_ps(x, y);
    __m256 product_error = _mm256_fmsub_ps(x, y, product);
    __m256 sum = _mm256_add_ps(*p, product);
    __m256 added = _mm256_sub_ps(sum, *p);
    __m256 kept = _mm256_sub_ps(sum, added);
    __m256 sum_error = _mm256_add_ps(_mm256_sub_ps(*p, kept), _mm256_sub_ps(product, added));
    *c = _mm256_add_ps(*c, _mm256_add_ps(product_error, sum_error));
    *p = sum;
}

WALK_INLINE void take_form(__m256 *p, __m256 *c, enum walk_form form, bool compensated,
                           const float *query, __m256 row)
{
    if (form == WALK_SELF) {
        take(p, c, compensated, row, row);
    } else if (form == WALK_DOT) {
        take(p, c, compensated, _mm256_load_ps(query), row);
    } else {
        __m256 d = _mm256_sub_ps(_mm256_load_ps(query), row);
        take(p, c, compensated, d, d);
    }
}

WALK_INLINE __m256 eights(const __m256 part[PARTS])
{
    return lanes_eights(part[0], part[1], part[2], part[3]);
}

/* Sums `together` rows of the group: as many as leave enough registers for their partials. */
WALK_INLINE void sum_rows(enum walk_form form, bool compensated, int together, size_t stride,
                          const float *query, const float *const *rows, const float *const *ahead,
                          __m256 *sums, __m256 *corrections)
{
    __m256 p[2][PARTS], c[2][PARTS];
#pragma GCC unroll 2
    for (int r = 0; r < together; r++) {
#pragma GCC unroll 4
        for (int j = 0; j < PARTS; j++)
            p[r][j] = c[r][j] = _mm256_setzero_ps();
    }
    for (size_t i = 0; i < stride; i += VECTOR_LANES) {
#pragma GCC unroll 2
        for (int r = 0; r < together; r++) {
            _mm_prefetch((const char *)(ahead[r] + i), _MM_HINT_T0);
            _mm_prefetch((const char *)(ahead[r] + i + 16), _MM_HINT_T0);
#pragma GCC unroll 4
            for (int j = 0; j < PARTS; j++)
                take_form(&p[r][j], &c[r][j], form, compensated, query + i + j * PART_LANES,
                          _mm256_load_ps(rows[r] + i + j * PART_LANES));
        }
    }
#pragma GCC unroll 2
    for (int r = 0; r < together; r++) {
        sums[r] = eights(p[r]);
        if (compensated) corrections[r] = eights(c[r]);
    }
}

WALK_INLINE __m128 corrected(__m128 sum, __m128 correction)
{
    __m128 magnitude = _mm_andnot_ps(_mm_set1_ps(-0.0f), correction);
    __m128 finite = _mm_cmple_ps(magnitude, _mm_set1_ps(FLT_MAX));
    return _mm_blendv_ps(sum, _mm_add_ps(sum, correction), finite);
}

WALK_INLINE void sum_form(enum walk_form form, bool compensated, size_t stride, const float *query,
                          const struct row_group *group, float sums[WALK_GROUP])
{
    __m256 p[WALK_GROUP], c[WALK_GROUP];
    int together = compensated ? 1 : 2;
    for (int r = 0; r < WALK_GROUP; r += together)
        sum_rows(form, compensated, together, stride, query, group->rows + r, group->ahead + r,
                 p + r, c + r);
    __m128 found = lanes_fold(p[0], p[1], p[2], p[3]);
    if (compensated) found = corrected(found, lanes_fold(c[0], c[1], c[2], c[3]));
    _mm_storeu_ps(sums, found);
}

#include "kernels/cpu/variant.h"

static void tile(enum metric metric, uint32_t dimension, const struct query_pack *queries,
                 struct row_block block, float *scores, size_t scores_stride)
{
    struct tile_job job = {tile_avx2, sum, dimension, queries, scores, scores_stride};
    tile_walk(&job, metric, block);
}

static size_t pass(const float *scores, size_t count, float bound, bool lower_is_better,
                   uint32_t *positions)
{
    size_t passed = 0, i = 0;
    __m256 limit = _mm256_set1_ps(bound);
    for (; i + PART_LANES <= count; i += PART_LANES) {
        __m256 score = _mm256_loadu_ps(scores + i);
        __m256 in = lower_is_better ? _mm256_cmp_ps(score, limit, _CMP_LE_OQ)
                                    : _mm256_cmp_ps(score, limit, _CMP_GE_OQ);
        for (unsigned bits = (unsigned)_mm256_movemask_ps(in); bits; bits &= bits - 1)
            positions[passed++] = (uint32_t)(i + (size_t)__builtin_ctz(bits));
    }
    for (; i < count; i++) {
        if (lower_is_better ? scores[i] <= bound : scores[i] >= bound)
            positions[passed++] = (uint32_t)i;
    }
    return passed;
}

static void screen(uint32_t dimension, const struct query_pack *queries, struct row_block block,
                   float *dots, size_t dots_stride)
{
    tile_screen(tile_avx2, dimension, queries, block, dots, dots_stride);
}

static size_t screen_pass(const float *dots, const float *floors, size_t count, float scale,
                          float offset, uint32_t *positions)
{
    size_t passed = 0, i = 0;
    __m256 scales = _mm256_set1_ps(scale), offsets = _mm256_set1_ps(offset);
    for (; i + PART_LANES <= count; i += PART_LANES) {
        __m256 limit = _mm256_fmadd_ps(scales, _mm256_loadu_ps(floors + i), offsets);
        __m256 in = _mm256_cmp_ps(_mm256_loadu_ps(dots + i), limit, _CMP_NLT_UQ);
        for (unsigned bits = (unsigned)_mm256_movemask_ps(in); bits; bits &= bits - 1)
            positions[passed++] = (uint32_t)(i + (size_t)__builtin_ctz(bits));
    }
    for (; i < count; i++) {
        if (!(dots[i] < fmaf(scale, floors[i], offset))) positions[passed++] = (uint32_t)i;
    }
    return passed;
}

/* 32 columns at a time: four chains of fused multiply-adds hide their latency. */
static void weighted_sum(const float *const *rows, const float *weights, size_t count, size_t first,
                         size_t columns, float *sums)
{
    size_t c = 0;
    for (; c + VECTOR_LANES <= columns; c += VECTOR_LANES) {
        __m256 part[PARTS];
        for (int j = 0; j < PARTS; j++)
            part[j] = _mm256_setzero_ps();
        for (size_t i = 0; i < count; i++) {
            const float *row = rows[i] + first + c;
            __m256 weight = _mm256_set1_ps(weights[i]);
            for (int j = 0; j < PARTS; j++)
                part[j] = _mm256_fmadd_ps(weight, _mm256_loadu_ps(row + j * PART_LANES), part[j]);
        }
        for (int j = 0; j < PARTS; j++)
            _mm256_storeu_ps(sums + c + j * PART_LANES, part[j]);
    }
    for (; c < columns; c++) {
        float sum1 = 0.0f;
        for (size_t i = 0; i < count; i++)
            sum1 = fmaf(weights[i], rows[i][first + c], sum1);
        sums[c] = sum1;
    }
}

const struct vector_kernels vectors_avx2 = {
    .name = "avx2",
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
