/* shadow_scene: rows that are easy, hard or useless to code in int8, with their shadow.
 * Owner:  included by gpu_shadow.c and gpu_shadow_bench.c; everything is static inline.
 * Thread: one.
 * Errors: as device.h. */
#ifndef ENGRAM_TESTS_GPU_SHADOW_SCENE_H
#define ENGRAM_TESTS_GPU_SHADOW_SCENE_H

#include "kernels/cuda/rows_cuda.h"
#include "kernels/cuda/shadow_cuda.h"
#include "kernels/shadow.h"
#include "tests/gpu/device.h"
#include "tests/kernels/samples.h"

static const char *const metric_names[] = {"", "cosine", "dot", "euclidean"};

struct scene {
    const char *name;
    uint32_t dimension;
    float *host_rows; /* NULL: made on the device */
    struct cuda_rows rows;
    struct cuda_queries queries;
    struct cuda_shadow shadow;
};

static inline struct cuda_shadow shadow_create(const struct cuda_rows *rows)
{
    size_t stride = vector_stride(rows->dimension);
    float *centre = device_allocate(stride * sizeof(float));
    float *centre_norm = device_allocate(sizeof(float));
    struct cuda_shadow s = {device_allocate(rows->count * shadow_stride(rows->dimension)),
                            device_allocate(rows->count * sizeof(float)),
                            device_allocate(rows->count * sizeof(float)),
                            device_allocate(rows->count * sizeof(float)),
                            centre,
                            centre_norm};
    DEVICE(cuda_shadow_centre(rows, centre, centre_norm, NULL));
    /* In two parts: a part must leave the other's alone. */
    DEVICE(cuda_shadow_code(rows, 0, rows->count / 3, &s, NULL));
    DEVICE(cuda_shadow_code(rows, rows->count / 3, rows->count - rows->count / 3, &s, NULL));
    return s;
}

static inline void scene_finish(struct scene *s, const float *rows, const float *queries,
                                size_t count, size_t query_count)
{
    float *norms = device_allocate(count * sizeof(float));
    float *query_norms = device_allocate(query_count * sizeof(float));
    s->rows = (struct cuda_rows){s->dimension, rows, norms, count};
    s->queries = (struct cuda_queries){queries, query_norms, query_count};
    struct cuda_rows as_rows = {s->dimension, queries, NULL, query_count};
    DEVICE(cuda_norms(&s->rows, norms, NULL));
    DEVICE(cuda_norms(&as_rows, query_norms, NULL));
    s->shadow = shadow_create(&s->rows);
}

static inline struct scene scene_random(uint32_t dimension, size_t rows, size_t queries)
{
    size_t row = vector_stride(dimension) * sizeof(float);
    struct scene s = {.name = "random", .dimension = dimension};
    float *all = device_allocate(rows * row), *asked = device_allocate(queries * row);
    DEVICE(cuda_random(1, dimension, 0, rows, all, NULL));
    DEVICE(cuda_random(2, dimension, 0, queries, asked, NULL));
    scene_finish(&s, all, asked, rows, queries);
    return s;
}

static inline void scene_destroy(struct scene *s)
{
    if (s->host_rows) samples_free(s->host_rows);
    cudaFree((void *)s->rows.rows), cudaFree((void *)s->rows.norms);
    cudaFree((void *)s->queries.rows), cudaFree((void *)s->queries.norms);
    cudaFree(s->shadow.codes), cudaFree(s->shadow.scales), cudaFree(s->shadow.losts);
    cudaFree(s->shadow.lengths), cudaFree((void *)s->shadow.centre);
    cudaFree((void *)s->shadow.centre_norm);
}

#endif
