/* The tables of one dimension. */
#include "kernels/cpu/hrr_plan.h"

#include <string.h>

/* The least of 4, 8, 16, ... and 6, 12, 24, ... that is at least 2 dimension - 1. */
static uint32_t padded_length(uint32_t dimension)
{
    uint32_t least = 2 * dimension - 1, length = 4;
    while (length < least)
        length = length % 3 == 0 ? length / 3 * 4 : length / 2 * 3;
    return length;
}

bool hrr_has_plan(uint32_t dimension)
{
    struct transform_plan transform;
    return dimension % 2 == 0 && transform_plan_init(dimension / 2, &transform);
}

uint32_t hrr_length(uint32_t dimension)
{
    return hrr_has_plan(dimension) ? dimension : padded_length(dimension);
}

static struct hrr_plan plan_of(uint32_t dimension)
{
    struct hrr_plan p = {.dimension = dimension, .length = hrr_length(dimension)};
    p.planned = p.length == dimension;
    p.points = p.length / 2;
    (void)transform_plan_init(p.points, &p.transform);
    while ((1u << p.width) < p.points)
        p.width++;
    p.factor = (float)(1u << p.width) / (float)p.points;
    p.roots = (uint32_t)((sizeof p + 63) / 64 * 16);
    p.product_roots = p.roots + (uint32_t)((transform_roots_count(&p.transform) + 47) / 16 * 16);
    p.product_step = (uint32_t)hrr_plan_array(p.points / 2 + 1);
    p.exact_roots = p.product_roots + 2 * p.product_step;
    p.exact_step = p.planned ? (uint32_t)hrr_plan_array(p.points) : 0;
    p.end = p.exact_roots + 2 * p.exact_step;
    return p;
}

size_t hrr_plan_bytes(uint32_t dimension)
{
    return plan_of(dimension).end * sizeof(float);
}

static void make_roots(uint32_t count, uint32_t n, float *cosines, float *sines)
{
    for (uint32_t k = 0; k < count; k++) {
        struct transform_root root = transform_root(k, n);
        cosines[k] = root.cosine;
        sines[k] = root.sine;
    }
}

const struct hrr_plan *hrr_plan_make(uint32_t dimension, void *memory)
{
    struct hrr_plan p = plan_of(dimension);
    float *base = memory;
    memset(base, 0, p.end * sizeof *base);
    memcpy(memory, &p, sizeof p);
    transform_roots_make(&p.transform, base + p.roots);
    make_roots(p.points / 2 + 1, p.points, base + p.product_roots,
               base + p.product_roots + p.product_step);
    if (p.planned)
        make_roots(p.points, dimension, base + p.exact_roots, base + p.exact_roots + p.exact_step);
    return memory;
}

/* One row of N numbers and five arrays of M complex ones. */
size_t hrr_scratch_bytes(uint32_t dimension)
{
    struct hrr_plan p = plan_of(dimension);
    return (hrr_plan_array(p.length) + 10 * hrr_plan_array(p.points)) * sizeof(float);
}
