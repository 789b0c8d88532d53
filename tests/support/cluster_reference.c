#include "tests/support/cluster_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/functions.h"

/* ---------------------------------------------------------------- what a value is */

/* Neumaier's sum, as he wrote it. */
struct neumaier {
    float sum;
    double lost;
};

static void take(struct neumaier *n, float x)
{
    float t = n->sum + x;
    float lost = fabsf(n->sum) >= fabsf(x) ? (n->sum - t) + x : (x - t) + n->sum;
    n->lost += (double)lost;
    n->sum = t;
}

static float mean(const struct neumaier *n, uint32_t count)
{
    return (float)(((double)n->sum + n->lost) / count);
}

struct state {
    const struct cluster_instance *c;
    size_t stride;
    float *rows, *centroids;
    float *norms, *centroid_norms;
    uint32_t *of;  /* row: the id of its cluster */
    bool *out;     /* row: its cluster was left out */
    float *values; /* id x id: of pairs, while neither has changed */
};

static float norm(const struct state *s, const float *row)
{
    return canonical_norm(canonical_dot(s->c->dimension, row, row));
}

static float cosine(const struct state *s, const float *a, float norm_a, const float *b,
                    float norm_b)
{
    return canonical_cosine(canonical_dot(s->c->dimension, a, b), norm_a, norm_b);
}

static bool is_cluster(const struct state *s, uint32_t id)
{
    return s->of[id] == id && !s->out[id];
}

static uint32_t size_of(const struct state *s, uint32_t id)
{
    uint32_t size = 0;
    for (uint32_t i = 0; i < s->c->rows; i++)
        size += s->of[i] == id;
    return size;
}

static void find_centroid(struct state *s, uint32_t id)
{
    float *to = s->centroids + id * s->stride;
    for (uint32_t k = 0; k < s->c->dimension; k++) {
        struct neumaier n = {0};
        for (uint32_t i = 0; i < s->c->rows; i++)
            if (s->of[i] == id) take(&n, s->rows[i * s->stride + k]);
        to[k] = mean(&n, size_of(s, id));
    }
    s->centroid_norms[id] = norm(s, to);
}

static float similarity(const struct state *s, uint32_t i, uint32_t j, bool timed)
{
    float value =
        cosine(s, s->rows + i * s->stride, s->norms[i], s->rows + j * s->stride, s->norms[j]);
    if (timed && s->c->times) {
        float hours = fabsf(s->c->times[i] - s->c->times[j]) / 24.0f;
        value = value * canonical_exponential(-hours);
    }
    return canonical_logistic(10.0f * (value - 0.5f));
}

/* The number of 24 bits nearest to the sum, which is in units of 2^-45, over its pairs; of two the
 * even one. */
static float nearest_mean(unsigned __int128 sum, uint64_t pairs)
{
    float best = (float)((double)sum / (double)pairs * 0x1p-45);
    float tried[3] = {nextafterf(best, 0), best, nextafterf(best, 2)};
    __int128 least = -1;
    for (int i = 0; i < 3; i++) {
        __int128 off = (__int128)sum - (__int128)ldexp((double)tried[i], 45) * (__int128)pairs;
        if (off < 0) off = -off;
        uint32_t bits = canonical_bits(tried[i]);
        if (least >= 0 && (off > least || (off == least && bits % 2))) continue;
        least = off;
        best = tried[i];
    }
    return best;
}

static float pair_value(const struct state *s, uint32_t a, uint32_t b)
{
    if (!s->c->average)
        return cosine(s, s->centroids + a * s->stride, s->centroid_norms[a],
                      s->centroids + b * s->stride, s->centroid_norms[b]);
    unsigned __int128 sum = 0;
    uint64_t pairs = 0;
    for (uint32_t i = 0; i < s->c->rows; i++)
        for (uint32_t j = 0; s->of[i] == a && j < s->c->rows; j++) {
            if (s->of[j] != b) continue;
            sum += (unsigned __int128)ldexp((double)similarity(s, i, j, true), 45);
            pairs++;
        }
    return nearest_mean(sum, pairs);
}

