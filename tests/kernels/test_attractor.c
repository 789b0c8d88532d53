/* Completion: every variant against the slow reference, bit for bit. */
/* test-run: timeout=900 */
#include "kernels/attractor.h"
#include "tests/kernels/samples.h"
#include "tests/support/attractor_reference.h"

#include <criterion/criterion.h>
#include <stdio.h>

/* Small ones in number, large ones once; above 1,024 sums are compensated. */
static const struct {
    uint32_t dimension, instances;
} scenes[] = {{1, 8},    {2, 8},    {3, 8},    {7, 40},   {31, 60},  {32, 60}, {33, 60},
              {64, 126}, {100, 60}, {130, 40}, {257, 20}, {300, 16}, {768, 3}, {1056, 1}};
enum { SCENES = sizeof scenes / sizeof *scenes };

static uint64_t compared;

static float *zeros(size_t count)
{
    float *p = samples_allocate(count);
    memset(p, 0, count * sizeof *p);
    return p;
}

static void assert_same(const float *values, const float *expected, size_t count, const char *what,
                        const char *variant, uint32_t dimension)
{
    compared += count;
    for (size_t i = 0; i < count; i++) {
        uint32_t a, b;
        memcpy(&a, &values[i], sizeof a);
        memcpy(&b, &expected[i], sizeof b);
        cr_assert_eq(a, b, "%s, %s, dimension %u, number %zu: %a, not %a", what, variant, dimension,
                     i, (double)values[i], (double)expected[i]);
    }
}

/* The attractor as a variant has it, and as the reference has it. */
struct twin {
    const struct attractor_kernels *kernels;
    const struct vector_kernels *vectors;
    uint32_t dimension, kept;
    size_t stride;
    float *dentate, *columns, *rows_w, *rows_d, *w;
};

static void assert_same_weights(const struct twin *t, const char *what)
{
    for (uint32_t j = 0; j < t->dimension; j++) {
        for (uint32_t i = 0; i < t->dimension; i++)
            t->w[i] = t->rows_w[(size_t)i * t->dimension + j];
        assert_same(t->columns + j * t->stride, t->w, t->dimension, what, t->kernels->name,
                    t->dimension);
        for (size_t i = t->dimension; i < t->stride; i++)
            cr_assert_eq(t->columns[j * t->stride + i], 0.0f);
    }
}

static struct twin twin_create(const struct attractor_kernels *k, const struct vector_kernels *v,
                               uint32_t dimension, const float *rows_d, const float *rows_w)
{
    struct twin t = {.kernels = k, .vectors = v, .dimension = dimension};
    t.kept = attractor_kept(dimension, 0.05f);
    t.stride = vector_stride(dimension);
    size_t square = (size_t)dimension * dimension;
    t.dentate = zeros(10 * dimension * t.stride);
    t.columns = zeros(dimension * t.stride);
    t.w = zeros(dimension);
    t.rows_w = zeros(square);
    t.rows_d = zeros(10 * square);
    memcpy(t.rows_w, rows_w, square * sizeof *rows_w);
    memcpy(t.rows_d, rows_d, 10 * square * sizeof *rows_d);
    /* in two pieces, as parts of a job make them */
    uint64_t cut = 10 * dimension / 3;
    k->dentate(dimension, 0, cut, t.dentate);
    k->dentate(dimension, cut, 10 * dimension - cut, t.dentate + cut * t.stride);
    k->weights(dimension, 0, dimension / 2, t.columns);
    k->weights(dimension, dimension / 2, dimension - dimension / 2,
               t.columns + dimension / 2 * t.stride);
    for (uint32_t i = 0; i < 10 * dimension; i++)
        assert_same(t.dentate + i * t.stride, rows_d + (size_t)i * dimension, dimension, "dentate",
                    k->name, dimension);
    assert_same_weights(&t, "weights at first");
    return t;
}

static void twin_finish(struct twin *t)
{
    samples_free(t->dentate);
    samples_free(t->columns);
    samples_free(t->rows_w);
    samples_free(t->rows_d);
    samples_free(t->w);
}

static void learn(struct twin *t, const float *pattern, float rate)
{
    float *scaled = zeros(t->stride);
    uint32_t cut = t->dimension / 2;
    for (uint32_t i = 0; i < t->dimension; i++)
        scaled[i] = rate * pattern[i];
    struct attractor_range range = {-INFINITY, INFINITY};
    t->kernels->learn(t->dimension, scaled, pattern, 1.0f, t->columns, cut, t->columns, &range);
    t->kernels->learn(t->dimension, scaled, pattern + cut, 1.0f, t->columns + cut * t->stride,
                      t->dimension - cut, t->columns + cut * t->stride, &range);
    if (range.greatest > 1.0f)
        t->kernels->learn(t->dimension, NULL, NULL, range.greatest, t->columns, t->dimension,
                          t->columns, &range);
    reference_learn(t->dimension, rate, pattern, t->rows_w);
    samples_free(scaled);
}

