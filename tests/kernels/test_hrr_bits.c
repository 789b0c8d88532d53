/* Every variant of kernels/hrr.h that this machine can run against the scalar reference, bit for
 * bit: all forms, batches of 1 to 40 pairs, one against many, products of up to 5 rows. The last
 * line says how many numbers were compared. HRR_TEST_NUMBERS=100000000 goes on until there were as
 * many. */
#include "tests/kernels/hrr_cases.h"

#include <criterion/criterion.h>

enum { PAIRS = 40, FORMS = 3 };

static const uint32_t long_dimensions[] = {127,  128,  384,  500,  512,  768,  769,   1000,
                                           1024, 1536, 2048, 4096, 8191, 8192, 13122, 16384};

/* What the reference makes of PAIRS rows on each side. */
struct scene {
    struct hrr_bench bench;
    float *rows, *expected;
    const float *a[PAIRS], *b[PAIRS];
    struct hrr_fault fault;
};

static uint64_t compared;

static struct hrr_fault scene_run(const struct scene *s, const struct hrr_kernels *k,
                                  enum hrr_form form, size_t from, size_t count, float *out)
{
    struct hrr_pairs work = {.plan = s->bench.plan,
                             .scratch = s->bench.scratch,
                             .form = form,
                             .a = s->a + from,
                             .b = s->b + from,
                             .count = count,
                             .out = out,
                             .out_step = s->bench.d + 1};
    return k->pairs(&work);
}

/* many: all pairs have one row on the left; else each row comes twice in a row. */
static struct scene scene_create(uint32_t d, bool one_against_many, uint64_t seed)
{
    struct scene s = {.bench = hrr_bench_create(d), .rows = hrr_rows(d, 2 * PAIRS)};
    s.expected = hrr_rows(d + 1, PAIRS);
    for (size_t i = 0; i < PAIRS; i++) {
        float *a = s.rows + i * d, *b = a + (size_t)PAIRS * d;
        hrr_case_fill((enum hrr_case)((i + seed) % HRR_CASES), d, seed * 1000 + i, a);
        hrr_case_fill((enum hrr_case)(i * 7 / 10 % HRR_CASES), d, seed * 2000 + i, b);
        s.a[i] = one_against_many ? s.rows : s.rows + i / 2 * d;
        s.b[i] = b;
    }
    return s;
}

static void scene_destroy(struct scene *s)
{
    hrr_bench_destroy(&s->bench);
    free(s->rows), free(s->expected);
}

/* Pairs from..from + count against what was expected; the gap between rows stays. */
static void assert_pairs(const struct scene *s, const struct hrr_kernels *k, enum hrr_form form,
                         size_t from, size_t count)
{
    uint32_t d = s->bench.d;
    float *out = hrr_rows(d + 1, count), gap = -1234.5f;
    for (size_t i = 0; i < count * (d + 1); i++)
        out[i] = gap;
    struct hrr_fault fault = scene_run(s, k, form, from, count, out);
    size_t done = fault.status == HRR_OK ? count : fault.pair;
    for (size_t i = 0; i < done; i++) {
        cr_assert(same_bits(out + i * (d + 1), s->expected + (from + i) * (d + 1), d),
                  "%s form %d dimension %u pair %zu of %zu from %zu", k->name, form, d, i, count,
                  from);
        cr_assert(same_bits(&out[i * (d + 1) + d], &gap, 1));
    }
    compared += (uint64_t)done * d;
    if (from == 0 && count == PAIRS) {
        cr_assert_eq(fault.status, s->fault.status);
        cr_assert_eq(fault.pair, s->fault.pair);
        cr_assert_eq(fault.index, s->fault.index);
        cr_assert(same_bits(&fault.magnitude, &s->fault.magnitude, 1));
    }
    free(out);
}

static void assert_products(const struct scene *s, const struct hrr_kernels *k, size_t count)
{
    uint32_t d = s->bench.d;
    float *out = hrr_rows(d, 2);
    struct hrr_product work = {.plan = s->bench.plan,
                               .scratch = s->bench.scratch,
                               .rows = s->b,
                               .count = count,
                               .out = out};
    struct hrr_fault expected = hrr_scalar.many(&work);
    work.out = out + d;
    struct hrr_fault found = k->many(&work);
    cr_assert_eq(found.status, expected.status);
    cr_assert(same_bits(out, out + d, d), "%s dimension %u, product of %zu", k->name, d, count);
    compared += d;
    free(out);
}

static void assert_form(struct scene *s, enum hrr_form form, size_t step)
{
    s->fault = scene_run(s, &hrr_scalar, form, 0, PAIRS, s->expected);
    size_t good = s->fault.status == HRR_OK ? PAIRS : s->fault.pair;
    for (size_t v = 1; vectors_variant(v); v++) {
        const struct hrr_kernels *k = hrr_choose(vectors_variant(v)->name);
        assert_pairs(s, k, form, 0, PAIRS);
        for (size_t count = 1; count < good; count += step)
            assert_pairs(s, k, form, good - count, count);
        for (size_t count = 1; form == HRR_BIND && count <= 5; count++)
            assert_products(s, k, count);
    }
}

static void assert_dimension(uint32_t d, size_t step, uint64_t seed)
{
    for (int one = 0; one < 2; one++) {
        struct scene s = scene_create(d, one, seed);
        for (int form = 0; form < FORMS; form++) {
            if (form != HRR_UNBIND_EXACT || hrr_has_plan(d))
                assert_form(&s, (enum hrr_form)form, step);
        }
        scene_destroy(&s);
    }
}

static uint64_t numbers_wanted(void)
{
    const char *text = getenv("HRR_TEST_NUMBERS");
    return text ? strtoull(text, NULL, 10) : 0;
}

static void say_compared(const char *what)
{
    printf("hrr: %s: %llu numbers compared, 0 differ\n", what, (unsigned long long)compared);
}

Test(hrr_bits, variants_equal_scalar_short, .timeout = 900)
{
    uint64_t seed = 1;
    do {
        for (uint32_t d = 1; d <= 70; d++)
            assert_dimension(d, numbers_wanted() ? 3 : 13, seed);
    } while (++seed, compared < numbers_wanted() / 2);
    say_compared("dimensions 1 to 70");
}

Test(hrr_bits, variants_equal_scalar_long, .timeout = 900)
{
    size_t count = sizeof long_dimensions / sizeof *long_dimensions;
    uint64_t seed = 1;
    do {
        for (size_t i = 0; i < (numbers_wanted() ? count : 9); i++)
            assert_dimension(long_dimensions[i], numbers_wanted() ? 11 : 39, seed);
    } while (++seed, compared < numbers_wanted() / 2);
    say_compared("dimensions 127 to 16,384");
}