/* ---------------------------------------------------------------- merges */

static void renew(struct state *s, uint32_t id)
{
    uint32_t n = s->c->rows;
    for (uint32_t other = 0; other < n; other++) {
        if (other == id || !is_cluster(s, other)) continue;
        s->values[id * n + other] = s->values[other * n + id] = pair_value(s, id, other);
    }
}

/* Merges the best pair. False: none reaches the threshold (strict: exceeds it). */
static bool merge_best(struct state *s, float threshold, bool strict, struct cluster_answer *to)
{
    uint32_t n = s->c->rows, low = 0, high = 0;
    float best = -2;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = a + 1; is_cluster(s, a) && b < n; b++)
            if (is_cluster(s, b) && s->values[a * n + b] > best)
                best = s->values[a * n + b], low = a, high = b;
    if (low == high || (strict ? !(best > threshold) : !(best >= threshold))) return false;
    for (uint32_t i = 0; i < n; i++)
        if (s->of[i] == high) s->of[i] = low;
    to->pairs[to->merges][0] = low;
    to->pairs[to->merges++][1] = high;
    find_centroid(s, low);
    renew(s, low);
    return true;
}

static void leave_out_small(struct state *s)
{
    for (uint32_t id = 0; id < s->c->rows; id++)
        if (is_cluster(s, id) && size_of(s, id) < s->c->size_min) s->out[id] = true;
}

static float score_of(const struct state *s, uint32_t id)
{
    struct neumaier strength = {0};
    unsigned __int128 sum = 0;
    uint64_t pairs = 0;
    for (uint32_t i = 0; i < s->c->rows; i++) {
        if (s->of[i] != id) continue;
        take(&strength, cosine(s, s->rows + i * s->stride, s->norms[i],
                               s->centroids + id * s->stride, s->centroid_norms[id]));
        for (uint32_t j = i + 1; j < s->c->rows; j++) {
            if (s->of[j] != id) continue;
            sum += (unsigned __int128)ldexp((double)similarity(s, i, j, false), 45);
            pairs++;
        }
    }
    if (!s->c->average) return mean(&strength, size_of(s, id));
    return pairs ? nearest_mean(sum, pairs) : 1;
}

static void begin(struct state *s, const struct cluster_instance *c)
{
    uint32_t n = c->rows;
    *s = (struct state){.c = c, .stride = vector_stride(c->dimension)};
    s->rows = calloc(n * s->stride, sizeof(float));
    s->centroids = calloc(n * s->stride, sizeof(float));
    s->norms = calloc(n, sizeof(float));
    s->centroid_norms = calloc(n, sizeof(float));
    s->of = calloc(n, sizeof(uint32_t));
    s->out = calloc(n, sizeof(bool));
    s->values = calloc((size_t)n * n, sizeof(float));
    for (uint32_t i = 0; i < n; i++) {
        memcpy(s->rows + i * s->stride, c->data + i * c->dimension, c->dimension * sizeof(float));
        s->norms[i] = norm(s, s->rows + i * s->stride);
        s->of[i] = i;
    }
    for (uint32_t i = 0; i < n; i++)
        find_centroid(s, i);
    for (uint32_t i = 0; i < n; i++)
        renew(s, i);
}

static void add_cluster(struct state *s, struct cluster_answer *a, uint32_t id, float score)
{
    uint32_t d = s->c->dimension;
    for (uint32_t i = 0; i < s->c->rows; i++)
        if (s->of[i] == id) a->labels[i] = a->count;
    memcpy(a->centroids + (size_t)a->count * d, s->centroids + id * s->stride, d * sizeof(float));
    a->sizes[a->count] = size_of(s, id);
    a->scores[a->count++] = score;
}

