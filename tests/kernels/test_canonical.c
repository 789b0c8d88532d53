/* The scalar reference against docs/arithmetic.md written out by hand, and against long double.
 * Nothing here uses canonical.h's sums: a mistake there must not be repeated here. */
#include "kernels/canonical.h"
#include "tests/kernels/samples.h"

#include <criterion/criterion.h>

enum { ROWS = 18 };

static const uint32_t large[] = {384, 767, 768, 1023, 1024, 1025, 1056, 1536, 4096, 16384};

static float fold_by_hand(const float p[32])
{
    float a[16], b[8], c[4];
    for (int j = 0; j < 16; j++)
        a[j] = p[j] + p[j + 16];
    for (int j = 0; j < 8; j++)
        b[j] = a[j] + a[j + 8];
    for (int j = 0; j < 4; j++)
        c[j] = b[j] + b[j + 4];
    float d0 = c[0] + c[2];
    float d1 = c[1] + c[3];
    return d0 + d1;
}

/* Partial by partial, where canonical.h goes element by element. */
static float sum_by_hand(bool squared_difference, uint32_t dimension, const float *x,
                         const float *y)
{
    uint32_t padded = dimension;
    while (padded % 32 != 0)
        padded++;
    float sums[32], corrections[32];
    for (uint32_t j = 0; j < 32; j++) {
        float s = 0.0f, c = 0.0f;
        for (uint32_t i = j; i < padded; i += 32) {
            float a = x[i], b = y[i];
            if (squared_difference) a = b = x[i] - y[i];
            if (dimension <= 1024) {
                s = fmaf(a, b, s);
                continue;
            }
            float h = a * b;
            float e = fmaf(a, b, -h);
            float t = s + h;
            float z = t - s;
            float f = (s - (t - z)) + (h - z);
            c = c + (e + f);
            s = t;
        }
        sums[j] = s;
        corrections[j] = c;
    }
    float sum = fold_by_hand(sums);
    if (dimension <= 1024) return sum;
    float correction = fold_by_hand(corrections);
    if (isinf(sum) || isinf(correction) || isnan(correction)) return sum;
    return sum + correction;
}

static float cosine_by_hand(float dot, float a, float b)
{
    float n = a * b;
    if (n == 0.0f) return 0.0f;
    float c = dot / n;
    return c > 1.0f ? 1.0f : c < -1.0f ? -1.0f : c;
}

/* The error bounds of both forms, with a little room and the underflow of each product. The tree
 * over the main sums is plain in both: that is the middle term of the compensated bound. */
static void assert_near(uint32_t dimension, const float *x, const float *y, float dot)
{
    long double exact = 0, magnitude = 0, unit = 0x1p-24L, partial[32] = {0}, tree = 0;
    for (uint32_t i = 0; i < dimension; i++) {
        long double product = (long double)x[i] * y[i];
        exact += product;
        magnitude += fabsl(product);
        partial[i % 32] += product;
    }
    for (size_t j = 0; j < 32; j++)
        tree += fabsl(partial[j]);
    long double n = dimension / 32 + 8, slack = dimension * 0x1p-148L;
    long double plain = n * unit * magnitude;
    long double compensated =
        unit * fabsl(exact) + 5 * unit * tree + n * n * unit * unit * magnitude;
    cr_assert(fabsl(exact - dot) <= (dimension <= 1024 ? plain : compensated) * 1.01L + slack,
              "dimension %u: %La instead of %La", dimension, (long double)dot, exact);
}

