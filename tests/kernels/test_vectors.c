/* Every variant that this machine can run against the scalar reference, bit for bit. */
#include "tests/kernels/samples.h"

#include <criterion/criterion.h>

enum { ROWS = 17, QUERIES = 9, MANY = 128, GUARD = 3 };

static const enum metric metrics[] = {METRIC_COSINE, METRIC_DOT, METRIC_SQUARED_EUCLIDEAN};

/* Inputs and what the reference makes of them: expected[q * rows + r]. */
struct scene {
    uint32_t dimension;
    size_t rows, queries;
    float *row_data, *query_data, *row_norms, *query_norms, *expected;
};

static struct scene scene_create(uint32_t dimension, size_t rows, size_t queries)
{
    struct scene s = {
        .dimension = dimension,
        .rows = rows,
        .queries = queries,
        .row_data = samples_create(dimension, rows, 0, dimension),
        .query_data = samples_create(dimension, queries, 0, dimension + 77777),
        .row_norms = samples_allocate(rows),
        .query_norms = samples_allocate(queries),
        .expected = samples_allocate(rows * queries),
    };
    vectors_scalar.norms(dimension, s.row_data, rows, s.row_norms);
    vectors_scalar.norms(dimension, s.query_data, queries, s.query_norms);
    return s;
}

static void scene_destroy(struct scene *s)
{
    samples_free(s->row_data), samples_free(s->query_data), samples_free(s->row_norms);
    samples_free(s->query_norms), samples_free(s->expected);
}

static const float *scene_query(const struct scene *s, size_t q)
{
    return s->query_data + q * vector_stride(s->dimension);
}

static void scene_expect(struct scene *s, enum metric metric)
{
    struct row_block block = {s->row_data, s->row_norms, s->rows};
    for (size_t q = 0; q < s->queries; q++)
        vectors_scalar.scan(metric, s->dimension, scene_query(s, q), s->query_norms[q], block,
                            s->expected + q * s->rows);
}

static void assert_norms(const struct scene *s, const struct vector_kernels *k)
{
    for (size_t rows = 0; rows <= s->rows; rows++) {
        float *norms = samples_allocate(rows);
        k->norms(s->dimension, s->row_data, rows, norms);
        cr_assert(same_bits(norms, s->row_norms, rows), "%s norms %u", k->name, s->dimension);
        samples_free(norms);
    }
}

static void assert_scan(const struct scene *s, const struct vector_kernels *k, enum metric metric,
                        size_t rows)
{
    float *scores = samples_allocate(rows);
    const float *norms = metric == METRIC_COSINE ? s->row_norms : NULL;
    for (size_t q = 0; q < s->queries; q++) {
        k->scan(metric, s->dimension, scene_query(s, q), s->query_norms[q],
                (struct row_block){s->row_data, norms, rows}, scores);
        cr_assert(same_bits(scores, s->expected + q * s->rows, rows),
                  "%s scan %u metric %d query %zu of %zu rows", k->name, s->dimension, metric, q,
                  rows);
    }
    samples_free(scores);
}

/* Rows backwards and twice. */
static void assert_gather(const struct scene *s, const struct vector_kernels *k, enum metric metric,
                          size_t rows)
{
    const float **from = calloc(2 * rows + 1, sizeof *from);
    float *norms = samples_allocate(2 * rows), *scores = samples_allocate(2 * rows);
    for (size_t i = 0; i < 2 * rows; i++) {
        size_t r = (2 * rows - 1 - i) / 2;
        from[i] = s->row_data + r * vector_stride(s->dimension);
        norms[i] = s->row_norms[r];
    }
    for (size_t q = 0; q < s->queries; q++) {
        k->gather(metric, s->dimension, scene_query(s, q), s->query_norms[q], from,
                  metric == METRIC_COSINE ? norms : NULL, 2 * rows, scores);
        for (size_t i = 0; i < 2 * rows; i++)
            cr_assert(same_bits(&scores[i], &s->expected[q * s->rows + (2 * rows - 1 - i) / 2], 1),
                      "%s gather %u metric %d", k->name, s->dimension, metric);
    }
    free(from), samples_free(norms), samples_free(scores);
}

