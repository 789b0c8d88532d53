/* e^x, logarithm, sine and cosine against long double, and every variant against the scalar one,
 * over one in 8,209 of all binary32 numbers. With ENGRAM_TEST_ALL_INPUTS set, over all 2^32 of
 * them, against libm's binary64 (whose error of 2^-52 or so does not show); that takes half an hour
 * on two busy cores. Both print the largest errors in units in the last place. */
#include "kernels/functions.h"
#include "tests/kernels/samples.h"

#include <criterion/criterion.h>

#include <stdio.h>

enum { CHUNK = 65536, STEP = 8209 };

typedef void many(const float *from, size_t count, float *to);

struct subject {
    const char *name;
    size_t table; /* where in a table of functions its pointer is */
    double (*quick)(double);
    long double (*exact)(long double);
};

static const struct subject subjects[] = {
    {"e^x", offsetof(struct function_kernels, exponentials), exp, expl},
    {"logarithm", offsetof(struct function_kernels, logarithms), log, logl},
    {"sine", offsetof(struct function_kernels, sines), sin, sinl},
    {"cosine", offsetof(struct function_kernels, cosines), cos, cosl},
};

static many *function_of(const struct function_kernels *table, const struct subject *subject)
{
    return *(many *const *)(const void *)((const char *)table + subject->table);
}

/* The unit in the last place of binary32 at this value. */
static double unit_at(double value)
{
    int exponent = -126;
    if (value != 0.0) frexp(value, &exponent), exponent--;
    if (exponent < -126) exponent = -126;
    if (exponent > 127) exponent = 127;
    return ldexp(1.0, exponent - 23);
}

struct worst {
    double error, subnormal_error;
    float at;
};

static void worst_take(struct worst *worst, float x, float y, long double exact)
{
    bool past = fabsl(exact) >= 0x1.ffffffp127L; /* and half a unit: rounds to infinity */
    if (past || isinf(exact)) {
        cr_assert(isinf(y) && (y > 0) == (exact > 0), "%a: %a", x, y);
        return;
    }
    double error = (double)(fabsl(y - exact) / unit_at((double)exact));
    if (fabsl(exact) < 0x1p-126L)
        worst->subnormal_error = fmax(worst->subnormal_error, error);
    else if (error > worst->error)
        worst->error = error, worst->at = x;
}

static void check_chunk(const struct subject *subject, bool all, const float *x, const float *y,
                        struct worst *worst)
{
    for (size_t i = 0; i < CHUNK; i++) {
        long double exact = all ? subject->quick(x[i]) : subject->exact(x[i]);
        if (isnan(exact))
            cr_assert_eq(canonical_bits(y[i]), 0x7fc00000u, "%s %a: %a", subject->name, x[i], y[i]);
        else
            worst_take(worst, x[i], y[i], exact);
    }
}

static void check_variants(const struct subject *subject, const float *x, const float *y)
{
    static float other[CHUNK];
    for (size_t v = 1; vectors_variant(v); v++) {
        function_of(functions_choose(vectors_variant(v)->name), subject)(x, CHUNK, other);
        cr_assert(same_bits(y, other, CHUNK), "%s %s", vectors_variant(v)->name, subject->name);
    }
}

static void check_subject(const struct subject *subject)
{
    static float x[CHUNK], y[CHUNK];
    bool all = getenv("ENGRAM_TEST_ALL_INPUTS") != NULL;
    uint64_t step = all ? 1 : STEP;
    struct worst worst = {0};
    for (uint64_t first = 0; first < 1ull << 32; first += CHUNK * step) {
        for (uint64_t i = 0; i < CHUNK; i++)
            x[i] = canonical_from_bits((uint32_t)(first + i * step));
        function_of(&functions_scalar, subject)(x, CHUNK, y);
        check_variants(subject, x, y);
        check_chunk(subject, all, x, y, &worst);
    }
    printf("%s: %.4f units at %a, %.4f where subnormal\n", subject->name, worst.error, worst.at,
           worst.subnormal_error);
    fflush(stdout);
    cr_assert(worst.error <= 1.0 && worst.subnormal_error <= 1.0, "%s", subject->name);
}

Test(functions, exponential_is_within_a_unit, .timeout = 7200)
{
    check_subject(&subjects[0]);
}

Test(functions, logarithm_is_within_a_unit, .timeout = 7200)
{
    check_subject(&subjects[1]);
}

Test(functions, sine_is_within_a_unit, .timeout = 7200)
{
    check_subject(&subjects[2]);
}

Test(functions, cosine_is_within_a_unit, .timeout = 7200)
{
    check_subject(&subjects[3]);
}