static void assert_dimension(uint32_t dimension)
{
    size_t stride = vector_stride(dimension);
    float *rows = samples_create(dimension, ROWS, 0, dimension);
    float norms[ROWS], dots[ROWS], distances[ROWS], cosines[ROWS];
    struct row_block block = {rows, norms, ROWS};
    vectors_scalar.norms(dimension, rows, ROWS, norms);
    for (size_t q = 0; q < SAMPLES; q++) {
        const float *query = rows + q * stride;
        vectors_scalar.scan(METRIC_DOT, dimension, query, 0.0f, block, dots);
        vectors_scalar.scan(METRIC_SQUARED_EUCLIDEAN, dimension, query, 0.0f, block, distances);
        vectors_scalar.scan(METRIC_COSINE, dimension, query, norms[q], block, cosines);
        float norm = sqrtf(sum_by_hand(false, dimension, query, query));
        cr_assert(same_bits(&norm, &norms[q], 1));
        for (size_t r = 0; r < ROWS; r++) {
            const float *row = rows + r * stride;
            float dot = sum_by_hand(false, dimension, query, row);
            float distance = sum_by_hand(true, dimension, query, row);
            float cosine = cosine_by_hand(dot, norms[q], norms[r]);
            cr_assert(same_bits(&dot, &dots[r], 1), "dot %u %zu %zu", dimension, q, r);
            cr_assert(same_bits(&distance, &distances[r], 1), "distance %u %zu %zu", dimension, q,
                      r);
            cr_assert(same_bits(&cosine, &cosines[r], 1), "cosine %u %zu %zu", dimension, q, r);
            cr_assert(!isnan(dot) && !isnan(distance) && fabsf(cosine) <= 1.0f);
            assert_near(dimension, query, row, dot);
        }
    }
    samples_free(rows);
}

Test(canonical, every_small_dimension_is_as_written)
{
    for (uint32_t dimension = 1; dimension <= 130; dimension++)
        assert_dimension(dimension);
}

Test(canonical, large_dimensions_are_as_written)
{
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        assert_dimension(large[i]);
}

static void assert_infinite_distance(uint32_t dimension, const float *query, const float *row)
{
    for (size_t v = 0; vectors_variant(v); v++) {
        float distance = 0.0f;
        struct row_block block = {row, NULL, 1};
        vectors_variant(v)->scan(METRIC_SQUARED_EUCLIDEAN, dimension, query, 0, block, &distance);
        cr_assert_eq(distance, INFINITY, "%s", vectors_variant(v)->name);
    }
}

Test(canonical, an_overflowing_distance_is_infinite_and_never_nan)
{
    uint32_t dimensions[] = {768, 2048};
    for (size_t d = 0; d < 2; d++) {
        size_t stride = vector_stride(dimensions[d]);
        float *rows = samples_allocate(2 * stride);
        for (size_t i = 0; i < stride; i++) {
            rows[i] = 0x1.8p63f / sqrtf((float)stride);
            rows[stride + i] = -rows[i];
        }
        assert_infinite_distance(dimensions[d], rows + stride, rows); /* in the tree */
        rows[0] = 0x1p127f;
        assert_infinite_distance(dimensions[d], rows + stride, rows); /* in one partial */
        samples_free(rows);
    }
}

Test(canonical, the_product_of_norms_neither_overflows_nor_vanishes)
{
    float most = canonical_norm(FLT_MAX), least = canonical_norm(0x1p-149f);
    cr_assert(isfinite(most * most));
    cr_assert(least * least > 0.0f);
    cr_assert_eq(canonical_cosine(FLT_MAX, most, most), 1.0f);
    cr_assert_eq(canonical_cosine(-FLT_MAX, most, most), -1.0f);
    cr_assert_eq(canonical_cosine(0x1p-149f, least, least), 1.0f);
    cr_assert_eq(canonical_cosine(0.0f, 0.0f, most), 0.0f);
    cr_assert_eq(canonical_cosine(2.0f, 1.0f, 1.0f), 1.0f);
    cr_assert_eq(canonical_cosine(-2.0f, 1.0f, 1.0f), -1.0f);
}

Test(canonical, a_bad_row_has_an_infinite_norm)
{
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, FLT_MAX, 0x1.8p64f};
    uint32_t dimensions[] = {1, 33, 768, 1025};
    for (size_t d = 0; d < 4; d++) {
        size_t stride = vector_stride(dimensions[d]);
        for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
            float *rows = samples_create(dimensions[d], 3, SAMPLE_UNIFORM, 5), norms[3];
            rows[stride + dimensions[d] - 1] = bad[b];
            for (size_t v = 0; vectors_variant(v); v++) {
                vectors_variant(v)->norms(dimensions[d], rows, 3, norms);
                cr_assert(isfinite(norms[0]) && isfinite(norms[2]));
                cr_assert_eq(norms[1], INFINITY, "%s", vectors_variant(v)->name);
            }
            samples_free(rows);
        }
    }
}
