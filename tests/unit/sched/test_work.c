/* What several requests as one, and rows in int8, make of work; and what the model makes of it. */
#include "daemon/sched/work.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "daemon/sched/cost.h"

static const double CODES = 768.0 / 3072; /* bytes of a row in int8, to those in float32 */

static struct work knn(uint64_t rows, uint64_t queries)
{
    return (struct work){.operation = OPERATION_KNN,
                         .stride = 768,
                         .k = 10,
                         .gpu_able = true,
                         .queries = queries,
                         .rows = rows,
                         .pairs = rows * queries,
                         .bytes_in = queries * 3072,
                         .bytes_out = queries * 120};
}

static struct work asked(struct work w, enum backend_id b, float part, float passed)
{
    w.screen[b == BACKEND_GPU] = (struct work_screen){part, passed};
    return w;
}

static struct cost_model *model_new(void)
{
    struct cost_model *m = malloc(sizeof *m);
    cr_assert(m);
    cost_init(m, 2);
    return m;
}

static double ns_of(const struct cost_model *m, enum backend_id b, struct work w)
{
    return (double)cost_predict(m, b, &w).ns;
}

static double part_read(struct work w)
{
    return work_row_bytes(&w, BACKEND_CPU) / ((double)w.rows * 3072);
}

static double part_multiplied(struct work w)
{
    return work_products(&w, BACKEND_CPU) / ((double)w.pairs * 768);
}

/* With what stands beside a code: scale, loss and length. */
static double codes_of_one(void)
{
    struct work w = asked(knn(1000, 1), BACKEND_CPU, 1, 0);
    return part_read(w);
}

Test(work, what_is_read_of_rows_in_int8)
{
    double codes = codes_of_one();
    cr_assert(codes >= CODES && codes < CODES + 0.01, "%g", codes);
    struct work one = knn(1000, 1), many = knn(1000, 20);
    cr_assert_eq(part_read(one), 1);
    cr_assert_eq(part_multiplied(one), 1);
    struct work tenth = asked(one, BACKEND_CPU, 1, 0.1F);
    cr_assert_float_eq(part_read(tenth), codes + 0.1, 1e-6);
    cr_assert_float_eq(part_multiplied(tenth), codes + 0.1, 1e-6);
    cr_assert_float_eq(part_read(asked(one, BACKEND_CPU, 0.5F, 0)), 0.5 + codes / 2, 1e-6);
    /* any of many queries may want a row, which is read once for them */
    cr_assert_float_eq(part_read(asked(many, BACKEND_CPU, 1, 0.01F)), codes + 0.2, 1e-6);
    cr_assert_float_eq(part_read(asked(many, BACKEND_CPU, 1, 0.1F)), codes + 1, 1e-6);
    cr_assert_float_eq(part_multiplied(asked(many, BACKEND_CPU, 1, 0.1F)), codes + 0.1, 1e-6);
    /* what is not a part of anything is none, or all */
    cr_assert_eq(part_read(asked(one, BACKEND_CPU, NAN, NAN)), 1);
    cr_assert_eq(part_read(asked(one, BACKEND_CPU, -1, 7)), 1);
    cr_assert_float_eq(part_read(asked(one, BACKEND_CPU, 9, NAN)), codes, 1e-6);
    /* what a card has in int8 is nothing to the CPU */
    struct work card = asked(one, BACKEND_GPU, 1, 0);
    cr_assert_eq(part_read(card), 1);
    cr_assert_float_eq(work_row_bytes(&card, BACKEND_GPU), codes * 1000 * 3072, 1);
}

Test(work, what_a_run_did_replaces_what_was_expected)
{
    struct work w = asked(asked(knn(1000, 4), BACKEND_CPU, 1, 0), BACKEND_GPU, 0.3F, 0.2F);
    struct job_screen did = {.queries = 4, .screened = 2000, .survived = 200};
    work_note_screen(&w, BACKEND_CPU, &did);
    cr_assert_float_eq(work_screen_on(&w, BACKEND_CPU).asked, 0.5, 1e-6);
    cr_assert_float_eq(work_screen_on(&w, BACKEND_CPU).passed, 0.1, 1e-6);
    cr_assert_float_eq(work_screen_on(&w, BACKEND_GPU).asked, 0.3, 1e-6);
    work_note_screen(&w, BACKEND_GPU, &(struct job_screen){0});
    cr_assert_eq(work_screen_on(&w, BACKEND_GPU).asked, 0);
    did = (struct job_screen){.screened = 9000, .survived = 90000}; /* nonsense */
    work_note_screen(&w, BACKEND_GPU, &did);
    cr_assert_eq(work_screen_on(&w, BACKEND_GPU).asked, 1);
    cr_assert_eq(work_screen_on(&w, BACKEND_GPU).passed, 1);
}