/* The first queries against the first rows; what lies between score rows stays as it was. */
static void assert_tile(const struct scene *s, const struct vector_kernels *k, enum metric metric,
                        size_t queries, size_t rows)
{
    size_t stride = rows + GUARD;
    float *scores = samples_allocate(queries * stride), guard = -1234.5f;
    for (size_t i = 0; i < queries * stride; i++)
        scores[i] = guard;
    size_t bytes = k->pack_bytes(s->dimension, queries);
    cr_assert_eq(bytes % 64, 0);
    float *packed = samples_allocate(bytes / sizeof(float));
    k->pack(s->dimension, s->query_data, queries, packed);
    bool cosine = metric == METRIC_COSINE;
    struct query_pack pack = {packed, cosine ? s->query_norms : NULL, queries};
    struct row_block block = {s->row_data, cosine ? s->row_norms : NULL, rows};
    k->tile(metric, s->dimension, &pack, block, scores, stride);
    for (size_t q = 0; q < queries; q++) {
        cr_assert(same_bits(scores + q * stride, s->expected + q * s->rows, rows),
                  "%s tile %u metric %d query %zu of %zu, %zu rows", k->name, s->dimension, metric,
                  q, queries, rows);
        for (size_t i = rows; i < stride; i++)
            cr_assert(same_bits(&scores[q * stride + i], &guard, 1));
    }
    samples_free(packed), samples_free(scores);
}

/* Every count of rows and queries up to the scene's, in steps. */
static void assert_variants(uint32_t dimension, size_t step)
{
    struct scene s = scene_create(dimension, ROWS, QUERIES);
    for (size_t m = 0; m < sizeof metrics / sizeof *metrics; m++) {
        scene_expect(&s, metrics[m]);
        for (size_t v = 0; vectors_variant(v); v++) {
            const struct vector_kernels *k = vectors_variant(v);
            if (m == 0) assert_norms(&s, k);
            for (size_t rows = 0; rows <= ROWS; rows += step) {
                assert_scan(&s, k, metrics[m], rows);
                assert_gather(&s, k, metrics[m], rows);
                for (size_t queries = 1; v > 0 && queries <= QUERIES; queries += step)
                    assert_tile(&s, k, metrics[m], queries, rows);
            }
            assert_tile(&s, k, metrics[m], QUERIES, ROWS);
        }
    }
    scene_destroy(&s);
}

Test(vectors, variants_equal_scalar_up_to_64, .timeout = 900)
{
    for (uint32_t dimension = 1; dimension <= 64; dimension++)
        assert_variants(dimension, 1);
}

Test(vectors, variants_equal_scalar_up_to_130, .timeout = 900)
{
    for (uint32_t dimension = 65; dimension <= 130; dimension++)
        assert_variants(dimension, 1);
}

Test(vectors, variants_equal_scalar_at_usual_dimensions, .timeout = 900)
{
    assert_variants(384, 5);
    assert_variants(767, 1);
    assert_variants(768, 5);
    assert_variants(1024, 4);
}

Test(vectors, variants_equal_scalar_when_compensated, .timeout = 900)
{
    assert_variants(1025, 1);
    assert_variants(1536, 5);
    assert_variants(4096, 16);
    assert_variants(16384, 16);
}

Test(vectors, many_queries_and_more_rows_than_a_slice, .timeout = 900)
{
    static const uint32_t dimensions[] = {1, 32, 100, 768, 1000, 1025};
    for (size_t d = 0; d < sizeof dimensions / sizeof *dimensions; d++) {
        size_t rows = dimensions[d] < 200 ? 511 : 37;
        struct scene s = scene_create(dimensions[d], rows, MANY);
        for (size_t m = 0; m < sizeof metrics / sizeof *metrics; m++) {
            scene_expect(&s, metrics[m]);
            for (size_t v = 0; vectors_variant(v); v++) {
                for (size_t less = 0; less < 9; less += 4)
                    assert_tile(&s, vectors_variant(v), metrics[m], MANY, rows - less);
                assert_scan(&s, vectors_variant(v), metrics[m], rows);
            }
        }
        scene_destroy(&s);
    }
}

static void assert_pass(const struct vector_kernels *k, const float *scores, size_t count,
                        float bound, bool lower)
{
    uint32_t *expected = calloc(count + 16, sizeof *expected);
    uint32_t *found = calloc(count + 16, sizeof *found); /* its end is what may be written */
    size_t want = vectors_scalar.pass(scores, count, bound, lower, expected);
    cr_assert_eq(k->pass(scores, count, bound, lower, found), want);
    cr_assert(want == 0 || memcmp(found, expected, want * sizeof *found) == 0, "%s pass %zu",
              k->name, count);
    free(expected), free(found);
}

