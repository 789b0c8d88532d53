#include "daemon/ops/queries.h"

#include "daemon/ops/operation_inside.h"

static size_t norm_bytes(size_t count)
{
    return (count * sizeof(float) + 63) / 64 * 64;
}

static size_t padded_bytes(uint32_t dimension, size_t count)
{
    bool in_place = dimension % VECTOR_LANES == 0;
    return in_place ? 0 : count * vector_stride(dimension) * sizeof(float);
}

size_t queries_check_bytes(uint32_t dimension, size_t count)
{
    return norm_bytes(count) + padded_bytes(dimension, count);
}

/* False up to 1,024 dimensions, where one pack serves both. */
static bool packs_twice(const struct query_form *form)
{
    return form->screened && form->dimension > VECTOR_COMPENSATED_ABOVE;
}

size_t queries_bytes(const struct query_form *form, size_t count)
{
    size_t bytes = queries_check_bytes(form->dimension, count);
    if (count > 1) bytes += form->kernels->pack_bytes(form->dimension, count);
    if (count > 1 && packs_twice(form))
        bytes += form->kernels->screen_pack_bytes(form->dimension, count);
    return bytes;
}

/* Writes the norms to memory and returns padded rows: behind the norms, or the given ones. */
static const float *measure(const struct vector_kernels *kernels, uint32_t dimension,
                            const float *rows, size_t count, void *memory)
{
    if (padded_bytes(dimension, count)) {
        float *padded = (float *)((char *)memory + norm_bytes(count));
        vectors_pad(dimension, rows, count, padded);
        rows = padded;
    }
    kernels->norms(dimension, rows, count, memory);
    return rows;
}

size_t queries_find_bad(const struct vector_kernels *kernels, uint32_t dimension, const float *rows,
                        size_t count, void *memory)
{
    measure(kernels, dimension, rows, count, memory);
    return vectors_find_bad(memory, count);
}

size_t queries_build(const struct query_form *form, const float *rows, size_t count, void *memory,
                     struct query_set *out)
{
    const struct vector_kernels *kernels = form->kernels;
    uint32_t dimension = form->dimension;
    char *at = (char *)memory + queries_check_bytes(dimension, count);
    const float *norms = memory;
    rows = measure(kernels, dimension, rows, count, memory);
    size_t bad = vectors_find_bad(norms, count);
    if (bad < count) return bad;
    struct query_pack pack = {.packed = at, .norms = norms, .count = count};
    struct query_pack screen = pack;
    if (count > 1) kernels->pack(dimension, rows, count, at);
    if (count > 1 && packs_twice(form)) {
        at += kernels->pack_bytes(dimension, count);
        kernels->screen_pack(dimension, rows, count, at);
        screen.packed = at;
    }
    *out = (struct query_set){count, rows, norms, pack, screen};
    return count;
}
