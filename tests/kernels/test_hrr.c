/* The arithmetic of kernels/hrr.h against direct sums in binary64: error, symmetry, inverses,
 * faults.
 * HRR_TEST_ALL=1 tries every pair of kinds at the largest dimensions too. */
#include "tests/kernels/hrr_cases.h"

#include <criterion/criterion.h>

static const uint32_t dimensions[] = {1,   2,   3,   4,   5,   6,    7,    8,   9,   12,
                                      15,  16,  17,  31,  32,  48,   50,   63,  64,  97,
                                      100, 125, 127, 128, 200, 250,  257,  300, 384, 500,
                                      512, 600, 768, 769, 896, 1000, 1024, 1536};

static bool test_all(void)
{
    return getenv("HRR_TEST_ALL") != NULL;
}

/* The best table of this machine; test_hrr_bits.c says that all are equal. */
static const struct hrr_kernels *best(void)
{
    return hrr_choose("auto");
}

static double bound_of(uint32_t d, const float *a, const float *b)
{
    return 4 * 0x1p-24 * (1 + log2(d)) * hrr_norm(a, d) * hrr_norm(b, d) + 0x1p-150;
}

/* The largest error as a share of the bound. */
static double assert_error(const struct hrr_bench *bench, enum hrr_case first, enum hrr_case second)
{
    uint32_t d = bench->d;
    float *a = hrr_rows(d, 1), *b = hrr_rows(d, 1), *c = hrr_rows(d, 2);
    double *right = malloc(d * sizeof *right), worst = 0;
    hrr_case_fill(first, d, d * 31 + first, a);
    hrr_case_fill(second, d, d * 77 + second + 1000, b);
    cr_assert_eq(hrr_bench_pair(bench, best(), HRR_BIND, a, b, c).status, HRR_OK);
    hrr_direct(a, b, d, right);
    double bound = bound_of(d, a, b);
    for (uint32_t j = 0; j < d; j++)
        worst = fmax(worst, fabs(c[j] - right[j]) / bound);
    cr_assert(worst <= 1, "dimension %u, %d with %d: %g of the bound", d, first, second, worst);
    cr_assert_eq(hrr_bench_pair(bench, best(), HRR_BIND, b, a, c + d).status, HRR_OK);
    cr_assert(same_bits(c, c + d, d), "dimension %u, %d with %d: not symmetric", d, first, second);
    free(a), free(b), free(c), free(right);
    return worst;
}

static double assert_errors(uint32_t d, unsigned step)
{
    struct hrr_bench bench = hrr_bench_create(d);
    double worst = 0;
    for (unsigned i = 0; i < HRR_CASES * HRR_CASES; i += step) {
        enum hrr_case first = (enum hrr_case)(i / HRR_CASES),
                      second = (enum hrr_case)(i % HRR_CASES);
        if (first <= second) worst = fmax(worst, assert_error(&bench, first, second));
    }
    hrr_bench_destroy(&bench);
    return worst;
}

Test(hrr, error_within_bound, .timeout = 900)
{
    double worst = 0;
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++)
        worst = fmax(worst, assert_errors(dimensions[i], 1));
    printf("hrr: at most %.3f of the error's bound\n", worst);
}

Test(hrr, error_within_bound_large, .timeout = 900)
{
    static const uint32_t large[] = {972, 2048, 3125, 4096, 8191, 8192, 10000, 13122, 16383, 16384};
    double worst = 0;
    for (size_t i = 0; i < (test_all() ? 8 : 3); i++)
        worst = fmax(worst, assert_errors(large[i], test_all() ? 1 : 9));
    printf("hrr: large dimensions: at most %.3f of the error's bound\n", worst);
}

/* ---- forms */