Test(vectors, pass_finds_the_same_positions)
{
    static const float bounds[] = {0.0f, -0.0f, 0.5f, -2.0f, 2.0f, INFINITY, -INFINITY, 0x1p-149f};
    uint64_t seed = 7;
    for (size_t count = 0; count < 150; count++) {
        float *scores = samples_allocate(count);
        for (size_t i = 0; i < count; i++) {
            uint64_t pick = sample_random(&seed) % 12;
            scores[i] = pick < 8 ? bounds[pick] : sample_uniform(&seed);
        }
        for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
            for (size_t v = 0; vectors_variant(v); v++) {
                assert_pass(vectors_variant(v), scores, count, bounds[b], false);
                assert_pass(vectors_variant(v), scores, count, bounds[b], true);
            }
        }
        samples_free(scores);
    }
}

static void assert_weighted_sum(const float *const *rows, const float *weights, size_t count,
                                size_t first, size_t columns)
{
    float *expected = samples_allocate(columns), *sums = samples_allocate(columns);
    for (size_t c = 0; c < columns; c++) {
        expected[c] = 0.0f;
        for (size_t i = 0; i < count; i++)
            expected[c] = fmaf(weights[i], rows[i][first + c], expected[c]);
    }
    for (size_t v = 0; vectors_variant(v); v++) {
        vectors_variant(v)->weighted_sum(rows, weights, count, first, columns, sums);
        cr_assert(same_bits(sums, expected, columns), "%s weighted_sum %zu rows, columns %zu+%zu",
                  vectors_variant(v)->name, count, first, columns);
    }
    samples_free(expected), samples_free(sums);
}

Test(vectors, weighted_sums_agree_on_any_columns)
{
    enum { LENGTH = 224 };
    float *data = samples_create(LENGTH, ROWS, 0, 3), weights[ROWS];
    const float *rows[ROWS];
    uint64_t seed = 4;
    for (size_t i = 0; i < ROWS; i++) {
        rows[i] = data + i * LENGTH;
        weights[i] = i == 3 ? -0.0f : sample_uniform(&seed);
    }
    for (size_t columns = 0; columns <= 200; columns++) {
        for (size_t count = 0; count <= ROWS; count += 1 + columns % 3)
            assert_weighted_sum(rows, weights, count, columns % 24, columns);
    }
    samples_free(data);
}

static void assert_normalized(const struct vector_kernels *k, uint32_t dimension, const float *rows,
                              const float *norms)
{
    size_t stride = vector_stride(dimension);
    float *to = samples_allocate(SAMPLES * stride);
    memcpy(to, rows, SAMPLES * stride * sizeof *to);
    k->normalize(dimension, to, norms, SAMPLES - 1);
    for (size_t i = 0; i < SAMPLES * stride; i++) {
        size_t row = i / stride;
        float expected = norms[row] == 0.0f ? 0.0f : rows[i] / norms[row];
        if (row == SAMPLES - 1) expected = rows[i]; /* not among the rows to normalize */
        cr_assert(same_bits(&expected, &to[i], 1), "%s normalize %u", k->name, dimension);
    }
    samples_free(to);
}

Test(vectors, normalized_rows_agree)
{
    for (uint32_t dimension = 1; dimension <= 1100; dimension += dimension < 70 ? 1 : 143) {
        float norms[SAMPLES], *rows = samples_create(dimension, SAMPLES, 0, dimension);
        vectors_scalar.norms(dimension, rows, SAMPLES, norms);
        for (size_t v = 0; vectors_variant(v); v++)
            assert_normalized(vectors_variant(v), dimension, rows, norms);
        samples_free(rows);
    }
}

Test(vectors, a_variant_is_chosen_by_name)
{
    cr_assert_eq(vectors_choose("scalar"), &vectors_scalar);
    cr_assert_eq(vectors_variant(0), &vectors_scalar);
    cr_assert_null(vectors_choose("sse9"));
    cr_assert_null(vectors_choose(""));
    size_t count = 0;
    for (; vectors_variant(count); count++)
        cr_assert_eq(vectors_choose(vectors_variant(count)->name), vectors_variant(count));
    cr_assert_eq(vectors_choose("auto"), vectors_variant(count - 1));
    cr_assert_null(vectors_variant(count + 5));
    char text[256], cut[8];
    vectors_describe_cpu(text, sizeof text);
    cr_assert_gt(strlen(text), 8);
    vectors_describe_cpu(cut, sizeof cut);
    cr_assert_eq(strlen(cut), 7);
}