Test(work, one_that_asks_nothing_makes_all_ask_nothing)
{
    struct work a = asked(asked(knn(1000, 1), BACKEND_CPU, 0.9F, 0.1F), BACKEND_GPU, 1, 0);
    const struct work b = asked(knn(1000, 1), BACKEND_CPU, 1, 0.2F);
    work_merge(&a, &b);
    cr_assert_float_eq(work_screen_on(&a, BACKEND_CPU).asked, 0.9, 1e-6);
    cr_assert_float_eq(work_screen_on(&a, BACKEND_CPU).passed, 0.2, 1e-6);
    cr_assert_eq(work_screen_on(&a, BACKEND_GPU).asked, 0);
    const struct work part = work_part(&a, 1);
    cr_assert_float_eq(work_screen_on(&part, BACKEND_CPU).asked, 0.9, 1e-6);
}

/* Reading a quarter takes a quarter, as far as it is reading that takes the time. */
Test(work, rows_in_int8_are_predicted_before_they_are_seen)
{
    struct cost_model *m = model_new();
    for (enum backend_id b = BACKEND_CPU; b <= BACKEND_GPU; b++) {
        struct work all = knn(1000000, 1);
        double ratio = ns_of(m, b, asked(all, b, 1, 0.001F)) / ns_of(m, b, all);
        cr_assert(ratio > 0.25 && ratio < 0.5, "%d: %g", (int)b, ratio);
        cr_assert_eq(ns_of(m, b, asked(all, b == BACKEND_CPU ? BACKEND_GPU : BACKEND_CPU, 1, 0)),
                     ns_of(m, b, all), "the other one's are nothing to it");
    }
    free(m);
}

/* A pass through int8 that takes more than its bytes would, and one that takes less, are found, and
 * what is known of runs without it stays. */
static void learn_beside(enum backend_id b, double slower)
{
    struct cost_model *m = model_new(), *alone = model_new();
    static const uint64_t sizes[] = {20000, 100000, 500000};
    double guess = ns_of(m, b, knn(100000, 1)); /* so far off are built-in figures */
    for (int i = 0; i < 120; i++) {
        struct work all = knn(sizes[i % 3], 1), less = asked(all, b, 1, 0.002F);
        double part = work_row_bytes(&less, b) / work_row_bytes(&all, b);
        double ns = 30e3 + 1.4 * guess * (double)all.rows / 100000;
        uint64_t all_ns = (uint64_t)ns, less_ns = (uint64_t)(30e3 + (ns - 30e3) * part * slower);
        cost_observe(m, b, &all, all_ns, all_ns);
        cost_observe(m, b, &less, less_ns, less_ns);
        cost_observe(alone, b, &all, all_ns, all_ns);
    }
    for (int i = 0; i < 3; i++) {
        struct work all = knn(sizes[i], 1), less = asked(all, b, 1, 0.002F);
        double part = work_row_bytes(&less, b) / work_row_bytes(&all, b);
        double ns = 1.4 * guess * (double)all.rows / 100000;
        cr_assert_float_eq(ns_of(m, b, all) / (30e3 + ns), 1, 0.12);
        cr_assert_float_eq(ns_of(m, b, less) / (30e3 + ns * part * slower), 1, 0.15);
        cr_assert_float_eq(ns_of(m, b, all) / ns_of(alone, b, all), 1, 0.12);
    }
    /* A size that was never asked in int8 is foreseen by what the others say. */
    struct work all = knn(250000, 1), less = asked(all, b, 1, 0.002F);
    double part = work_row_bytes(&less, b) / work_row_bytes(&all, b);
    double ns = 1.4 * guess * (double)all.rows / 100000;
    cr_assert_float_eq(ns_of(m, b, less) / (30e3 + ns * part * slower), 1, 0.25);
    free(alone);
    free(m);
}

Test(work, both_kinds_are_learnt_beside_each_other)
{
    for (enum backend_id b = BACKEND_CPU; b <= BACKEND_GPU; b++) {
        learn_beside(b, 1.0);
        learn_beside(b, 1.8);
        learn_beside(b, 0.6);
    }
}