Test(hrr, unbind_is_bind_with_turned_row)
{
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        uint32_t d = dimensions[i];
        struct hrr_bench bench = hrr_bench_create(d);
        float *a = hrr_rows(d, 1), *b = hrr_rows(d, 2), *c = hrr_rows(d, 2);
        hrr_case_fill(HRR_CASE_UNIFORM, d, 1, a);
        hrr_case_fill(HRR_CASE_MIXED, d, 2, b);
        for (uint32_t j = 0; j < d; j++)
            b[d + j] = b[(d - j) % d];
        cr_assert_eq(hrr_bench_pair(&bench, best(), HRR_UNBIND, a, b, c).status, HRR_OK);
        cr_assert_eq(hrr_bench_pair(&bench, best(), HRR_BIND, a, b + d, c + d).status, HRR_OK);
        cr_assert(same_bits(c, c + d, d), "dimension %u", d);
        free(a), free(b), free(c);
        hrr_bench_destroy(&bench);
    }
}

static double dot(const float *x, const float *y, uint32_t d)
{
    double sum = 0;
    for (uint32_t i = 0; i < d; i++)
        sum += (double)x[i] * y[i];
    return sum;
}

/* Which of the rows is most like x. */
static size_t nearest(const float *x, const float *rows, size_t count, uint32_t d)
{
    size_t found = 0;
    for (size_t i = 1; i < count; i++) {
        if (dot(x, rows + i * d, d) > dot(x, rows + found * d, d)) found = i;
    }
    return found;
}

/* Three pairs superposed, and what was bound to each key: the row that the same done in binary64
 * finds, right or wrong (of 24 rows at 64 dimensions some are). */
static size_t assert_recall(const struct hrr_bench *bench, uint64_t seed)
{
    enum { ROWS = 24, BOUND = 3 };
    uint32_t d = bench->d;
    float *rows = hrr_rows(d, ROWS), *c = hrr_rows(d, BOUND), *sum = hrr_rows(d, 2);
    float *turned = hrr_rows(d, 1);
    double *right = malloc(d * sizeof *right);
    size_t hits = 0;
    for (size_t i = 0; i < ROWS; i++)
        hrr_case_fill(HRR_CASE_UNIFORM, d, seed * ROWS + i, rows + i * d);
    for (size_t i = 0; i < BOUND; i++)
        hrr_bench_pair(bench, best(), HRR_BIND, rows + i * d, rows + (ROWS - 1 - i) * d, c + i * d);
    for (uint32_t j = 0; j < d; j++)
        sum[j] = c[j] + c[d + j] + c[2 * d + j];
    for (size_t i = 0; i < BOUND; i++) {
        const float *key = rows + (ROWS - 1 - i) * d;
        hrr_bench_pair(bench, best(), HRR_UNBIND, sum, key, sum + d);
        for (uint32_t j = 0; j < d; j++)
            turned[j] = key[(d - j) % d];
        hrr_direct(sum, turned, d, right);
        for (uint32_t j = 0; j < d; j++)
            turned[j] = (float)right[j];
        size_t found = nearest(sum + d, rows, ROWS, d);
        cr_assert_eq(found, nearest(turned, rows, ROWS, d), "codebook %d", (int)seed);
        hits += found == i;
    }
    free(rows), free(c), free(sum), free(turned), free(right);
    return hits;
}

Test(hrr, unbind_recalls_as_direct_sums_do)
{
    struct hrr_bench bench = hrr_bench_create(64);
    size_t hits = 0;
    for (uint64_t seed = 0; seed < 1000; seed++)
        hits += assert_recall(&bench, seed);
    cr_assert(hits > 1500 && hits < 3000, "%zu of 3,000", hits);
    hrr_bench_destroy(&bench);
}

/* ---- the exact inverse */

static void assert_exact(uint32_t d, float factor_a, float factor_b)
{
    struct hrr_bench bench = hrr_bench_create(d);
    float *a = hrr_rows(d, 1), *b = hrr_rows(d, 1), *c = hrr_rows(d, 2);
    hrr_case_fill(HRR_CASE_UNIFORM, d, d, a);
    hrr_case_fill(HRR_CASE_UNIFORM, d, d + 1, b);
    for (uint32_t j = 0; j < d; j++) {
        a[j] *= factor_a;
        b[j] = factor_b * (b[j] / (float)d + (j == d / 3 ? 1.0f : 0.0f)); /* no |B_k| below 0.5 */
    }
    cr_assert_eq(hrr_bench_pair(&bench, best(), HRR_BIND, a, b, c).status, HRR_OK);
    struct hrr_fault fault = hrr_bench_pair(&bench, best(), HRR_UNBIND_EXACT, c, b, c + d);
    cr_assert_eq(fault.status, HRR_OK, "dimension %u: %d at %u", d, fault.status, fault.index);
    double error = 0;
    for (uint32_t j = 0; j < d; j++)
        error = fmax(error, fabs((double)c[d + j] - a[j]));
    cr_assert(error <= 12 * 0x1p-24 * (1 + log2(d)) * hrr_norm(a, d), "dimension %u: %g", d, error);
    free(a), free(b), free(c);
    hrr_bench_destroy(&bench);
}