/* Few different values, so that many are equal; or many. */
static void fill(float *x, uint32_t dimension, bool ties, uint64_t *seed)
{
    for (uint32_t i = 0; i < dimension; i++) {
        float value = sample_uniform(seed);
        x[i] = ties ? (float)(int)(value * 2.0f) : value * 3.0f;
        if (sample_random(seed) % 3 == 0) x[i] = 0.0f;
    }
}

static void complete(struct twin *t, const float *x)
{
    uint32_t d = t->dimension;
    float *sums = zeros(10 * d), *padded = zeros(t->stride);
    float *state = zeros(t->stride), *expected = zeros(d);
    uint32_t *keys = (uint32_t *)(void *)zeros(10 * d);
    void *scratch = zeros(attractor_settle_bytes(d) / sizeof(float));
    memcpy(padded, x, d * sizeof *x);
    struct row_block rows = {t->dentate, NULL, 10 * d};
    t->vectors->scan(METRIC_DOT, d, padded, 0.0f, rows, sums);
    attractor_separate(d, sums, keys, state);
    struct attractor_outcome out =
        attractor_settle(t->kernels, t->vectors, d, t->kept, t->columns, scratch, state);
    struct reference_outcome r = reference_complete(d, t->rows_d, t->rows_w, t->kept, x, expected);
    assert_same(state, expected, d, "state", t->kernels->name, d);
    cr_assert_eq(out.rounds, r.rounds);
    cr_assert_eq(out.converged, r.converged);
    cr_assert_eq(out.confidence, r.confidence);
    float *all[] = {sums, padded, state, expected, (float *)(void *)keys, scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        samples_free(all[i]);
}

Test(attractor_kernels, equals_the_reference)
{
    uint64_t instances = 0;
    for (int s = 0; s < SCENES; s++) {
        uint32_t d = scenes[s].dimension;
        float *rows_d = reference_dentate(d), *rows_w = reference_weights(d);
        const struct vector_kernels *v;
        for (size_t variant = 0; (v = vectors_variant(variant)); variant++) {
            struct twin t = twin_create(attractor_choose(v->name), v, d, rows_d, rows_w);
            float *x = zeros(d);
            uint64_t seed = d;
            for (uint32_t i = 0; i < scenes[s].instances; i++) {
                fill(x, d, i % 2, &seed);
                learn(&t, x, i % 4 == 3 ? 0.9f : 0.01f);
                if (i % 8 == 0) assert_same_weights(&t, "weights");
                fill(x, d, i % 3 == 0, &seed);
                complete(&t, x);
                instances += variant == 0;
            }
            samples_free(x);
            twin_finish(&t);
        }
        free(rows_d);
        free(rows_w);
    }
    printf("%llu instances with each variant, %llu numbers, 0 bits differ\n",
           (unsigned long long)instances, (unsigned long long)compared);
    cr_assert_geq(instances, 500);
}

Test(attractor_kernels, keeps_the_greatest_and_of_equal_ones_the_first)
{
    enum { MOST = 300 };
    uint64_t seed = 3;
    for (int i = 0; i < 2000; i++) {
        uint32_t count = 1 + sample_random(&seed) % MOST, kept = 1 + sample_random(&seed) % count;
        float values[MOST], expected[MOST];
        uint32_t keys[MOST];
        for (uint32_t k = 0; k < count; k++) {
            float fine = sample_uniform(&seed) * (i % 5 ? 1.0f : 1e-30f);
            values[k] = i % 2 ? (float)(int)(fine * 3.0f) : fine;
            if (sample_random(&seed) % 8 == 0) values[k] = -0.0f;
        }
        memcpy(expected, values, sizeof expected);
        attractor_keep(values, count, kept, keys);
        reference_keep(expected, count, kept);
        assert_same(values, expected, count, "kept", "all", count);
    }
}

Test(attractor_kernels, sizes_are_rounded_as_said)
{
    cr_assert_eq(attractor_kept(768, 0.05f), 38);
    cr_assert_eq(attractor_kept(30, 0.05f), 2);
    cr_assert_eq(attractor_kept(1, 0.05f), 1);
    cr_assert_eq(attractor_kept(2048, 1.0f), 2048);
    cr_assert_eq(attractor_kept(10, 0.25f), 3);
    cr_assert_eq(attractor_dentate_kept(768), 384);
    cr_assert_eq(attractor_dentate_kept(1), 1);
    cr_assert_eq(attractor_known_least(768), 256);
    cr_assert_eq(attractor_known_least(2), 1);
}
