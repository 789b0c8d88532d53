/* The roots of kernels/transform.h against binary128, and plans; the radices themselves through
 * hrr's spectra (test_hrr.c). HRR_TEST_ALL=1 looks at every root of the long lengths too. */
#include "kernels/transform.h"

#include <criterion/criterion.h>
#include <stdlib.h>

typedef _Float128 quad;

/* 2 pi as the sum of two binary64 numbers and a rest. */
static quad quad_turn(void)
{
    return (quad)0x1.921fb54442d18p+2 + (quad)0x1.1a62633145c07p-52 + (quad)-0x1.f1976b7ed8fbcp-108;
}

/* Taylor's series of cos (from 0) or sin (from 1), |x| <= pi / 4. */
static quad quad_series(quad x, int from)
{
    quad term = from == 0 ? 1 : x, sum = term;
    for (int n = from + 2; n < 40; n += 2) {
        term *= -x * x / (n * (n - 1));
        sum += term;
    }
    return sum;
}

/* True if `found` is the binary32 number nearest to `right`: half a unit away at most. */
static bool is_nearest(float found, quad right)
{
    quad error = (quad)found - right;
    uint32_t bits;
    float magnitude = found < 0 ? -found : found, above, below;
    __builtin_memcpy(&bits, &magnitude, sizeof bits);
    bits++;
    __builtin_memcpy(&above, &bits, sizeof above);
    bits -= 2;
    __builtin_memcpy(&below, &bits, sizeof below);
    quad size = right < 0 ? -right : right;
    error = error < 0 ? -error : error;
    return error <= ((quad)above - magnitude) / 2 &&
           (magnitude == 0 || size >= magnitude || error <= ((quad)magnitude - below) / 2);
}

/* All roots of one n; the other octants by symmetry, of which one of each is asked. */
static void assert_roots(uint32_t n)
{
    quad step = quad_turn() / n;
    uint32_t stride = getenv("HRR_TEST_ALL") ? 1 : 1 + n / 1024;
    for (uint32_t k = 0; 8 * k <= n; k += stride) {
        struct transform_root root = transform_root(k, n);
        cr_assert(is_nearest(root.cosine, quad_series(step * k, 0)), "cos %u / %u", k, n);
        cr_assert(is_nearest(root.sine, quad_series(step * k, 1)), "sin %u / %u", k, n);
        struct transform_root back = transform_root(n - k, n);
        cr_assert(back.cosine == root.cosine && back.sine == -root.sine, "%u / %u back", k, n);
        if (n % 2 == 0) {
            struct transform_root half = transform_root(n / 2 + k, n);
            struct transform_root mirrored = transform_root(n / 2 - k, n);
            cr_assert(half.cosine == -root.cosine && half.sine == -root.sine);
            cr_assert(mirrored.cosine == -root.cosine && mirrored.sine == root.sine);
        }
        if (n % 4 == 0) {
            struct transform_root quarter = transform_root(n / 4 + k, n);
            struct transform_root before = transform_root(n / 4 - k, n);
            cr_assert(quarter.cosine == -root.sine && quarter.sine == root.cosine);
            cr_assert(before.cosine == root.sine && before.sine == root.cosine);
        }
    }
}

/* Roots that are asked are those of plans' points and of twice as many (the exact inverse). What is
 * no multiple of 4 has octants without an axis of their own, so all of its roots are asked of a
 * multiple too. */
Test(transform, roots_nearest, .timeout = 900)
{
    struct transform_plan plan;
    for (uint32_t points = 2; points <= TRANSFORM_POINTS_MAX; points++) {
        if (!transform_plan_init(points, &plan)) continue;
        assert_roots(points);
        for (uint32_t k = 0; points % 4 != 0 && k < points; k++) {
            struct transform_root root = transform_root(k, points);
            struct transform_root same = transform_root(4 * k, 4 * points);
            cr_assert(root.cosine == same.cosine && root.sine == same.sine);
        }
        if (points % 4 != 0) assert_roots(4 * points);
        assert_roots(2 * points);
    }
}

Test(transform, plan_radices)
{
    static const struct {
        uint32_t points, radix[4];
    } expected[] = {
        {2, {2}},
        {18, {2, 9}},
        {27, {3, 9}},
        {32, {32}},
        {64, {4, 16}},
        {192, {3, 4, 16}},
        {250, {2, 5, 25}},
        {256, {16, 16}},
        {384, {24, 16}},
        {432, {9, 3, 16}},
        {448, {7, 4, 16}},
        {486, {2, 3, 9, 9}},
        {500, {20, 25}},
        {512, {16, 32}},
        {768, {24, 32}},
        {1024, {32, 32}},
        {2048, {8, 16, 16}},
        {4096, {16, 16, 16}},
        {5000, {8, 25, 25}},
        {6561, {9, 9, 9, 9}},
        {8192, {16, 16, 32}},
        {12288, {24, 16, 32}},
        {16384, {16, 32, 32}},
    };
    struct transform_plan plan;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        cr_assert(transform_plan_init(expected[i].points, &plan));
        for (uint32_t p = 0; p < 4; p++)
            cr_assert_eq(p < plan.passes ? plan.radix[p] : 0, expected[i].radix[p], "%u points",
                         expected[i].points);
    }
}

Test(transform, plan_multiplies_out)
{
    struct transform_plan plan;
    uint32_t plans = 0;
    for (uint32_t points = 0; points <= TRANSFORM_POINTS_MAX + 8; points++) {
        if (!transform_plan_init(points, &plan)) continue;
        uint32_t product = 1;
        for (uint32_t i = 0; i < plan.passes; i++)
            product *= plan.radix[i];
        cr_assert_eq(product, points);
        plans++;
    }
    cr_assert_eq(plan.points, 16384);
    cr_assert(!transform_plan_init(11, &plan) && !transform_plan_init(6578, &plan));
    cr_assert_eq(plans, 399, "%u plans: every product of 2, 3, 5 and 7 has one", plans);
}
