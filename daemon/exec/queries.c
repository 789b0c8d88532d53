#include "daemon/exec/queries.h"

#include "daemon/exec/operation_inside.h"

static size_t norm_bytes(size_t count)
{
    return (count * sizeof(float) + 63) / 64 * 64;
}

static size_t padded_bytes(uint32_t dimension, size_t count)
{
    bool in_place = dimension % VECTOR_LANES == 0;
    return in_place ? 0 : count * vector_stride(dimension) * sizeof(float);
}

size_t queries_bytes(const struct vector_kernels *kernels, uint32_t dimension, size_t count)
{
    return norm_bytes(count) + padded_bytes(dimension, count) +
           (count > 1 ? kernels->pack_bytes(dimension, count) : 0);
}

size_t queries_build(const struct vector_kernels *kernels, uint32_t dimension, const float *rows,
                     size_t count, void *memory, struct query_set *out)
{
    char *at = memory;
    float *norms = memory;
    at += norm_bytes(count);
    if (padded_bytes(dimension, count)) {
        float *padded = (float *)at;
        at += padded_bytes(dimension, count);
        operation_pad(dimension, rows, count, padded);
        rows = padded;
    }
    kernels->norms(dimension, rows, count, norms);
    size_t bad = operation_find_bad(norms, count);
    if (bad < count) return bad;
    if (count > 1) kernels->pack(dimension, rows, count, at);
    *out = (struct query_set){
        .count = count,
        .single = rows,
        .norms = norms,
        .pack = {.packed = at, .norms = norms, .count = count},
    };
    return count;
}
