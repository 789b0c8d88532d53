/* shadow_kinds: rows of many kinds, among them those that int8 codes cannot tell apart.
 * Owner:  included by gpu_shadow.c and gpu_shadow_direct.c; everything is static inline.
 * Thread: one.
 * Errors: as device.h. */
#ifndef ENGRAM_TESTS_GPU_SHADOW_KINDS_H
#define ENGRAM_TESTS_GPU_SHADOW_KINDS_H

#include "tests/gpu/shadow_scene.h"

/* What rows are like. */
enum kind {
    RANDOM,
    UNIT,      /* of length 1 */
    TIGHT,     /* one cluster, noise of a thousandth */
    CLUSTERED, /* 1,000 clusters, noise of a tenth */
    EQUAL,
    DUPLICATES, /* each row a hundred times */
    OUTLIERS,   /* one coordinate carries the row */
    LENGTHS,    /* huge and tiny rows */
    ZEROS,      /* mostly */
    RISING,     /* sorted: each row nearer than the last */
    TIES,       /* scores that differ by a rounding or not at all */
    HALVES,     /* elements halfway between two codes */
    SAMPLED,    /* samples.h, all kinds in turn: not finite norms, subnormal elements */
    KINDS
};

static const char *const kind_names[] = {"random",     "unit",     "tight",   "clustered", "equal",
                                         "duplicates", "outliers", "lengths", "zeros",     "rising",
                                         "ties",       "halves",   "sampled"};

static inline float element(enum kind kind, uint32_t dimension, uint32_t row, uint32_t i,
                            uint64_t *state)
{
    uint64_t same = (uint64_t)(kind == CLUSTERED ? row % 1000 : 0) * 0x10001 + i * 77777u + 5;
    uint64_t few = (uint64_t)(row / 100) * 0x30001 + i * 7777u + 11;
    float u = sample_uniform(state);
    switch (kind) {
    case RANDOM:
    case UNIT: return u + sample_uniform(state) + sample_uniform(state);
    case TIGHT: return sample_uniform(&same) + 1e-3f * u;
    case CLUSTERED: return sample_uniform(&same) + 0.1f * u;
    case EQUAL: return sample_uniform(&same);
    case DUPLICATES: return sample_uniform(&few);
    case OUTLIERS: return i == (row * 7 + 3) % dimension ? 100.0f * u : 0.01f * u;
    case LENGTHS: return ldexpf(u, (int)(row % 100) - 50);
    case ZEROS: return row % 5 ? 0.0f : u;
    case RISING: return sample_uniform(&same) + (float)row * 0x1p-18f * u;
    case TIES: return sample_uniform(&same) * (u > 0.9f ? 1.0f + 0x1p-23f : 1.0f);
    case HALVES: return i == 0 ? 127.0f : floorf(126.0f * u) + 0.5f;
    case SAMPLED:
    case KINDS: break;
    }
    /* Without the kind whose norms are near the largest float: rows are validated before. */
    return sample_element((enum sample)(row % SAMPLES), dimension, i, state);
}

static inline void fill(enum kind kind, uint32_t dimension, size_t count, uint64_t seed,
                        float *rows)
{
    size_t stride = vector_stride(dimension);
    for (size_t r = 0; r < count; r++) {
        float *row = rows + r * stride;
        double squares = 0;
        for (uint32_t i = 0; i < stride; i++) {
            row[i] = i < dimension ? element(kind, dimension, (uint32_t)r, i, &seed) : 0.0f;
            squares += (double)row[i] * row[i];
        }
        for (uint32_t i = 0; kind == UNIT && i < dimension; i++)
            row[i] = (float)(row[i] / sqrt(squares));
    }
}

/* Half of the queries are rows. */
static inline struct scene scene_create(enum kind kind, uint32_t dimension, size_t rows,
                                        size_t query_count)
{
    size_t stride = vector_stride(dimension), row = stride * sizeof(float);
    struct scene s = {.name = kind_names[kind], .dimension = dimension};
    float *queries = samples_allocate(query_count * stride);
    s.host_rows = samples_allocate(rows * stride);
    fill(kind, dimension, rows, 1, s.host_rows);
    fill(kind, dimension, query_count, 2, queries);
    for (size_t q = 0; q < query_count; q += 2)
        memcpy(queries + q * stride, s.host_rows + rows / query_count * q * stride, row);
    scene_finish(&s, device_copy_of(s.host_rows, rows * row),
                 device_copy_of(queries, query_count * row), rows, query_count);
    samples_free(queries);
    return s;
}

#endif
