/* NEON with SDOT, which adds four products of signed bytes to 32 bits: no side needs a bias. Four
 * codes of a row are a lane of it. */
enum { BIAS = 0, TILE_ROWS = 2 };

#include "kernels/cpu/shadow_fours.h"

#include <arm_neon.h>

enum { WIDE = 16, GROUP_VECTORS = SHADOW_GROUP * FOUR / WIDE };

static int32_t row_bias(size_t stride, const int8_t *codes)
{
    (void)stride, (void)codes;
    return 0;
}

static void products(size_t stride, const int8_t *planes, const int8_t *codes, size_t count,
                     int32_t *high, int32_t *low)
{
    for (size_t r = 0; r < count; r++) {
        const int8_t *row = codes + r * stride;
        int32x4_t a = vdupq_n_s32(0), b = a, c = a, d = a;
        for (size_t i = 0; i < stride; i += 2 * WIDE) {
            int8x16_t first = vld1q_s8(row + i), second = vld1q_s8(row + i + WIDE);
            a = vdotq_s32(a, first, vld1q_s8(planes + i));
            b = vdotq_s32(b, second, vld1q_s8(planes + i + WIDE));
            c = vdotq_s32(c, first, vld1q_s8(planes + stride + i));
            d = vdotq_s32(d, second, vld1q_s8(planes + stride + i + WIDE));
        }
        high[r] = vaddvq_s32(vaddq_s32(a, b));
        low[r] = vaddvq_s32(vaddq_s32(c, d));
    }
}

static inline __attribute__((always_inline)) void products_of(size_t together, size_t stride,
                                                              const int8_t *queries,
                                                              const int8_t *codes,
                                                              int32_t (*found)[SHADOW_GROUP])
{
    int32x4_t sums[TILE_ROWS][GROUP_VECTORS];
#pragma GCC unroll 8
    for (size_t r = 0; r < together; r++)
        for (size_t v = 0; v < GROUP_VECTORS; v++)
            sums[r][v] = vdupq_n_s32(0);
    for (size_t i = 0; i < stride; i += WIDE) {
        int8x16_t row[TILE_ROWS];
        const int8_t *at = queries + i * SHADOW_GROUP;
#pragma GCC unroll 8
        for (size_t r = 0; r < together; r++)
            row[r] = vld1q_s8(codes + r * stride + i);
#pragma GCC unroll 8
        for (size_t v = 0; v < GROUP_VECTORS; v++)
#pragma GCC unroll 8
            for (size_t r = 0; r < together; r++) {
                enum { APART = SHADOW_GROUP * FOUR };
                const int8_t *some = at + v * WIDE;
                int32x4_t s = vdotq_laneq_s32(sums[r][v], vld1q_s8(some), row[r], 0);
                s = vdotq_laneq_s32(s, vld1q_s8(some + APART), row[r], 1);
                s = vdotq_laneq_s32(s, vld1q_s8(some + 2 * APART), row[r], 2);
                sums[r][v] = vdotq_laneq_s32(s, vld1q_s8(some + 3 * APART), row[r], 3);
            }
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < together; r++)
        for (size_t v = 0; v < GROUP_VECTORS; v++)
            vst1q_s32(found[r] + 4 * v, sums[r][v]);
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
    for (size_t i = 0; i < SHADOW_GROUP; i++)
        mask |= (uint32_t)-passes[i] << i;
    return mask;
}

const struct shadow_kernels shadow_dot_neon = {
    .name = "neon",
    .tiles = true,
    .measure = measure,
    .prepare = prepare,
    .scan = scan,
    .pack = pack,
    .tile = tile,
};
