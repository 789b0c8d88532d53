/* The phases of CUDA's bind (kernels/cuda/hrr_phases.cuh, hrr_cells.cuh, hrr_three.cuh), thread
 * after thread and barrier after barrier, against the scalar reference, bit for bit: what the
 * kernels of kernels/cuda/hrr*.cu do without a device. */
#include "kernels/cuda/hrr_cells.cuh"
#include "kernels/cuda/hrr_three.cuh"

#include "kernels/cpu/hrr_plan.h"
#include "tests/kernels/hrr_cases.h"

#include <criterion/criterion.h>

enum { PAIRS = 20, THREADS = 48 }; /* a pair of each case on both sides; no power of two */

/* As kernels/cuda/hrr.cu has them. */
static const struct hrr_shape shapes[] = {{8, 16, 16},  {16, 16, 16}, {24, 16, 16}, {16, 32, 16},
                                          {24, 32, 32}, {32, 32, 32}, {16, 32, 32}};

static const uint32_t long_dimensions[] = {127,  128,  384,  500,  512,  768,  769,   1000,
                                           1024, 1536, 2048, 4096, 8191, 8192, 13122, 16384};

/* A block's memory: as many cells as it has, so that a sanitizer sees one more. */
struct block {
    const struct hrr_plan *plan;
    struct hrr_cell *cells, *b; /* A and, behind it, B */
    int exponents;
    uint64_t order; /* in which threads run: any may be first */
};

static uint32_t thread_at(struct block *block, uint32_t i, uint32_t threads)
{
    return (uint32_t)((i + block->order) % threads);
}

#define FOR_THREADS(block, t, threads)                                                          \
    for (uint32_t i_ = 0, t = ((block)->order++, thread_at(block, 0, threads)); i_ < (threads); \
         t = thread_at(block, ++i_, threads))

static const float *table(const struct block *block, uint32_t at)
{
    return hrr_plan_table(block->plan, at);
}

/* ---- two constant radices */

static struct hrr_cell *cells_of(const float *cosines, const float *sines, uint32_t count)
{
    struct hrr_cell *cells = hrr_memory(count * sizeof *cells);
    for (uint32_t i = 0; i < count; i++)
        cells[i] = (struct hrr_cell){cosines[i], sines[i]};
    return cells;
}

static void begin_row(struct block *block, struct hrr_shape s, const float *row, bool turned,
                      const struct hrr_cell *roots, struct hrr_cell *cells)
{
    static struct hrr_registers x[32];
    float most = 0.0f;
    FOR_THREADS(block, t, s.threads)
    most = fmaxf(most, shape_load(s, row, turned, t, &x[t]));
    block->exponents += exponent_of(most);
    FOR_THREADS(block, t, s.threads)
    {
        shape_scale(s, power_of_two(-exponent_of(most)), &x[t]);
        shape_columns(s, &x[t], roots, t, cells);
    }
}

static float short_bind(struct block *block, struct hrr_shape s, const float *a, const float *b,
                        bool turned, float *out)
{
    const struct hrr_plan *plan = block->plan;
    static struct hrr_registers x[32];
    const uint32_t count = (s.first - 1) * s.second;
    const float *at = table(block, plan->roots);
    struct hrr_cell *roots = cells_of(at, at + count, count);
    at = table(block, plan->product_roots);
    struct hrr_cell *product = cells_of(at, at + plan->product_step, plan->points / 2 + 1);
    block->exponents = 0;
    begin_row(block, s, a, false, roots, block->cells);
    begin_row(block, s, b, turned, roots, block->cells + shape_cells(s));
    FOR_THREADS(block, t, s.threads)
    shape_rows(s, 0, 2 * s.first, t, block->cells);
    FOR_THREADS(block, t, s.threads)
    if (s.threads == 32 && 32 % s.first == 0)
        shape_product_warp(s, product, t, block->cells, block->cells + shape_cells(s));
    else
        shape_product(s, product, t, block->cells, block->cells + shape_cells(s));
    FOR_THREADS(block, t, s.threads)
    shape_gather(s, block->cells, t, &x[t]);
    FOR_THREADS(block, t, s.threads)
    shape_columns(s, &x[t], roots, t, block->cells);
    float most = 0.0f;
    struct hrr_scaling scaling = scaling_of(plan->factor, block->exponents - 2 - plan->width);
    FOR_THREADS(block, t, s.threads)
    most = fmaxf(most, shape_write(s, block->cells, scaling, t, out));
    free(roots), free(product);
    return most;
}

