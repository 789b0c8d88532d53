#include "tests/support/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* p[0] after p[j] += p[j + s] for s = 16, 8, 4, 2, 1. */
static float fold(float p[32])
{
    for (int s = 16; s >= 1; s /= 2)
        for (int j = 0; j < s; j++)
            p[j] = p[j] + p[j + s];
    return p[0];
}

/* Sum of x[i] * y[i] over the row padded with +0 to a multiple of 32. */
static float sum_of_products(uint32_t dimension, const float *x, const float *y)
{
    float p[32] = {0}, c[32] = {0};
    uint32_t padded = (dimension + 31) / 32 * 32;
    for (uint32_t i = 0; i < padded; i++) {
        float a = i < dimension ? x[i] : 0.0F, b = i < dimension ? y[i] : 0.0F;
        float *sum = &p[i % 32];
        if (dimension <= 1024) {
            *sum = fmaf(a, b, *sum);
            continue;
        }
        float product = a * b;
        float product_error = fmaf(a, b, -product);
        float fresh = *sum + product;
        float part = fresh - *sum;
        float rest = fresh - part;
        float lost = *sum - rest;
        float lost_too = product - part;
        float sum_error = lost + lost_too;
        float both = product_error + sum_error;
        c[i % 32] = c[i % 32] + both;
        *sum = fresh;
    }
    if (dimension <= 1024) return fold(p);
    float correction = fold(c);
    float total = fold(p);
    return isfinite(correction) ? total + correction : total;
}

float reference_norm(uint32_t dimension, const float *x)
{
    return sqrtf(sum_of_products(dimension, x, x));
}

float reference_score(int metric, uint32_t dimension, const float *query, const float *row)
{
    if (metric == REFERENCE_EUCLIDEAN) {
        float *d = malloc(dimension * sizeof *d);
        for (uint32_t i = 0; i < dimension; i++)
            d[i] = query[i] - row[i];
        float sum = sum_of_products(dimension, d, d);
        free(d);
        return sum;
    }
    float dot = sum_of_products(dimension, query, row);
    if (metric == REFERENCE_DOT) return dot;
    float norms = reference_norm(dimension, query) * reference_norm(dimension, row);
    if (norms == 0.0F) return 0.0F;
    float cosine = dot / norms;
    return cosine > 1.0F ? 1.0F : cosine < -1.0F ? -1.0F : cosine;
}

struct hit {
    uint64_t id;
    float score;
    bool lower_is_better;
};

static int by_rank(const void *a, const void *b)
{
    const struct hit *x = a, *y = b;
    if (x->score != y->score) {
        bool before = x->lower_is_better ? x->score < y->score : x->score > y->score;
        return before ? -1 : 1;
    }
    return x->id < y->id ? -1 : x->id > y->id;
}

size_t reference_knn(const struct reference_rows *r, const float *query, size_t k,
                     const bool *allowed, const float *threshold, uint64_t *ids, float *scores)
{
    bool lower = r->metric == REFERENCE_EUCLIDEAN;
    struct hit *hits = malloc((r->count + 1) * sizeof *hits);
    size_t count = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (allowed && !allowed[i]) continue;
        float score = reference_score(r->metric, r->dimension, query, r->rows + i * r->dimension);
        if (threshold && (lower ? score > *threshold : score < *threshold)) continue;
        hits[count++] = (struct hit){r->ids ? r->ids[i] : i, score, lower};
    }
    qsort(hits, count, sizeof *hits, by_rank);
    if (count > k) count = k;
    for (size_t i = 0; i < count; i++) {
        ids[i] = hits[i].id;
        scores[i] = hits[i].score;
    }
    free(hits);
    return count;
}

void reference_fill(uint64_t seed, float *out, size_t count)
{
    uint64_t state = seed * 2862933555777941757ull + 3037000493ull;
    for (size_t i = 0; i < count; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        out[i] = (float)(int32_t)(state >> 40) / 8388608.0F - 1.0F;
    }
}

bool reference_same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}
