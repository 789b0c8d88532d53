/* The correctly rounded sine against the long double one. ENGRAM_TEST_ALL=1 takes every argument
 * that a completion of any dimension can have, which lasts a minute or two. */
/* test-run: timeout=900 */
#include "kernels/attractor.h"
#include "kernels/rounded_sine.h"
#include "tests/kernels/samples.h"
#include "tests/support/attractor_reference.h"

#include <criterion/criterion.h>
#include <stdio.h>

struct tally {
    uint64_t tried, differ, uncertain, slow;
};

static bool is_near_a_tie(float x)
{
    double near = rounded_sine_near(x);
    return (float)(near * (1.0 - 0x1p-48)) != (float)(near * (1.0 + 0x1p-48));
}

static void compare(const float *x, size_t count, struct tally *t)
{
    float sines[ROUNDED_SINE_MANY];
    rounded_sines(x, count, 1.0f, sines);
    for (size_t i = 0; i < count; i++) {
        bool certain;
        float expected = reference_sine(x[i], &certain), slow = sines[i];
        bool near_tie = is_near_a_tie(x[i]);
        if (near_tie || i % 64 == 0) slow = rounded_sine_slow(x[i]);
        t->tried++;
        t->slow += near_tie;
        t->uncertain += !certain;
        t->differ += certain && (sines[i] != expected || slow != expected);
    }
}

/* From `first` on, every step-th. */
static void compare_integers(uint64_t first, uint64_t end, uint64_t step, float scale,
                             struct tally *t)
{
    float x[ROUNDED_SINE_MANY];
    while (first < end) {
        size_t count = 0;
        for (; count < ROUNDED_SINE_MANY && first < end; first += step)
            x[count++] = scale == 1.0f ? (float)first : scale * (float)first;
        compare(x, count, t);
    }
}

Test(rounded_sine, equals_the_long_double_one)
{
    uint64_t squared = (uint64_t)ATTRACTOR_DIMENSION_MAX * ATTRACTOR_DIMENSION_MAX;
    bool all = getenv("ENGRAM_TEST_ALL") != NULL;
    struct tally t = {0};
    compare_integers(0, 4096, 1, 1.0f, &t);
    compare_integers(4096, ATTRACTOR_SPREAD * squared, all ? 1 : 97, 1.0f, &t);
    compare_integers(0, squared, all ? 1 : 31, 0.1f, &t);
    printf("%llu arguments: %llu differ, %llu uncertain, %llu computed in pairs\n",
           (unsigned long long)t.tried, (unsigned long long)t.differ,
           (unsigned long long)t.uncertain, (unsigned long long)t.slow);
    cr_assert_eq(t.differ, 0);
    cr_assert_eq(t.uncertain, 0);
}

/* Integers next to multiples of pi: numerators of its continued fraction. */
Test(rounded_sine, is_right_where_the_sine_is_small)
{
    static const uint32_t numerators[] = {3,      22,     333,    355,     103993,  104348,
                                          208341, 312689, 833719, 1146408, 4272943, 5419351};
    for (size_t i = 0; i < sizeof numerators / sizeof *numerators; i++) {
        float x = (float)numerators[i], sine;
        bool certain;
        rounded_sines(&x, 1, 1.0f, &sine);
        float expected = reference_sine(x, &certain);
        cr_assert(certain);
        cr_assert_eq(sine, expected, "of %u", numerators[i]);
        cr_assert_eq(rounded_sine_slow(x), expected, "in pairs, of %u", numerators[i]);
    }
}

/* A pair whose high part is a tie is rounded by the low part; the sines of whole numbers hardly
 * ever are. */
Test(rounded_sine, rounds_a_tie_by_its_low_part)
{
    const double tie = 1.0 + 0x1p-24;
    cr_assert_eq(rounded_sine_round((struct rounded_sine_pair){tie, 0x1p-80}), 1.0f + 0x1p-23f);
    cr_assert_eq(rounded_sine_round((struct rounded_sine_pair){tie, -0x1p-80}), 1.0f);
    cr_assert_eq(rounded_sine_round((struct rounded_sine_pair){-tie, -0x1p-80}), -1.0f - 0x1p-23f);
    cr_assert_eq(rounded_sine_round((struct rounded_sine_pair){-tie, 0x1p-80}), -1.0f);
    cr_assert_eq(rounded_sine_round((struct rounded_sine_pair){tie, 0.0}), 1.0f);
}

Test(rounded_sine, is_odd)
{
    uint64_t seed = 5;
    for (int i = 0; i < 10000; i++) {
        float x = sample_uniform(&seed) * 40000.0f, pair[2] = {x, -x}, sines[2];
        rounded_sines(pair, 2, 1.0f, sines);
        cr_assert_eq(sines[0], -sines[1]);
    }
}