/* ---- any plan */

static void load_row(struct block *block, const float *row, bool turned, struct hrr_cell *cells)
{
    uint32_t d = block->plan->dimension;
    float most = 0.0f;
    FOR_THREADS(block, t, THREADS)
    most = fmaxf(most, cells_largest(row, d, t, THREADS));
    block->exponents += exponent_of(most);
    FOR_THREADS(block, t, THREADS)
    cells_load(&block->plan->transform, row, turned, d, power_of_two(-exponent_of(most)), t,
               THREADS, cells);
}

/* Passes first..end - 1. */
static void pass_some(struct block *block, uint32_t first, uint32_t end,
                      const struct hrr_cell *from, struct hrr_cell *to)
{
    const struct transform_plan *plan = &block->plan->transform;
    for (uint32_t i = first; i < end; i++) {
        bool digits = i == 0 && from != to;
        struct hrr_pass pass = cells_pass_of(plan, table(block, block->plan->roots), i,
                                             digits ? from : to, to, digits);
        FOR_THREADS(block, t, THREADS)
        cells_pass(plan, &pass, i, t, THREADS);
    }
}

static float long_bind(struct block *block, const float *a, const float *b, bool turned, float *out)
{
    const struct hrr_plan *plan = block->plan;
    struct hrr_cell *at_a = block->cells, *at_b = at_a + cells_count(&plan->transform);
    block->exponents = 0;
    load_row(block, a, false, at_a);
    load_row(block, b, turned, at_b);
    const uint32_t passes = plan->transform.passes;
    pass_some(block, 0, passes, at_a, at_a);
    pass_some(block, 0, passes, at_b, at_b);
    FOR_THREADS(block, t, THREADS)
    cells_product(&plan->transform, table(block, plan->product_roots), plan->product_step, t,
                  THREADS, at_a, at_b);
    pass_some(block, 0, passes, at_a, at_b);
    float most = 0.0f;
    struct hrr_scaling scaling = scaling_of(plan->factor, block->exponents - 2 - plan->width);
    FOR_THREADS(block, t, THREADS)
    most =
        fmaxf(most, cells_write(&plan->transform, at_b, plan->dimension, scaling, t, THREADS, out));
    return most;
}

/* ---- any plan: the exact inverse, and products of several rows */

static void divide_row(struct block *block, const float *b, float *limit)
{
    uint32_t d = block->plan->dimension;
    float most = 0.0f, parts[32];
    FOR_THREADS(block, t, THREADS)
    most = fmaxf(most, cells_largest(b, d, t, THREADS));
    for (uint32_t i = 0; i < 32; i++)
        parts[i] = cells_square_part(b, d, power_of_two(-exponent_of(most)), i);
    for (uint32_t s = 16; s > 0; s /= 2)
        for (uint32_t i = 0; i < s; i++)
            parts[i] += parts[i + s];
    *limit = most == 0.0f ? INFINITY : 0x1p-18f * parts[0];
}

