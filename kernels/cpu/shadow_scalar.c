/* The reference: plain C. */
#include "kernels/cpu/shadow_pairs_loops.h"

static int32_t pair(size_t stride, const int8_t *query, const int8_t *row)
{
    int32_t sum = 0;
    for (size_t i = 0; i < stride; i++)
        sum += query[i] * row[i];
    return sum;
}

static void products(size_t stride, const int8_t *planes, const int8_t *codes, size_t count,
                     int32_t *high, int32_t *low)
{
    for (size_t r = 0; r < count; r++) {
        high[r] = pair(stride, planes, codes + r * stride);
        low[r] = pair(stride, planes + stride, codes + r * stride);
    }
}

const struct shadow_kernels shadow_scalar = {
    .name = "scalar",
    .measure = measure,
    .prepare = prepare,
    .scan = scan,
    .pack = pack,
    .tile = tile,
};
