/* The reference: canonical.h in plain loops. Every other variant equals it bit for bit. */
#include "kernels/canonical.h"

#include <string.h>

static float score(enum metric metric, uint32_t dimension, const float *query, float query_norm,
                   const float *row, const float *row_norm)
{
    if (metric == METRIC_SQUARED_EUCLIDEAN)
        return canonical_squared_euclidean(dimension, query, row);
    float dot = canonical_dot(dimension, query, row);
    return metric == METRIC_COSINE ? canonical_cosine(dot, query_norm, *row_norm) : dot;
}

static void norms(uint32_t dimension, const float *rows, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++) {
        const float *row = rows + i * vector_stride(dimension);
        out[i] = canonical_norm(canonical_dot(dimension, row, row));
    }
}

static void scan(enum metric metric, uint32_t dimension, const float *query, float query_norm,
                 struct row_block block, float *scores)
{
    for (size_t i = 0; i < block.count; i++)
        scores[i] = score(metric, dimension, query, query_norm,
                          block.rows + i * vector_stride(dimension), block.norms + i);
}

static void gather(enum metric metric, uint32_t dimension, const float *query, float query_norm,
                   const float *const *rows, const float *row_norms, size_t count, float *scores)
{
    for (size_t i = 0; i < count; i++)
        scores[i] = score(metric, dimension, query, query_norm, rows[i], row_norms + i);
}

static size_t pack_bytes(uint32_t dimension, size_t count)
{
    return count * vector_stride(dimension) * sizeof(float);
}

static void pack(uint32_t dimension, const float *queries, size_t count, void *packed)
{
    memcpy(packed, queries, pack_bytes(dimension, count));
}

static void tile(enum metric metric, uint32_t dimension, const struct query_pack *queries,
                 struct row_block block, float *scores, size_t scores_stride)
{
    const float *query = queries->packed;
    for (size_t q = 0; q < queries->count; q++) {
        float query_norm = metric == METRIC_COSINE ? queries->norms[q] : 0.0f;
        scan(metric, dimension, query + q * vector_stride(dimension), query_norm, block,
             scores + q * scores_stride);
    }
}

static size_t pass(const float *scores, size_t count, float bound, bool lower_is_better,
                   uint32_t *positions)
{
    size_t passed = 0;
    for (size_t i = 0; i < count; i++) {
        if (lower_is_better ? scores[i] <= bound : scores[i] >= bound)
            positions[passed++] = (uint32_t)i;
    }
    return passed;
}

static void screen(uint32_t dimension, const struct query_pack *queries, struct row_block block,
                   float *dots, size_t dots_stride)
{
    size_t stride = vector_stride(dimension);
    for (size_t q = 0; q < queries->count; q++) {
        const float *query = (const float *)queries->packed + q * stride;
        for (size_t r = 0; r < block.count; r++) {
            const float *row = block.rows + r * stride;
            float dot = 0.0f;
            for (size_t from = 0; from < stride; from += VECTOR_COMPENSATED_ABOVE) {
                size_t left = stride - from;
                size_t length = left < VECTOR_COMPENSATED_ABOVE ? left : VECTOR_COMPENSATED_ABOVE;
                float sum = canonical_sum_plain(false, length, query + from, row + from);
                dot = from ? dot + sum : sum;
            }
            dots[q * dots_stride + r] = dot;
        }
    }
}

static size_t screen_pass(const float *dots, const float *floors, size_t count, float scale,
                          float offset, uint32_t *positions)
{
    size_t passed = 0;
    for (size_t i = 0; i < count; i++) {
        if (!(dots[i] < fmaf(scale, floors[i], offset))) positions[passed++] = (uint32_t)i;
    }
    return passed;
}

static void weighted_sum(const float *const *rows, const float *weights, size_t count, size_t first,
                         size_t columns, float *sums)
{
    for (size_t c = 0; c < columns; c++) {
        float sum = 0.0f;
        for (size_t i = 0; i < count; i++)
            sum = fmaf(weights[i], rows[i][first + c], sum);
        sums[c] = sum;
    }
}

static void normalize(uint32_t dimension, float *rows, const float *row_norms, size_t count)
{
    size_t stride = vector_stride(dimension);
    for (size_t i = 0; i < count * stride; i++) {
        float norm = row_norms[i / stride];
        rows[i] = norm == 0.0f ? 0.0f : canonical_divide(rows[i], norm);
    }
}

const struct vector_kernels vectors_scalar = {
    .name = "scalar",
    .norms = norms,
    .scan = scan,
    .gather = gather,
    .pack_bytes = pack_bytes,
    .pack = pack,
    .tile = tile,
    .pass = pass,
    .screen_pack_bytes = pack_bytes,
    .screen_pack = pack,
    .screen = screen,
    .screen_pass = screen_pass,
    .weighted_sum = weighted_sum,
    .normalize = normalize,
};