/* Returns the largest magnitude, or infinity if there is no inverse. */
static float long_divide(struct block *block, const float *c, const float *b, float *out)
{
    const struct hrr_plan *plan = block->plan;
    const struct transform_plan *transform = &plan->transform;
    struct hrr_cell *at_a = block->cells, *at_b = at_a + cells_count(transform);
    float limit, most = 0.0f;
    bool sound = true;
    divide_row(block, b, &limit);
    block->exponents = 0;
    load_row(block, b, false, at_b);
    int divisor = block->exponents;
    block->exponents = 0;
    load_row(block, c, false, at_a);
    pass_some(block, 0, transform->passes, at_a, at_a);
    pass_some(block, 0, transform->passes, at_b, at_b);
    FOR_THREADS(block, t, THREADS)
    sound &= cells_divide(transform, table(block, plan->exact_roots), plan->exact_step, limit, t,
                          THREADS, at_a, at_b);
    pass_some(block, 0, transform->passes, at_a, at_b);
    int q = block->exponents + 1 - divisor;
    struct hrr_scaling scaling = scaling_of(plan->factor, q - 2 - plan->width);
    FOR_THREADS(block, t, THREADS)
    most = fmaxf(most, cells_write(transform, at_b, plan->dimension, scaling, t, THREADS, out));
    return sound ? most : INFINITY;
}

/* Between two products: with a plan the spectrum is brought to scale, else it becomes a row. */
static void go_on(struct block *block, struct hrr_cell *a, struct hrr_cell *b)
{
    const struct hrr_plan *plan = block->plan;
    const struct transform_plan *transform = &plan->transform;
    float most = 0.0f;
    if (!plan->planned) pass_some(block, 0, transform->passes, a, b);
    FOR_THREADS(block, t, THREADS)
    most = fmaxf(most, plan->planned ? cells_most(transform, a, t, THREADS)
                                     : cells_fold(transform, b, plan->dimension, plan->factor, t,
                                                  THREADS, a));
    FOR_THREADS(block, t, THREADS)
    cells_scale(transform, power_of_two(-exponent_of(most)), plan->planned, t, THREADS, a);
    block->exponents += exponent_of(most) - 2 - (plan->planned ? 0 : plan->width);
    if (!plan->planned) pass_some(block, 0, transform->passes, a, a);
}

static float long_product(struct block *block, const float *const *rows, uint32_t count, float *out)
{
    const struct hrr_plan *plan = block->plan;
    const struct transform_plan *transform = &plan->transform;
    struct hrr_cell *at_a = block->cells, *at_b = at_a + cells_count(transform);
    float most = 0.0f;
    block->exponents = 0;
    load_row(block, rows[0], false, at_a);
    pass_some(block, 0, transform->passes, at_a, at_a);
    for (uint32_t i = 1; i < count; i++) {
        if (i > 1) go_on(block, at_a, at_b);
        load_row(block, rows[i], false, at_b);
        pass_some(block, 0, transform->passes, at_b, at_b);
        FOR_THREADS(block, t, THREADS)
        cells_product(transform, table(block, plan->product_roots), plan->product_step, t, THREADS,
                      at_a, at_b);
    }
    pass_some(block, 0, transform->passes, at_a, at_b);
    struct hrr_scaling scaling = scaling_of(plan->factor, block->exponents - 2 - plan->width);
    FOR_THREADS(block, t, THREADS)
    most = fmaxf(most, cells_write(transform, at_b, plan->dimension, scaling, t, THREADS, out));
    return most;
}

/* ---- three constant radices */

static void three_row_of(struct block *block, struct hrr_three s, const float *row, bool turned,
                         struct hrr_cell *cells)
{
    static struct hrr_registers x[256];
    const struct hrr_shape shape = {s.first, s.second * s.third, three_threads(s)};
    const float *roots = table(block, block->plan->roots);
    float most = 0.0f;
    FOR_THREADS(block, t, three_threads(s))
    most = fmaxf(most, shape_load(shape, row, turned, t, &x[t]));
    block->exponents += exponent_of(most);
    FOR_THREADS(block, t, three_threads(s))
    {
        shape_scale(shape, power_of_two(-exponent_of(most)), &x[t]);
        three_first(s, x[t].x, roots, t, cells);
    }
}

