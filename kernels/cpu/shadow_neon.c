/* NEON: products of bytes in 16 bits, 128 * 127 at most, added up in pairs to 32. */
#include "kernels/cpu/shadow_pairs_loops.h"

#include <arm_neon.h>

static inline int32x4_t add_products(int32x4_t sum, int8x16_t query, int8x16_t row)
{
    sum = vpadalq_s16(sum, vmull_s8(vget_low_s8(query), vget_low_s8(row)));
    return vpadalq_s16(sum, vmull_high_s8(query, row));
}

static int32_t pair(size_t stride, const int8_t *query, const int8_t *row)
{
    int32x4_t a = vdupq_n_s32(0), b = a;
    for (size_t i = 0; i < stride; i += 32) {
        a = add_products(a, vld1q_s8(query + i), vld1q_s8(row + i));
        b = add_products(b, vld1q_s8(query + i + 16), vld1q_s8(row + i + 16));
    }
    return vaddvq_s32(vaddq_s32(a, b));
}

static void products(size_t stride, const int8_t *planes, const int8_t *codes, size_t count,
                     int32_t *high, int32_t *low)
{
    for (size_t r = 0; r < count; r++) {
        const int8_t *row = codes + r * stride;
        int32x4_t a = vdupq_n_s32(0), b = a;
        for (size_t i = 0; i < stride; i += 16) {
            int8x16_t v = vld1q_s8(row + i);
            a = add_products(a, vld1q_s8(planes + i), v);
            b = add_products(b, vld1q_s8(planes + stride + i), v);
        }
        high[r] = vaddvq_s32(a);
        low[r] = vaddvq_s32(b);
    }
}

const struct shadow_kernels shadow_neon = {
    .name = "neon",
    .measure = measure,
    .prepare = prepare,
    .scan = scan,
    .pack = pack,
    .tile = tile,
};