/* The largest first, then the strongest, then the lowest id. */
static void choose(struct state *s, struct cluster_answer *a)
{
    while (a->count < s->c->clusters_max) {
        uint32_t best = UINT32_MAX, best_size = 0;
        float best_score = 0;
        for (uint32_t id = 0; id < s->c->rows; id++) {
            if (!is_cluster(s, id)) continue;
            uint32_t size = size_of(s, id);
            float score = score_of(s, id);
            if (score < s->c->score_min) continue;
            if (size < best_size || (size == best_size && score <= best_score)) continue;
            best = id, best_size = size, best_score = score;
        }
        if (best == UINT32_MAX) return;
        add_cluster(s, a, best, best_score);
        s->out[best] = true;
    }
}

struct cluster_answer cluster_reference(const struct cluster_instance *c)
{
    uint32_t n = c->rows;
    struct cluster_answer a = {0};
    struct state s;
    begin(&s, c);
    a.pairs = calloc(n, sizeof *a.pairs);
    while (merge_best(&s, c->threshold, false, &a))
        ;
    a.first_merges = a.merges;
    leave_out_small(&s);
    while (!c->average && merge_best(&s, c->threshold_second, true, &a))
        ;
    a.labels = malloc(n * sizeof *a.labels);
    memset(a.labels, 0xff, n * sizeof *a.labels);
    a.sizes = calloc(n, sizeof *a.sizes);
    a.scores = calloc(n, sizeof *a.scores);
    a.centroids = calloc((size_t)n * c->dimension, sizeof *a.centroids);
    choose(&s, &a);
    free(s.rows), free(s.centroids), free(s.norms), free(s.centroid_norms);
    free(s.of), free(s.out), free(s.values);
    return a;
}

void cluster_answer_free(struct cluster_answer *a)
{
    free(a->pairs);
    free(a->labels), free(a->sizes), free(a->scores), free(a->centroids);
}

/* ---------------------------------------------------------------- instances */

/* About Gaussian: the sum of some uniform numbers. */
static float gaussian(unsigned *seed)
{
    float sum = 0;
    for (int i = 0; i < 6; i++)
        sum += (float)(rand_r(seed) % 20001 - 10000) / 10000.0f;
    return sum / 1.41421356f;
}

static void noise(float *row, const float *from, uint32_t dimension, float share, unsigned *seed)
{
    for (uint32_t k = 0; k < dimension; k++)
        row[k] = (from ? from[k] : 0) + share * gaussian(seed);
}

float *cluster_make(enum cluster_shape shape, uint32_t rows, uint32_t dimension, uint32_t planted,
                    unsigned seed)
{
    float *data = malloc((size_t)rows * dimension * sizeof *data);
    for (uint32_t i = 0; i < rows; i++) {
        float *row = data + (size_t)i * dimension;
        uint32_t groups = (rows + planted - 1) / planted;
        const float *first = data + (size_t)(i % groups) * dimension;
        const float *before = i ? row - dimension : NULL, *center = i ? data : NULL;
        switch (shape) {
        case CLUSTER_PLANTED:
            noise(row, i < groups ? NULL : first, dimension, i < groups ? 1.0f : 0.4f, &seed);
            break;
        case CLUSTER_GAUSSIAN:
        case CLUSTER_SHAPES: noise(row, NULL, dimension, 1, &seed); break;
        case CLUSTER_DUPLICATES:
            noise(row, i < groups ? NULL : first, dimension, i < groups, &seed);
            break;
        case CLUSTER_EQUAL: noise(row, center, dimension, i == 0, &seed); break;
        case CLUSTER_CHAIN: noise(row, before, dimension, i ? 0.35f : 1, &seed); break;
        case CLUSTER_STAR: noise(row, center, dimension, i ? 0.6f : 1, &seed); break;
        case CLUSTER_TIES:
            for (uint32_t k = 0; k < dimension; k++)
                row[k] = (float)(rand_r(&seed) % 3 ? 1 : 0);
            break;
        }
    }
    return data;
}