static float three_bind(struct block *block, const float *a, const float *b, bool turned,
                        float *out)
{
    const struct hrr_plan *plan = block->plan;
    const struct transform_plan *transform = &plan->transform;
    const struct hrr_three s = {transform->radix[0], transform->radix[1], transform->radix[2]};
    const float *roots = table(block, plan->roots);
    const float *second = roots + 2 * (s.first - 1) * s.second * s.third;
    struct hrr_cell *at_a = block->cells, *at_b = at_a + three_cells(s);
    static struct hrr_registers x[256];
    block->exponents = 0;
    three_row_of(block, s, a, false, at_a);
    three_row_of(block, s, b, turned, at_b);
    for (int side = 0; side < 2; side++) {
        FOR_THREADS(block, t, three_threads(s))
        three_second(s, second, t, side ? at_b : at_a);
        FOR_THREADS(block, t, three_threads(s))
        three_third(s, t, side ? at_b : at_a);
    }
    FOR_THREADS(block, t, three_threads(s))
    three_product(s, table(block, plan->product_roots), plan->product_step, t, at_a, at_b);
    FOR_THREADS(block, t, three_threads(s))
    three_gather(s, at_a, t, x[t].x);
    FOR_THREADS(block, t, three_threads(s))
    three_first(s, x[t].x, roots, t, at_b);
    FOR_THREADS(block, t, three_threads(s))
    three_second(s, second, t, at_b);
    float most = 0.0f;
    struct hrr_scaling scaling = scaling_of(plan->factor, block->exponents - 2 - plan->width);
    FOR_THREADS(block, t, three_threads(s))
    most = fmaxf(most, three_write(s, at_b, scaling, is_bounded(block->exponents), t, out));
    return most;
}

/* ---- against the reference */

static uint64_t compared;

/* shape NULL: any plan, and three constant radices where the card has them. */
static void assert_pair(const struct hrr_bench *bench, struct block *block,
                        const struct hrr_shape *shape, const float *a, const float *b, bool turned)
{
    uint32_t d = bench->d;
    float *expected = hrr_rows(d, 2), *found = expected + d;
    enum hrr_form form = turned ? HRR_UNBIND : HRR_BIND;
    struct hrr_fault fault = hrr_bench_pair(bench, &hrr_scalar, form, a, b, expected);
    const bool three = d == 4096 || d == 8192 || d == 16384;
    for (int way = 0; way < (!shape && three ? 2 : 1); way++) {
        float most = shape      ? short_bind(block, *shape, a, b, turned, found)
                     : way == 0 ? long_bind(block, a, b, turned, found)
                                : three_bind(block, a, b, turned, found);
        cr_assert_eq(most <= FLT_MAX, fault.status == HRR_OK);
        cr_assert(fault.status != HRR_OK || same_bits(expected, found, d), "dimension %u, way %d",
                  d, shape ? -1 : way);
        compared += d;
    }
    free(expected);
}

/* shape NULL: every pass through memory. */
static void assert_dimension(uint32_t d, const struct hrr_shape *shape, uint32_t pairs)
{
    struct hrr_bench bench = hrr_bench_create(d);
    struct block block = {.plan = bench.plan, .order = d};
    uint32_t cells = shape ? shape_cells(*shape) : cells_count(&bench.plan->transform);
    const struct transform_plan *plan = &bench.plan->transform;
    if (!shape && d >= 4096 && plan->passes == 3) /* as large as the larger of both ways */
        cells =
            cells > three_cells((struct hrr_three){plan->radix[0], plan->radix[1], plan->radix[2]})
                ? cells
                : three_cells((struct hrr_three){plan->radix[0], plan->radix[1], plan->radix[2]});
    block.cells = hrr_memory(2 * cells * sizeof *block.cells);
    float *rows = hrr_rows(d + 1, 2), *b = rows + (d + 1) / 2 * 2;
    for (uint32_t i = 0; i < pairs; i++) {
        hrr_case_fill((enum hrr_case)(i % HRR_CASES), d, d * 1000 + i, rows);
        hrr_case_fill((enum hrr_case)(i * 7 / 10 % HRR_CASES), d, d * 2000 + i, b);
        if (i == 11) /* a result that is not finite */
            rows[d / 2] = b[d / 3] = 0x1p127f;
        assert_pair(&bench, &block, shape, rows, b, i % 2);
    }
    free(rows), free(block.cells);
    hrr_bench_destroy(&bench);
}

