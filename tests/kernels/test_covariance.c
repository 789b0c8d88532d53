/* Covariances (kernels/covariance.h): every variant that this machine can run against the
 * definition written out, bit for bit, however rows are cut into pieces. */
#include <criterion/criterion.h>

#include "tests/kernels/covariance_reference.h"
#include "tests/kernels/samples.h"

static double *doubles(size_t count)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, count * sizeof(double)) != 0) abort();
    memset(p, 0xff, count * sizeof(double)); /* NaNs: what is read is written before */
    return p;
}

struct work {
    const struct covariance_kernels *k;
    const struct covariance_input *rows;
    uint64_t seed;
    double *mean, *left, *right, *nodes, *covariance;
    double totals[2];
    size_t blocks;
};

/* The rows of a block from `first` on, a random number of them but at most `most`. */
static size_t take_rows(struct work *w, size_t block, size_t first, size_t most,
                        const float **pointers, struct covariance_rows *out)
{
    size_t at = block * COVARIANCE_BLOCK + first, end = (block + 1) * COVARIANCE_BLOCK;
    size_t left = (end < w->rows->count ? end : w->rows->count) - at;
    size_t n = sample_random(&w->seed) % 4 ? most : 1 + sample_random(&w->seed) % most;
    if (n > left) n = left;
    for (size_t i = 0; i < n; i++)
        pointers[i] = w->rows->rows + (at + i) * w->rows->stride;
    *out = (struct covariance_rows){pointers, w->rows->weights ? w->rows->weights + at : NULL, n};
    return n;
}

static size_t block_rows(const struct work *w, size_t block)
{
    size_t left = w->rows->count - block * COVARIANCE_BLOCK;
    return left < COVARIANCE_BLOCK ? left : COVARIANCE_BLOCK;
}

static void run_sums(struct work *w)
{
    const float *pointers[COVARIANCE_DEPTH];
    struct covariance_rows rows;
    size_t d = w->rows->dimension, columns = 1 + sample_random(&w->seed) % d;
    double *sums = doubles(w->blocks * d), *totals = doubles(w->blocks * 2);
    memset(sums, 0, w->blocks * d * sizeof *sums);
    for (size_t b = 0; b < w->blocks; b++)
        for (size_t c = 0; c < d; c += columns)
            for (size_t at = 0; at < block_rows(w, b); at += rows.count) {
                take_rows(w, b, at, COVARIANCE_DEPTH, pointers, &rows);
                w->k->sum(&rows, c, d - c < columns ? d - c : columns, sums + b * d + c);
            }
    for (size_t b = 0; w->rows->weights && b < w->blocks; b++)
        covariance_weigh(w->rows->weights + b * COVARIANCE_BLOCK, block_rows(w, b), totals + 2 * b);
    covariance_fold(sums, d, d, w->blocks);
    w->totals[0] = w->totals[1] = (double)w->rows->count;
    if (w->rows->weights) {
        covariance_fold(totals, 2, 2, w->blocks);
        memcpy(w->totals, totals, sizeof w->totals);
    }
    for (size_t c = 0; c < d; c++)
        w->mean[c] = sums[c] / w->totals[0];
    free(sums), free(totals);
}

static void run_tile(struct work *w, struct covariance_columns left,
                     struct covariance_columns right)
{
    const float *pointers[COVARIANCE_DEPTH];
    struct covariance_rows rows;
    for (size_t b = 0; b < w->blocks; b++) {
        double *node = w->nodes + b * COVARIANCE_TILE_NUMBERS;
        memset(node, 0, COVARIANCE_TILE_NUMBERS * sizeof *node);
        for (size_t at = 0; at < block_rows(w, b); at += rows.count) {
            take_rows(w, b, at, w->k->depth, pointers, &rows);
            w->k->pack_left(&rows, left, w->mean, w->left);
            w->k->pack_right(&rows, right, w->mean, w->right);
            w->k->add(w->left, left.count, w->right, right.count, rows.count,
                      left.first == right.first, node);
        }
    }
    for (size_t step = 1; step < w->blocks; step *= 2)
        for (size_t b = 0; b + step < w->blocks; b += 2 * step)
            w->k->fold(w->nodes + (b + step) * COVARIANCE_TILE_NUMBERS, COVARIANCE_TILE_NUMBERS,
                       w->nodes + b * COVARIANCE_TILE_NUMBERS);
    covariance_write(w->nodes, left, right, covariance_divisor(w->totals[0], w->totals[1]),
                     w->rows->dimension, w->covariance);
}

static struct covariance_columns columns_at(size_t first, size_t d)
{
    size_t left = d - first;
    return (struct covariance_columns){first, left < COVARIANCE_TILE ? left : COVARIANCE_TILE};
}

