/* permute: rows whose numbers are shifted around their end. */
#include "daemon/ops/holographic.h"

static uint64_t permute_scratch_bytes(const struct holographic *w)
{
    return 0;
}

static uint64_t permute_make(struct holographic *w, uint64_t first, uint64_t count, void *scratch,
                             float *out, struct failure *why)
{
    uint64_t d = w->dimension, shift = (uint64_t)(w->request->shift % (int64_t)d + (int64_t)d) % d;
    for (uint64_t i = 0; i < count; i++) {
        const float *row = operand_row(&w->operands[0], first + i);
        memcpy(out + i * d + shift, row, (d - shift) * sizeof *row);
        memcpy(out + i * d, row + d - shift, shift * sizeof *row);
    }
    return count;
}

static const struct holographic_kind permute_kind = {.operands = 1,
                                                     .products = 1,
                                                     .beside = 256,
                                                     .scratch_bytes = permute_scratch_bytes,
                                                     .make = permute_make};
HOLOGRAPHIC_OPERATION(permute)
