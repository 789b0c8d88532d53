/* NEON: a partial's 32 lanes are eight 128-bit registers. */
#include "kernels/cpu/lanes_neon.h"
#include "kernels/cpu/tile_neon.h"

enum { PARTS = 8, PART_LANES = 4 };

WALK_INLINE void take(float32x4_t *p, float32x4_t *c, bool compensated, float32x4_t x,
                      float32x4_t y)
{
    if (!compensated) {
        *p = vfmaq_f32(*p, x, y);
        return;
    }
    float32x4_t product = vmulq_f32(x, y);
    float32x4_t product_error = vfmaq_f32(vnegq_f32(product), x, y);
    float32x4_t sum = vaddq_f32(*p, product);
    float32x4_t added = vsubq_f32(sum, *p);
    float32x4_t kept = vsubq_f32(sum, added);
    float32x4_t sum_error = vaddq_f32(vsubq_f32(*p, kept), vsubq_f32(product, added));
    *c = vaddq_f32(*c, vaddq_f32(product_error, sum_error));
    *p = sum;
}

WALK_INLINE void take_form(float32x4_t *p, float32x4_t *c, enum walk_form form, bool compensated,
                           const float *query, float32x4_t row)
{
    if (form == WALK_SELF) {
        take(p, c, compensated, row, row);
    } else if (form == WALK_DOT) {
        take(p, c, compensated, vld1q_f32(query), row);
    } else {
        float32x4_t d = vsubq_f32(vld1q_f32(query), row);
        take(p, c, compensated, d, d);
    }
}

/* Sums `together` rows of the group: as many as leave enough registers for their partials. */
WALK_INLINE void sum_rows(enum walk_form form, bool compensated, int together, size_t stride,
                          const float *query, const float *const *rows, const float *const *ahead,
                          float32x4_t *sums, float32x4_t *corrections)
{
    float32x4_t p[2][PARTS], c[2][PARTS];
#pragma GCC unroll 2
    for (int r = 0; r < together; r++) {
#pragma GCC unroll 8
        for (int j = 0; j < PARTS; j++)
            p[r][j] = c[r][j] = vdupq_n_f32(0.0f);
    }
    for (size_t i = 0; i < stride; i += VECTOR_LANES) {
#pragma GCC unroll 2
        for (int r = 0; r < together; r++) {
            __builtin_prefetch(ahead[r] + i);
            __builtin_prefetch(ahead[r] + i + 16);
#pragma GCC unroll 8
            for (int j = 0; j < PARTS; j++)
                take_form(&p[r][j], &c[r][j], form, compensated, query + i + j * PART_LANES,
                          vld1q_f32(rows[r] + i + j * PART_LANES));
        }
    }
#pragma GCC unroll 2
    for (int r = 0; r < together; r++) {
        sums[r] = lanes_fours(p[r]);
        if (compensated) corrections[r] = lanes_fours(c[r]);
    }
}

WALK_INLINE float32x4_t corrected(float32x4_t sum, float32x4_t correction)
{
    uint32x4_t finite = vcaleq_f32(correction, vdupq_n_f32(FLT_MAX)); /* compares magnitudes */
    return vbslq_f32(finite, vaddq_f32(sum, correction), sum);
}

WALK_INLINE void sum_form(enum walk_form form, bool compensated, size_t stride, const float *query,
                          const struct row_group *group, float sums[WALK_GROUP])
{
    float32x4_t p[WALK_GROUP], c[WALK_GROUP];
    int together = compensated ? 1 : 2;
    for (int r = 0; r < WALK_GROUP; r += together)
        sum_rows(form, compensated, together, stride, query, group->rows + r, group->ahead + r,
                 p + r, c + r);
    float32x4_t found = lanes_fold(p[0], p[1], p[2], p[3]);
    if (compensated) found = corrected(found, lanes_fold(c[0], c[1], c[2], c[3]));
    vst1q_f32(sums, found);
}

#include "kernels/cpu/variant.h"

static void tile(enum metric metric, uint32_t dimension, const struct query_pack *queries,
                 struct row_block block, float *scores, size_t scores_stride)
{
    struct tile_job job = {tile_neon, sum, dimension, queries, scores, scores_stride};
    tile_walk(&job, metric, block);
}

static size_t pass(const float *scores, size_t count, float bound, bool lower_is_better,
                   uint32_t *positions)
{
    size_t passed = 0, i = 0;
    float32x4_t limit = vdupq_n_f32(bound);
    for (; i + PART_LANES <= count; i += PART_LANES) {
        float32x4_t score = vld1q_f32(scores + i);
        uint32x4_t in = lower_is_better ? vcleq_f32(score, limit) : vcgeq_f32(score, limit);
        if (vmaxvq_u32(in) == 0) continue;
        uint32_t each[PART_LANES];
        vst1q_u32(each, in);
        for (size_t j = 0; j < PART_LANES; j++) {
            if (each[j]) positions[passed++] = (uint32_t)(i + j);
        }
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
    tile_screen(tile_neon, dimension, queries, block, dots, dots_stride);
}

static size_t screen_pass(const float *dots, const float *floors, size_t count, float scale,
                          float offset, uint32_t *positions)
{
    size_t passed = 0, i = 0;
    float32x4_t scales = vdupq_n_f32(scale), offsets = vdupq_n_f32(offset);
    for (; i + PART_LANES <= count; i += PART_LANES) {
        float32x4_t limit = vfmaq_f32(offsets, scales, vld1q_f32(floors + i));
        uint32x4_t out = vcltq_f32(vld1q_f32(dots + i), limit);
        if (vminvq_u32(out) != 0) continue;
        uint32_t each[PART_LANES];
        vst1q_u32(each, out);
        for (size_t j = 0; j < PART_LANES; j++) {
            if (!each[j]) positions[passed++] = (uint32_t)(i + j);
        }
    }
    for (; i < count; i++) {
        if (!(dots[i] < fmaf(scale, floors[i], offset))) positions[passed++] = (uint32_t)i;
    }
    return passed;
}

/* 32 columns at a time: eight chains of fused multiply-adds hide their latency. */
static void weighted_sum(const float *const *rows, const float *weights, size_t count, size_t first,
                         size_t columns, float *sums)
{
    size_t c = 0;
    for (; c + VECTOR_LANES <= columns; c += VECTOR_LANES) {
        float32x4_t part[PARTS];
        for (int j = 0; j < PARTS; j++)
            part[j] = vdupq_n_f32(0.0f);
        for (size_t i = 0; i < count; i++) {
            const float *row = rows[i] + first + c;
            float32x4_t weight = vdupq_n_f32(weights[i]);
            for (int j = 0; j < PARTS; j++)
                part[j] = vfmaq_f32(part[j], weight, vld1q_f32(row + j * PART_LANES));
        }
        for (int j = 0; j < PARTS; j++)
            vst1q_f32(sums + c + j * PART_LANES, part[j]);
    }
    for (; c < columns; c++) {
        float sum1 = 0.0f;
        for (size_t i = 0; i < count; i++)
            sum1 = fmaf(weights[i], rows[i][first + c], sum1);
        sums[c] = sum1;
    }
}

const struct vector_kernels vectors_neon = {
    .name = "neon",
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