Test(hrr, exact_inverse_recovers)
{
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        if (!hrr_has_plan(dimensions[i])) continue;
        assert_exact(dimensions[i], 1.0f, 1.0f);
        assert_exact(dimensions[i], 1e-15f, 1e18f);
    }
    cr_assert(hrr_has_plan(4) && hrr_has_plan(1000) && hrr_has_plan(16384));
    cr_assert(!hrr_has_plan(1) && !hrr_has_plan(2) && !hrr_has_plan(769) && !hrr_has_plan(22));
}

static void assert_zero(uint32_t d, const float *b, uint32_t index, float most)
{
    struct hrr_bench bench = hrr_bench_create(d);
    float *c = hrr_rows(d, 2);
    hrr_case_fill(HRR_CASE_UNIFORM, d, 5, c);
    struct hrr_fault fault = hrr_bench_pair(&bench, best(), HRR_UNBIND_EXACT, c, b, c + d);
    cr_assert_eq(fault.status, HRR_ZERO);
    cr_assert_eq(fault.index, index, "dimension %u: %u, not %u", d, fault.index, index);
    cr_assert(fault.magnitude <= most, "%g", (double)fault.magnitude);
    free(c);
    hrr_bench_destroy(&bench);
}

Test(hrr, exact_inverse_names_a_zero)
{
    static const uint32_t planned[] = {4, 16, 48, 100, 500, 512, 768, 1000, 1024, 4096};
    for (size_t i = 0; i < sizeof planned / sizeof *planned; i++) {
        uint32_t d = planned[i];
        float *b = hrr_rows(d, 1);
        for (uint32_t j = 0; j < d; j++)
            b[j] = j == 0 ? 3.0f : j == 1 ? 3.0f : 0.0f;
        /* |1 + w^k| passes the bound before d / 2 where d is long. */
        if (d <= 1024) assert_zero(d, b, d / 2, 1e-5f);
        b[1] = -3.0f;
        assert_zero(d, b, 0, 1e-5f);
        for (uint32_t j = 0; j < d; j++)
            b[j] = 1e20f;
        assert_zero(d, b, 1, 1e16f);
        memset(b, 0, d * sizeof *b);
        assert_zero(d, b, 0, 0.0f);
        free(b);
    }
}

/* ---- products of many */

static void normalise(double *x, uint32_t d)
{
    double sum = 0;
    for (uint32_t i = 0; i < d; i++)
        sum += x[i] * x[i];
    for (uint32_t i = 0; i < d; i++)
        x[i] /= sqrt(sum);
}

struct stopper {
    size_t asked, stops_at;
};

static bool goes_on(void *owner)
{
    struct stopper *s = owner;
    return ++s->asked < s->stops_at;
}

Test(hrr, a_product_can_be_stopped)
{
    enum { ROWS = 9 };
    for (uint32_t d = 63; d <= 64; d++) { /* without a plan, and with one */
        struct hrr_bench bench = hrr_bench_create(d);
        float *rows = hrr_rows(d, ROWS + 2), *out = rows + ROWS * d, *other = out + d;
        const float *list[ROWS];
        for (size_t i = 0; i < ROWS; i++) {
            hrr_case_fill(HRR_CASE_UNIFORM, d, i + d, rows + i * d);
            list[i] = rows + i * d;
        }
        struct stopper s = {.stops_at = ROWS};
        struct hrr_product work = {.plan = bench.plan,
                                   .scratch = bench.scratch,
                                   .rows = list,
                                   .count = ROWS,
                                   .out = out,
                                   .goes_on = goes_on,
                                   .owner = &s};
        cr_assert_eq(best()->many(&work).status, HRR_OK);
        cr_assert_eq(s.asked, ROWS - 1);
        work.out = other, work.goes_on = NULL;
        cr_assert_eq(best()->many(&work).status, HRR_OK);
        cr_assert_eq(memcmp(out, other, d * sizeof *out), 0);
        work.goes_on = goes_on, s = (struct stopper){.stops_at = 4};
        cr_assert_eq(best()->many(&work).status, HRR_STOPPED);
        cr_assert_eq(s.asked, 4);
        free(rows);
        hrr_bench_destroy(&bench);
    }
}