Test(hrr_phases, shape_bind_equals_scalar, .timeout = 300)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        assert_dimension(2 * shapes[i].first * shapes[i].second, &shapes[i], PAIRS);
    printf("hrr_phases: %llu numbers compared, 0 differ\n", (unsigned long long)compared);
}

/* The exact inverse of pairs, and products of 2 to 5 rows. */
static void assert_others(uint32_t d, uint32_t times)
{
    enum { ROWS = 5 };
    struct hrr_bench bench = hrr_bench_create(d);
    struct block block = {.plan = bench.plan, .order = d};
    const size_t step = (d + 1) / 2 * 2;
    block.cells = hrr_memory(2 * cells_count(&bench.plan->transform) * sizeof *block.cells);
    float *all = hrr_rows((uint32_t)step, ROWS + 2), *want = all + ROWS * step, *got = want + step;
    const float *rows[ROWS];
    for (uint32_t i = 0; i < times; i++) {
        for (uint32_t n = 0; n < ROWS; n++) {
            rows[n] = all + n * step;
            hrr_case_fill((enum hrr_case)((i + n * (i / HRR_CASES + 1)) % HRR_CASES), d,
                          d * 3000 + i * ROWS + n, all + n * step);
        }
        struct hrr_product many = {.plan = bench.plan,
                                   .scratch = bench.scratch,
                                   .rows = rows,
                                   .count = 2 + i % 4,
                                   .out = want};
        bool is_sound = hrr_scalar.many(&many).status == HRR_OK;
        float most = long_product(&block, rows, 2 + i % 4, got);
        cr_assert_eq(most <= FLT_MAX, is_sound, "dimension %u, product %u", d, i);
        cr_assert(!is_sound || same_bits(want, got, d), "dimension %u, product %u", d, i);
        compared += d;
        if (!hrr_has_plan(d)) continue;
        is_sound =
            hrr_bench_pair(&bench, &hrr_scalar, HRR_UNBIND_EXACT, rows[0], rows[1], want).status ==
            HRR_OK;
        most = long_divide(&block, rows[0], rows[1], got);
        cr_assert_eq(most <= FLT_MAX, is_sound, "dimension %u, quotient %u", d, i);
        cr_assert(!is_sound || same_bits(want, got, d), "dimension %u, quotient %u", d, i);
        compared += d;
    }
    free(all), free(block.cells);
    hrr_bench_destroy(&bench);
}

Test(hrr_phases, quotients_and_products_equal_scalar, .timeout = 300)
{
    for (uint32_t d = 1; d <= 70; d++)
        assert_others(d, 4 * HRR_CASES);
    for (size_t i = 0; i < sizeof long_dimensions / sizeof *long_dimensions; i++)
        assert_others(long_dimensions[i], long_dimensions[i] < 4096 ? 12 : 4);
    printf("hrr_phases: %llu numbers compared, 0 differ\n", (unsigned long long)compared);
}

Test(hrr_phases, cells_bind_equals_scalar_short, .timeout = 300)
{
    for (uint32_t d = 1; d <= 70; d++)
        assert_dimension(d, NULL, PAIRS);
    printf("hrr_phases: %llu numbers compared, 0 differ\n", (unsigned long long)compared);
}

Test(hrr_phases, cells_bind_equals_scalar_long, .timeout = 300)
{
    for (size_t i = 0; i < sizeof long_dimensions / sizeof *long_dimensions; i++)
        assert_dimension(long_dimensions[i], NULL, long_dimensions[i] < 4096 ? 12 : 3);
    printf("hrr_phases: %llu numbers compared, 0 differ\n", (unsigned long long)compared);
}
