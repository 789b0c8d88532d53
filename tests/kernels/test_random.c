/* Random rows: Philox against Random123's published answers, numbers against random.h written out
 * by hand, variants against the scalar one, and their distribution. Every seed is fixed, so that
 * nothing here is left to chance. */
#include "kernels/random.h"
#include "tests/kernels/samples.h"

#include <criterion/criterion.h>

#include <stdio.h>

static void assert_words(struct random_words counter, uint64_t seed, struct random_words expected)
{
    struct random_words w = random_philox(counter, seed);
    cr_assert(w.w0 == expected.w0 && w.w1 == expected.w1 && w.w2 == expected.w2 &&
                  w.w3 == expected.w3,
              "%08x %08x %08x %08x", w.w0, w.w1, w.w2, w.w3);
}

/* kat_vectors of Random123, philox4x32 with 10 rounds. */
Test(random, philox_gives_the_published_answers)
{
    assert_words((struct random_words){0, 0, 0, 0}, 0,
                 (struct random_words){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    assert_words((struct random_words){~0u, ~0u, ~0u, ~0u}, ~0ull,
                 (struct random_words){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    assert_words((struct random_words){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                 0x299f31d0a4093822ull,
                 (struct random_words){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

static float number_by_hand(uint64_t seed, uint32_t dimension, uint64_t row, uint32_t column)
{
    struct random_words counter = {column / 4, 0, (uint32_t)row, (uint32_t)(row >> 32)};
    struct random_words words = random_philox(counter, seed);
    uint32_t first = column % 4 < 2 ? words.w0 : words.w2;
    uint32_t second = column % 4 < 2 ? words.w1 : words.w3;
    float u = fmaf((float)first, 0x1p-32f, 0x1p-33f);
    float radius = sqrtf(0.0f - 2.0f * canonical_logarithm(u));
    float scaled = radius * (1.0f / sqrtf((float)dimension));
    struct canonical_point point = canonical_turn(second >> 8);
    float number = scaled * (column % 2 ? point.sine : point.cosine);

    double angle = 6.283185307179586 * (second >> 8) / 16777216.0;
    double exact = sqrt(-2.0 * log(((double)first + 0.5) / 4294967296.0) / dimension) *
                   (column % 2 ? sin(angle) : cos(angle));
    /* near 1 what is lost of u shows in the radius */
    cr_assert(fabs(number - exact) <= (radius < 0.01f ? 1e-3 : 2e-6), "%a %a", number, exact);
    return number;
}

static const struct place {
    uint64_t seed, first;
} places[] = {{0, 0}, {1, 5}, {0x123456789abcdef0ull, 0xfffffffeull}, {~0ull, ~0ull - 2}};

enum { ROWS = 3 };

static void assert_dimension(uint32_t dimension, const struct place *place)
{
    size_t stride = vector_stride(dimension);
    float *expected = samples_allocate(ROWS * stride), *rows = samples_allocate(ROWS * stride);
    for (size_t i = 0; i < ROWS * stride; i++) {
        uint32_t column = (uint32_t)(i % stride);
        expected[i] = column >= dimension ? 0.0f
                                          : number_by_hand(place->seed, dimension,
                                                           place->first + i / stride, column);
    }
    for (size_t v = 0; vectors_variant(v); v++) {
        const struct random_kernels *k = random_choose(vectors_variant(v)->name);
        memset(rows, 0xff, ROWS * stride * sizeof *rows);
        k->normal(place->seed, dimension, place->first, ROWS, rows);
        cr_assert(same_bits(rows, expected, ROWS * stride), "%s %u", k->name, dimension);
        memset(rows, 0xff, ROWS * stride * sizeof *rows);
        for (size_t r = ROWS; r-- > 0;)
            k->normal(place->seed, dimension, place->first + r, 1, rows + r * stride);
        cr_assert(same_bits(rows, expected, ROWS * stride), "%s %u by rows", k->name, dimension);
    }
    samples_free(expected), samples_free(rows);
}

Test(random, numbers_are_as_written)
{
    for (uint32_t dimension = 1; dimension <= 70; dimension++)
        assert_dimension(dimension, &places[dimension % 4]);
    static const uint32_t large[] = {127, 255, 256, 257, 768, 1023, 1024, 4096, 16384};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        assert_dimension(large[i], &places[i % 4]);
}

/* Words whose conversion rounds, up and down, and the ends. */
Test(random, every_word_makes_a_finite_number)
{
    static const uint32_t words[] = {0, 1, 0x01000001, 0x01000003, 0xffffff7f, 0xffffff80, ~0u};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct canonical_point p = random_pair(words[i], 0, 1.0f);
        double u = fmaf((float)words[i], 0x1p-32f, 0x1p-33f);
        cr_assert(fabs(p.cosine - sqrt(-2.0 * log(u))) <= 4e-7 * fmax(1.0, p.cosine), "%08x: %a",
                  words[i], p.cosine);
        cr_assert_eq(canonical_bits(p.sine), 0);
    }
    cr_assert_float_eq(random_pair(0, 0, 1.0f).cosine, 6.7638, 1e-4);
    cr_assert_eq(canonical_bits(random_pair(~0u, 0, 1.0f).cosine), 0);
}

static int compare_numbers(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The largest distance between the numbers' distribution and the normal one, times sqrt(count). */
static double kolmogorov_smirnov(float *numbers, size_t count)
{
    qsort(numbers, count, sizeof *numbers, compare_numbers);
    double distance = 0.0;
    for (size_t i = 0; i < count; i++) {
        double expected = 0.5 * erfc(-numbers[i] / sqrt(2.0));
        distance = fmax(distance, fabs((double)(i + 1) / (double)count - expected));
        distance = fmax(distance, fabs((double)i / (double)count - expected));
    }
    return distance * sqrt((double)count);
}

/* Moments of normal numbers are within five of their standard errors, neighbours' products too, and
 * the distance within what one in a thousand samples exceeds. */
static void assert_normal(uint64_t seed, uint32_t dimension, size_t rows)
{
    size_t count = rows * dimension;
    float *numbers = samples_allocate(count);
    random_choose("auto")->normal(seed, dimension, 0, rows, numbers);
    double sums[5] = {0}, beside = 0.0, below = 0.0, root = sqrt((double)count);
    for (size_t i = 0; i < count; i++) {
        numbers[i] *= sqrtf((float)dimension);
        double x = numbers[i], power = 1.0;
        for (int p = 0; p < 5; p++, power *= x)
            sums[p] += power / (double)count;
        if (i >= 1) beside += x * numbers[i - 1] / (double)count;
        if (i >= dimension) below += x * numbers[i - dimension] / (double)count;
    }
    double distance = kolmogorov_smirnov(numbers, count);
    printf("seed %llu, %zu rows x %u: mean %.5f, variance %.5f, third %.5f, fourth %.5f, beside "
           "%.5f, below %.5f, distance %.3f\n",
           (unsigned long long)seed, rows, dimension, sums[1], sums[2], sums[3], sums[4], beside,
           below, distance);
    cr_assert(fabs(sums[1]) <= 5.0 / root);
    cr_assert(fabs(sums[2] - 1.0) <= 5.0 * sqrt(2.0) / root);
    cr_assert(fabs(sums[3]) <= 5.0 * sqrt(15.0) / root);
    cr_assert(fabs(sums[4] - 3.0) <= 5.0 * sqrt(96.0) / root);
    cr_assert(fabs(beside) <= 5.0 / root && fabs(below) <= 5.0 / root);
    cr_assert(distance <= 1.95);
    samples_free(numbers);
}

Test(random, numbers_are_distributed_normally)
{
    assert_normal(1, 1024, 500);
    assert_normal(2, 32, 10000);
    assert_normal(0xdeadbeefcafef00dull, 768, 600);
}

Test(random, unit_rows_have_norm_one)
{
    enum { COUNT = 50 };
    static const uint32_t dimensions[] = {1, 2, 33, 768, 2048};
    for (size_t d = 0; d < sizeof dimensions / sizeof *dimensions; d++) {
        uint32_t dimension = dimensions[d];
        const struct vector_kernels *vectors = vectors_choose("auto");
        float *rows = samples_allocate(COUNT * vector_stride(dimension)), norms[COUNT];
        random_choose("auto")->normal(7, dimension, 0, COUNT, rows);
        vectors->norms(dimension, rows, COUNT, norms);
        vectors->normalize(dimension, rows, norms, COUNT);
        vectors->norms(dimension, rows, COUNT, norms);
        for (size_t r = 0; r < COUNT; r++)
            cr_assert(fabsf(norms[r] - 1.0f) <= 0x1p-22f, "%u: %a", dimension, norms[r]);
        samples_free(rows);
    }
}