/* The direction of a product of rows of very different size, against binary64. */
static void assert_many(uint32_t d, size_t count)
{
    struct hrr_bench bench = hrr_bench_create(d);
    float *rows = hrr_rows(d, count + 1), *out = rows + count * d;
    const float *list[64];
    double *right = malloc(2 * d * sizeof *right), *next = right + d,
           *found = malloc(d * sizeof *found);
    for (size_t i = 0; i < count; i++) {
        enum hrr_case kind = i % 2 ? HRR_CASE_LARGE : HRR_CASE_SMALL;
        hrr_case_fill(count % 2 && i + 1 == count ? HRR_CASE_UNIFORM : kind, d, i + d,
                      rows + i * d);
        list[i] = rows + i * d;
    }
    struct hrr_product work = {
        .plan = bench.plan, .scratch = bench.scratch, .rows = list, .count = count, .out = out};
    cr_assert_eq(best()->many(&work).status, HRR_OK, "dimension %u, %zu rows", d, count);
    for (uint32_t j = 0; j < d; j++)
        right[j] = rows[j];
    for (size_t i = 1; i < count; i++) {
        memset(next, 0, d * sizeof *next);
        for (uint32_t j = 0; j < d; j++) {
            for (uint32_t n = 0; n < d; n++)
                next[(j + n) % d] += right[j] * list[i][n];
        }
        memcpy(right, next, d * sizeof *right);
        normalise(right, d);
    }
    for (uint32_t j = 0; j < d; j++)
        found[j] = out[j];
    normalise(found, d);
    for (uint32_t j = 0; j < d; j++)
        cr_assert(fabs(found[j] - right[j]) < 1e-5, "dimension %u, %zu rows: %u", d, count, j);
    free(rows), free(right), free(found);
    hrr_bench_destroy(&bench);
}

Test(hrr, many_neither_overflows_nor_underflows)
{
    static const uint32_t some[] = {2, 7, 64, 100, 101};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        assert_many(some[i], 3);
        assert_many(some[i], 8);
        assert_many(some[i], 41);
    }
}

Test(hrr, many_of_two_is_bind)
{
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        uint32_t d = dimensions[i];
        struct hrr_bench bench = hrr_bench_create(d);
        float *rows = hrr_rows(d, 4);
        const float *list[] = {rows, rows + d};
        hrr_case_fill(HRR_CASE_SMALL, d, 1, rows);
        hrr_case_fill(HRR_CASE_MIXED, d, 2, rows + d);
        hrr_bench_pair(&bench, best(), HRR_BIND, rows, rows + d, rows + 2 * d);
        struct hrr_product work = {.plan = bench.plan,
                                   .scratch = bench.scratch,
                                   .rows = list,
                                   .count = 2,
                                   .out = rows + 3 * d};
        cr_assert_eq(best()->many(&work).status, HRR_OK);
        cr_assert(same_bits(rows + 2 * d, rows + 3 * d, d), "dimension %u", d);
        work.count = 1;
        cr_assert_eq(best()->many(&work).status, HRR_OK);
        cr_assert(same_bits(rows, rows + 3 * d, d));
        free(rows);
        hrr_bench_destroy(&bench);
    }
}

/* ---- ends of the range */