static void assert_variant(const char *name, const struct covariance_input *rows,
                           const struct covariance_expected *expected, uint64_t seed)
{
    size_t d = rows->dimension, blocks = (size_t)covariance_blocks(rows->count);
    struct work w = {.k = covariance_choose(name),
                     .rows = rows,
                     .seed = seed,
                     .mean = doubles(d),
                     .left = doubles(COVARIANCE_PACK_NUMBERS),
                     .right = doubles(COVARIANCE_PACK_NUMBERS),
                     .nodes = doubles(blocks * COVARIANCE_TILE_NUMBERS),
                     .covariance = doubles(d * d),
                     .blocks = blocks};
    cr_assert_str_eq(w.k->name, name);
    cr_assert(w.k->depth >= 1 && w.k->depth <= COVARIANCE_DEPTH);
    run_sums(&w);
    for (size_t i = 0; i < d; i += COVARIANCE_TILE)
        for (size_t j = i; j < d; j += COVARIANCE_TILE)
            run_tile(&w, columns_at(i, d), columns_at(j, d));
    cr_assert(w.totals[0] == expected->total &&
              covariance_divisor(w.totals[0], w.totals[1]) == expected->divisor);
    cr_assert_eq(memcmp(w.mean, expected->mean, d * sizeof(double)), 0, "%s: %zu", name, d);
    cr_assert_eq(memcmp(w.covariance, expected->covariance, d * d * sizeof(double)), 0, "%s: %zu",
                 name, d);
    free(w.mean), free(w.left), free(w.right), free(w.nodes), free(w.covariance);
}

static void assert_all(const struct covariance_input *rows, uint64_t seed)
{
    struct covariance_expected expected = covariance_expect(rows);
    for (size_t v = 0; vectors_variant(v); v++)
        assert_variant(vectors_variant(v)->name, rows, &expected, seed);
    covariance_expected_destroy(&expected);
}

Test(covariance, variants_equal_the_reference, .timeout = 300)
{
    static const struct {
        uint32_t dimension;
        size_t count;
    } cases[] = {{1, 2},    {2, 3},     {3, 4096}, {5, 4097},  {23, 777}, {24, 8193}, {33, 300},
                 {64, 513}, {7, 20500}, {191, 40}, {192, 129}, {193, 65}, {400, 19},  {48, 12289}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int weighted = 0; weighted < 2; weighted++) {
            uint64_t seed = 77 * i + (uint64_t)weighted;
            struct covariance_input rows = {.count = cases[i].count,
                                            .dimension = cases[i].dimension,
                                            .stride = vector_stride(cases[i].dimension)};
            float *data = samples_create(rows.dimension, rows.count, SAMPLE_UNIFORM, seed);
            float *weights = samples_allocate(rows.count);
            for (size_t r = 0; r < rows.count; r++) /* some are 0 */
                weights[r] = r % 5 == 3 ? 0.0f : fabsf(sample_uniform(&seed)) + 0.01f;
            rows.rows = data;
            rows.weights = weighted ? weights : NULL;
            assert_all(&rows, seed);
            samples_free(data), samples_free(weights);
        }
}

/* Weights of 1 are no weights, and equal weights leave the mean and change the divisor alone. */
Test(covariance, weights_of_one_change_no_bit)
{
    enum { D = 20, N = 5000 };
    uint64_t seed = 5;
    float *data = samples_create(D, N, SAMPLE_UNIFORM, 3), *ones = samples_allocate(N);
    for (size_t i = 0; i < N; i++)
        ones[i] = 1.0f;
    for (size_t i = 0; i < N * vector_stride(D); i++)
        data[i] = sample_uniform(&seed);
    struct covariance_input rows = {
        .rows = data, .stride = vector_stride(D), .count = N, .dimension = D};
    struct covariance_expected plain = covariance_expect(&rows);
    rows.weights = ones;
    for (size_t v = 0; vectors_variant(v); v++)
        assert_variant(vectors_variant(v)->name, &rows, &plain, 9);
    cr_assert(plain.total == N && plain.divisor == N - 1);
    covariance_expected_destroy(&plain);
    samples_free(data), samples_free(ones);
}

Test(covariance, weights_that_leave_no_divisor)
{
    double sums[2];
    covariance_weigh((const float[]){0, 3, 0}, 3, sums);
    cr_assert(sums[0] == 3 && sums[1] == 9);
    cr_assert_eq(covariance_divisor(sums[0], sums[1]), 0);
    cr_assert_eq(covariance_divisor(0, 0), 0);
    cr_assert_eq(covariance_divisor(2, 2), 1);
    cr_assert_null(covariance_choose("none"));
}
