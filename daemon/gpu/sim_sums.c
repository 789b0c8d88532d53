#include "daemon/gpu/sim_sums.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/superpose.h"

/* Checks count elements of `size` bytes, aligned to that or to `alignment`. */
static void check(const struct device_call *call, const struct sim_memory *m, const void *address,
                  uint64_t count, uint64_t size, uint64_t alignment)
{
    const char *name = device_kernel_name(call->kernel);
    sim_device_check_array(m, name, address, count, size, alignment);
}

static const float *row_at(const struct device_call *c, uint64_t position)
{
    if (position >= c->rows.count)
        sim_misuse(device_kernel_name(c->kernel), "position %llu of %llu rows",
                   (unsigned long long)position, (unsigned long long)c->rows.count);
    return c->rows.rows + position * vector_stride(c->rows.dimension);
}

/* ---- averages ---- */

void sim_average_check(const struct device_call *call, const struct sim_memory *m)
{
    uint64_t count = call->average.count;
    if (call->average.positions)
        check(call, m, call->average.positions, count, sizeof *call->average.positions, 4);
    check(call, m, call->average.weights, count, sizeof *call->average.weights, 4);
    check(call, m, call->average.out, call->rows.dimension, sizeof(float), 4);
}

void sim_average_run(const struct device_call *call)
{
    const uint32_t *positions = call->average.positions;
    uint32_t dimension = call->rows.dimension;
    uint64_t count = call->average.count;
    float *out = call->average.out;
    memset(out, 0, dimension * sizeof(float));
    if (call->average.total == 0.0f) return;
    for (uint64_t i = 0; i < count; i++) {
        const float *row = row_at(call, positions ? positions[i] : i);
        for (uint32_t c = 0; c < dimension; c++)
            out[c] = fmaf(call->average.weights[i], row[c], out[c]);
    }
    for (uint32_t c = 0; count && c < dimension; c++)
        out[c] /= call->average.total;
}

/* ---- sums of lists ---- */

void sim_superpose_check(const struct device_call *call, const struct sim_memory *m)
{
    const struct cuda_superpose *s = &call->superpose;
    uint64_t row = vector_stride(call->rows.dimension) * sizeof(float);
    check(call, m, s->offsets, s->pieces + 1, sizeof *s->offsets, 8);
    if (s->firsts) check(call, m, s->firsts, s->lists + 1, sizeof *s->firsts, 8);
    if (s->firsts) check(call, m, s->nodes, s->pieces, row, 64);
    check(call, m, s->sums, s->lists, row, 64);
    check(call, m, s->norms, s->lists, sizeof *s->norms, 4);
    if (!s->firsts && s->pieces != s->lists)
        sim_misuse("superpose", "%llu pieces are %llu lists", (unsigned long long)s->pieces,
                   (unsigned long long)s->lists);
    if (s->unit && !s->norms) sim_misuse("superpose", "unit sums without norms");
}

/* Of list i. */
static void range_of(const struct cuda_superpose *s, uint64_t i, uint64_t range[2])
{
    uint64_t first = s->firsts ? s->firsts[i] : i, end = s->firsts ? s->firsts[i + 1] : i + 1;
    if (first > end || end > s->pieces || s->offsets[first] > s->offsets[end])
        sim_misuse("superpose", "list %llu is pieces %llu to %llu", (unsigned long long)i,
                   (unsigned long long)first, (unsigned long long)end);
    range[0] = s->offsets[first];
    range[1] = s->offsets[end];
}

/* False: there is no memory. */
static bool sum_list(const struct device_call *call, const struct superpose_kernels *kernels,
                     uint64_t i)
{
    const struct cuda_superpose *s = &call->superpose;
    uint32_t d = call->rows.dimension;
    uint64_t range[2];
    range_of(s, i, range);
    uint64_t count = range[1] - range[0], offsets[2] = {0, count};
    const float **rows = malloc(count * sizeof *rows + 1);
    float *levels = aligned_alloc(64, (superpose_scratch(d, count) + 16) * sizeof *levels);
    for (uint64_t k = 0; rows && k < count; k++)
        rows[k] = row_at(call, s->positions ? s->positions[range[0] + k] : range[0] + k);
    const struct superpose_lists list = {.rows = rows,
                                         .weights = s->weights ? s->weights + range[0] : NULL,
                                         .offsets = offsets,
                                         .count = 1};
    bool has_memory = rows && levels;
    if (has_memory) kernels->sums(d, &list, levels, s->sums + i * vector_stride(d));
    free(rows);
    free(levels);
    return has_memory;
}

void sim_superpose_run(const struct device_call *call, const struct vector_kernels *kernels)
{
    const struct cuda_superpose *s = &call->superpose;
    uint32_t d = call->rows.dimension;
    bool has_memory = true;
    for (uint64_t i = 0; i < s->lists && has_memory; i++)
        has_memory = sum_list(call, superpose_choose(kernels->name), i);
    if (has_memory) kernels->norms(d, s->sums, s->lists, s->norms);
    for (uint64_t i = 0; i < s->lists; i++)
        if (!has_memory || !isfinite(s->norms[i])) s->norms[i] = INFINITY;
    if (has_memory && s->unit) kernels->normalize(d, s->sums, s->norms, s->lists);
}