Test(hrr, overflow_names_the_pair)
{
    static const uint32_t some[] = {1, 7, 64, 769, 1024};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        uint32_t d = some[i];
        struct hrr_bench bench = hrr_bench_create(d);
        float *rows = hrr_rows(d, 3), *out = hrr_rows(d, 6);
        for (uint32_t j = 0; j < 3 * d; j++)
            rows[j] = j < 2 * d ? 1e25f : 1e5f;
        const float *a[] = {rows, rows, rows}, *b[] = {rows + 2 * d, rows + d, rows + 2 * d};
        struct hrr_pairs work = {.plan = bench.plan,
                                 .scratch = bench.scratch,
                                 .a = a,
                                 .b = b,
                                 .count = 3,
                                 .out = out,
                                 .out_step = d};
        struct hrr_fault fault = best()->pairs(&work);
        cr_assert_eq(fault.status, HRR_OVERFLOW);
        cr_assert_eq(fault.pair, 1);
        hrr_bench_pair(&bench, best(), HRR_BIND, a[0], b[0], out + 4 * d);
        cr_assert(same_bits(out, out + 4 * d, d));
        struct hrr_product product = {
            .plan = bench.plan, .scratch = bench.scratch, .rows = a, .count = 3, .out = out};
        cr_assert_eq(best()->many(&product).status, HRR_OVERFLOW);
        free(rows), free(out);
        hrr_bench_destroy(&bench);
    }
}

/* Powers of two pass through: what is scaled is scaled back, with one rounding of a subnormal. */
Test(hrr, scale_is_undone)
{
    static const int exponents[] = {-149, -140, -127, -126, -100, -60, 0, 60, 100, 124};
    static const uint32_t some[] = {1, 5, 64, 100, 768};
    size_t count = sizeof exponents / sizeof *exponents;
    for (size_t i = 0; i < count * count * 5; i++) {
        uint32_t d = some[i % 5];
        int first = exponents[i / 5 % count], second = exponents[i / 5 / count];
        struct hrr_bench bench = hrr_bench_create(d);
        float *rows = hrr_rows(d, 3);
        for (uint32_t j = 0; j < d; j++) {
            rows[j] = j == 0 ? ldexpf(1.0f, first) : 0.0f;
            rows[d + j] = j % 3 == 1 ? -0.0f : ldexpf(j % 2 ? -1.0f : 1.0f, second);
        }
        struct hrr_fault fault =
            hrr_bench_pair(&bench, best(), HRR_BIND, rows, rows + d, rows + 2 * d);
        cr_assert_eq(fault.status, first + second < 128 ? HRR_OK : HRR_OVERFLOW);
        for (uint32_t j = 0; j < d && fault.status == HRR_OK; j++) {
            double right = ldexp((double)rows[d + j], first), found = rows[2 * d + j];
            cr_assert(fabs(found - right) <= bound_of(d, rows, rows + d) + 0x1p-149, "%u of %u: %g",
                      j, d, found);
        }
        free(rows);
        hrr_bench_destroy(&bench);
    }
}

Test(hrr, zeros_make_zeros)
{
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        uint32_t d = dimensions[i];
        struct hrr_bench bench = hrr_bench_create(d);
        float *rows = hrr_rows(d, 3);
        const float *list[] = {rows, rows + d, rows};
        hrr_case_fill(HRR_CASE_UNIFORM, d, 1, rows);
        hrr_case_fill(HRR_CASE_ZERO, d, 2, rows + d);
        for (int form = HRR_BIND; form <= HRR_UNBIND; form++) {
            hrr_bench_pair(&bench, best(), (enum hrr_form)form, rows, rows + d, rows + 2 * d);
            for (uint32_t j = 0; j < d; j++)
                cr_assert(rows[2 * d + j] == 0.0f && !signbit(rows[2 * d + j]));
        }
        struct hrr_product work = {.plan = bench.plan,
                                   .scratch = bench.scratch,
                                   .rows = list,
                                   .count = 3,
                                   .out = rows + 2 * d};
        cr_assert_eq(best()->many(&work).status, HRR_OK);
        for (uint32_t j = 0; j < d; j++)
            cr_assert(rows[2 * d + j] == 0.0f && !signbit(rows[2 * d + j]));
        free(rows);
        hrr_bench_destroy(&bench);
    }
}