Test(functions, what_has_no_rounding_is_exact)
{
    cr_assert_eq(canonical_exponential(-0.0f), 1.0f);
    cr_assert_eq(canonical_exponential(INFINITY), INFINITY);
    cr_assert_eq(canonical_exponential(0x1.62e42ep+6f), 0x1.ffff08p+127f);
    cr_assert_eq(canonical_exponential(0x1.62e430p+6f), INFINITY);
    cr_assert_eq(canonical_bits(canonical_exponential(-104.0f)), 0);
    cr_assert_eq(canonical_bits(canonical_exponential(-INFINITY)), 0);
    cr_assert_eq(canonical_exponential(-103.0f), 0x1p-149f);
    cr_assert_eq(canonical_logistic(0.0f), 0.5f);
    cr_assert_eq(canonical_logistic(-INFINITY), 0.0f);
    cr_assert_eq(canonical_logistic(INFINITY), 1.0f);
    cr_assert_eq(canonical_bits(canonical_logarithm(1.0f)), 0);
    cr_assert_eq(canonical_logarithm(-0.0f), -INFINITY);
    cr_assert_eq(canonical_logarithm(INFINITY), INFINITY);
    cr_assert_eq(canonical_bits(canonical_angle_sine(-0.0f)), 0x80000000u);
    cr_assert_eq(canonical_bits(canonical_angle_sine(0.0f)), 0);
    cr_assert_eq(canonical_angle_sine(-0x1p-149f), -0x1p-149f);
    cr_assert_eq(canonical_angle_cosine(-0.0f), 1.0f);
}

Test(functions, no_number_has_one_form)
{
    static const uint32_t wrong[] = {0x7f800001u, 0xff800001u, 0x7fc00000u, 0xffffffffu};
    for (size_t i = 0; i < 4; i++) {
        float x = canonical_from_bits(wrong[i]);
        cr_assert_eq(canonical_bits(canonical_exponential(x)), 0x7fc00000u);
        cr_assert_eq(canonical_bits(canonical_logistic(x)), 0x7fc00000u);
        cr_assert_eq(canonical_bits(canonical_logarithm(x)), 0x7fc00000u);
        cr_assert_eq(canonical_bits(canonical_angle_sine(x)), 0x7fc00000u);
        cr_assert_eq(canonical_bits(canonical_angle_cosine(x)), 0x7fc00000u);
    }
    static const float outside[] = {-INFINITY, -1.0f, -0x1p-149f};
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(canonical_bits(canonical_logarithm(outside[i])), 0x7fc00000u);
    cr_assert_eq(canonical_bits(canonical_angle_sine(INFINITY)), 0x7fc00000u);
    cr_assert_eq(canonical_bits(canonical_angle_cosine(-INFINITY)), 0x7fc00000u);
}

Test(functions, fractions_of_a_turn_are_within_a_unit)
{
    const long double turn = 6.28318530717958647692528676655900577L;
    struct worst worst = {0};
    for (uint32_t k = 0; k < 1u << 24; k += 13) {
        struct canonical_point point = canonical_turn(k);
        worst_take(&worst, (float)k, point.sine, sinl(turn * k / 16777216));
        worst_take(&worst, (float)k, point.cosine, cosl(turn * k / 16777216));
    }
    printf("turn: %.4f units at %.0f\n", worst.error, (double)worst.at);
    cr_assert(worst.error <= 1.0);
    for (uint32_t q = 0; q < 8; q++) {
        struct canonical_point point = canonical_turn(q << 22);
        cr_assert_eq(point.sine, q % 4 == 1 ? 1.0f : q % 4 == 3 ? -1.0f : 0.0f);
        cr_assert_eq(point.cosine, q % 4 == 0 ? 1.0f : q % 4 == 2 ? -1.0f : 0.0f);
    }
}

/* The numbers just before and behind stay as they are. */
static void assert_any_count(many *f, many *reference, const float *x, size_t count)
{
    float *expected = samples_allocate(count), *to = samples_allocate(count + 2);
    to[0] = to[count + 1] = -7.0f;
    reference(x, count, expected);
    f(x, count, to + 1);
    cr_assert(same_bits(expected, to + 1, count) && to[0] == -7.0f && to[count + 1] == -7.0f);
    memcpy(to + 1, x, count * sizeof *x);
    f(to + 1, count, to + 1);
    cr_assert(same_bits(expected, to + 1, count));
    samples_free(expected), samples_free(to);
}

Test(functions, any_count_is_done_also_in_place)
{
    float *x = samples_create(100, 1, SAMPLE_MIXED, 3);
    for (size_t v = 0; vectors_variant(v); v++) {
        const struct function_kernels *table = functions_choose(vectors_variant(v)->name);
        for (size_t count = 0; count < 100; count++) {
            for (size_t s = 0; s < sizeof subjects / sizeof *subjects; s++)
                assert_any_count(function_of(table, &subjects[s]),
                                 function_of(&functions_scalar, &subjects[s]), x + 100 - count,
                                 count);
            assert_any_count(table->logistics, functions_scalar.logistics, x + 100 - count, count);
        }
    }
    samples_free(x);
}

Test(functions, choose_returns_the_variant_asked_for)
{
    cr_assert_eq(functions_choose("scalar"), &functions_scalar);
    cr_assert_null(functions_choose("none"));
    cr_assert_str_eq(functions_choose("auto")->name, vectors_choose("auto")->name);
}
