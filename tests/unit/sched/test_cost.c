/* The cost model: what it starts from, what it learns of runs, and what it does not. */
#include "daemon/base/clock.h"
#include "daemon/sched/cost.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct cost_model *make_model(uint32_t workers)
{
    struct cost_model *m = malloc(sizeof *m);
    cr_assert(m);
    cost_init(m, workers);
    return m;
}

static struct work knn(uint64_t rows, uint64_t queries)
{
    return (struct work){
        .operation = OPERATION_KNN,
        .stride = 768,
        .k = 10,
        .gpu_able = true,
        .queries = queries,
        .rows = rows,
        .pairs = rows * queries,
        .bytes_in = queries * 3072,
        .bytes_out = queries * 120,
    };
}

static const struct {
    uint64_t rows, queries;
} sizes[] = {{1, 1},  {60, 2},    {10, 4},    {100, 1},   {3000, 1},    {100000, 1}, {1000000, 1},
             {40, 6}, {2000, 12}, {50000, 5}, {300, 100}, {20000, 100}, {700, 600},  {60000, 1000}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static struct work of_size(uint32_t i)
{
    return knn(sizes[i].rows, sizes[i].queries);
}

static double predicted(const struct cost_model *m, enum backend_id b, const struct work *w)
{
    return (double)cost_predict(m, b, w).ns;
}

static void see(struct cost_model *m, enum backend_id b, const struct work *w, double ns)
{
    cost_observe(m, b, w, (uint64_t)ns, (uint64_t)ns);
}

/* A machine of 16 cores that is affine, as calibration could find it: brief work has one of them,
 * which reads a sixth of what all can. */
static double affine_ns(const struct work *w)
{
    bool brief = work_is_brief(w);
    return (brief ? 5e3 : 30e3) + (double)w->rows * w->stride * 4 * (brief ? 6 : 1) / 60 +
           (double)w->pairs * w->stride * (brief ? 16 : 1) / 500 + (double)w->queries * 90 +
           (double)(w->bytes_in + w->bytes_out) / 7;
}

static void fit(struct cost_model *m, double times)
{
    struct cost_sample samples[SIZES];
    for (uint32_t i = 0; i < SIZES; i++)
        samples[i] = (struct cost_sample){of_size(i), 0};
    for (uint32_t i = 0; i < SIZES; i++)
        samples[i].ns = (uint64_t)(times * affine_ns(&samples[i].work));
    cost_fit(m, BACKEND_CPU, OPERATION_KNN, samples, SIZES);
}

#define assert_near(seen, wanted, part, ...) \
    cr_assert_leq(fabs((seen) / (wanted)-1), (part), __VA_ARGS__)

/* ---------------------------------------------------------------- the start */

Test(cost, what_is_built_in_makes_sense)
{
    static const uint32_t workers[] = {0, 1, 2, 16, 128};
    static const uint32_t operations[] = {OPERATION_KNN, OPERATION_SIMILARITY, OPERATION_UPSERT,
                                          OPERATION_SCORE_CANDIDATES, OPERATION_WEIGHTED_AVERAGE};
    for (uint32_t n = 0; n < 5; n++) {
        struct cost_model *m = make_model(workers[n]);
        cr_assert(!m->calibrated);
        for (uint32_t o = 0; o < 5; o++)
            for (enum backend_id b = BACKEND_CPU; b <= BACKEND_GPU; b++) {
                uint64_t before = 0;
                for (uint64_t rows = 1; rows <= 1000000; rows *= 10) {
                    struct work w = knn(rows, 16);
                    w.operation = operations[o];
                    struct prediction p = cost_predict(m, b, &w);
                    cr_assert_geq(p.ns, b == BACKEND_GPU ? 30000 : 1000);
                    cr_assert_gt(p.ns, before);
                    cr_assert(p.busy_ns >= 1 && p.busy_ns <= p.ns);
                    cr_assert(p.confidence >= 0 && p.confidence < 0.5, "%.2f",
                              (double)p.confidence);
                    before = p.ns;
                }
            }
        struct work least = knn(1, 1), most = knn(1000000, 1000), none = {0};
        cr_assert_lt(predicted(m, BACKEND_CPU, &least), predicted(m, BACKEND_GPU, &least));
        cr_assert_gt(predicted(m, BACKEND_CPU, &most), predicted(m, BACKEND_GPU, &most));
        cr_assert_geq(cost_predict(m, BACKEND_CPU, &none).ns, 1);
        free(m);
    }
}

Test(cost, more_workers_are_faster)
{
    struct cost_model *few = make_model(2), *many = make_model(16);
    struct work w = knn(1000000, 100);
    cr_assert_lt(predicted(many, BACKEND_CPU, &w) * 6, predicted(few, BACKEND_CPU, &w));
    free(few);
    free(many);
}

Test(cost, lines_are_apart)
{
    struct cost_model *m = make_model(16);
    cr_assert_eq(cost_line_of(OPERATION_KNN), cost_line_of(OPERATION_KNN_BATCH));
    cr_assert_eq(cost_line_of(OPERATION_UPSERT), cost_line_of(OPERATION_FETCH));
    cr_assert_neq(cost_line_of(OPERATION_SPREAD), cost_line_of(OPERATION_SPREAD_ENGRAM));
    cr_assert_neq(cost_line_of(OPERATION_SPREAD), cost_line_of(OPERATION_FETCH));
    for (uint32_t o = 0; o < OPERATION_MAX; o++)
        cr_assert_lt(cost_line_of(o), (uint32_t)COST_OPERATIONS);
    struct work w = knn(1000, 1), other = w;
    other.operation = OPERATION_SIMILARITY;
    double before = predicted(m, BACKEND_CPU, &other), gpu = predicted(m, BACKEND_GPU, &w);
    for (uint32_t i = 0; i < 20; i++)
        see(m, BACKEND_CPU, &w, 1e6);
    cr_assert_eq(predicted(m, BACKEND_CPU, &other), before);
    cr_assert_eq(predicted(m, BACKEND_GPU, &w), gpu);
    free(m);
}

Test(cost, huge_numbers_are_only_long)
{
    struct cost_model *m = make_model(16);
    struct work w = knn(UINT32_MAX, UINT32_MAX);
    w.stride = 1 << 20;
    w.bytes_in = w.bytes_out = UINT64_MAX;
    for (uint32_t i = 0; i < 50; i++) {
        struct prediction p = cost_predict(m, BACKEND_GPU, &w);
        cr_assert(p.ns >= 1 && p.busy_ns >= 1 && p.busy_ns <= p.ns);
        cr_assert(p.confidence >= 0 && p.confidence <= 1);
        cost_observe(m, BACKEND_GPU, &w, i % 2 ? 1 : UINT64_MAX, i % 2 ? 1 : UINT64_MAX);
    }
    free(m);
}

/* ---------------------------------------------------------------- learning */

Test(cost, what_is_seen_often_is_predicted_surely)
{
    struct cost_model *m = make_model(16);
    struct work w = knn(5000, 3);
    double wanted = 3.3 * predicted(m, BACKEND_GPU, &w);
    double sure = cost_predict(m, BACKEND_GPU, &w).confidence;
    for (uint32_t i = 0; i < 30; i++)
        see(m, BACKEND_GPU, &w, wanted * (i % 2 ? 1.05 : 0.95));
    assert_near(predicted(m, BACKEND_GPU, &w), wanted, 0.1, "not learnt");
    cr_assert_gt(cost_predict(m, BACKEND_GPU, &w).confidence, 0.9);
    cr_assert_lt(sure, 0.3);
    free(m);
}

/* Their mean is what is predicted: that one knows, but later. */
Test(cost, erratic_times_take_longer_to_be_sure_of)
{
    struct cost_model *steady = make_model(16), *erratic = make_model(16);
    struct work w = knn(5000, 3);
    float before = cost_predict(erratic, BACKEND_GPU, &w).confidence;
    for (uint32_t i = 0; i < 6; i++) {
        see(steady, BACKEND_GPU, &w, 3e5);
        see(erratic, BACKEND_GPU, &w, i % 2 ? 1e6 : 1e5);
    }
    cr_assert_lt(cost_predict(erratic, BACKEND_GPU, &w).confidence,
                 cost_predict(steady, BACKEND_GPU, &w).confidence);
    for (uint32_t i = 0; i < 200; i++)
        see(erratic, BACKEND_GPU, &w, i % 2 ? 1e6 : 1e5);
    cr_assert_gt(cost_predict(erratic, BACKEND_GPU, &w).confidence, before);
    free(steady);
    free(erratic);
}

Test(cost, the_whole_machine_is_learnt_from_cold)
{
    struct cost_model *m = make_model(16);
    for (uint32_t i = 0; i < 20 * SIZES; i++) {
        struct work w = of_size(i % SIZES);
        see(m, BACKEND_CPU, &w, affine_ns(&w));
    }
    for (uint32_t i = 0; i < SIZES; i++) {
        struct work w = of_size(i), between = knn(sizes[i].rows * 2, sizes[i].queries);
        assert_near(predicted(m, BACKEND_CPU, &w), affine_ns(&w), 0.1, "size %u", i);
        assert_near(predicted(m, BACKEND_CPU, &between), affine_ns(&between), 0.3, "size %u", i);
    }
    free(m);
}

/* Sizes one after the other; times: what the machine takes now. Returns the worst error after n. */
static double error_after(struct cost_model *m, uint32_t n, double times)
{
    double worst = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct work w = of_size(i * 5 % SIZES);
        see(m, BACKEND_CPU, &w, times * affine_ns(&w));
    }
    for (uint32_t i = 0; i < SIZES; i++) {
        struct work w = of_size(i);
        double off = fabs(log(predicted(m, BACKEND_CPU, &w) / (times * affine_ns(&w))));
        worst = off > worst ? off : worst;
    }
    return worst;
}

Test(cost, a_slow_backend_is_followed_within_ten_runs)
{
    struct cost_model *m = make_model(16);
    fit(m, 1);
    cr_assert_lt(error_after(m, 60, 1), 0.1);
    cr_assert_lt(error_after(m, 10, 10), 0.35, "10 x slower: off by %.2f", error_after(m, 0, 10));
    cr_assert_lt(error_after(m, 60, 10), 0.1);
    cr_assert_lt(error_after(m, 10, 1), 0.35, "back: off by %.2f", error_after(m, 0, 1));
    cr_assert_lt(error_after(m, 60, 1), 0.1);
    free(m);
}

Test(cost, one_accident_changes_little)
{
    struct cost_model *m = make_model(16);
    fit(m, 1);
    error_after(m, 60, 1);
    struct work w = of_size(4);
    see(m, BACKEND_CPU, &w, 50 * affine_ns(&w));
    cr_assert_lt(error_after(m, 0, 1), 0.15, "off by %.2f", error_after(m, 0, 1));
    cr_assert_lt(error_after(m, 30, 1), 0.1);
    free(m);
}

Test(cost, what_lasts_at_one_size_stays_there)
{
    struct cost_model *m = make_model(16);
    fit(m, 1);
    error_after(m, 60, 1);
    struct work odd = knn(8000000, 1); /* of no other's octave */
    for (uint32_t i = 0; i < 600; i++) {
        struct work w = i % 4 ? of_size(i % SIZES) : odd;
        see(m, BACKEND_CPU, &w, (i % 4 ? 1 : 2) * affine_ns(&w));
    }
    assert_near(predicted(m, BACKEND_CPU, &odd), 2 * affine_ns(&odd), 0.2, "the odd one");
    for (uint32_t i = 0; i < SIZES; i++) {
        struct work w = of_size(i);
        if (sizes[i].rows == 1000000) continue; /* its neighbour, in part */
        assert_near(predicted(m, BACKEND_CPU, &w), affine_ns(&w), 0.2, "size %u", i);
    }
    free(m);
}

Test(cost, a_neighbour_helps_where_nothing_was_seen)
{
    struct cost_model *m = make_model(16);
    fit(m, 1);
    struct work w = knn(20000, 6), near = knn(40000, 6), far = knn(20000, 600);
    for (uint32_t i = 0; i < 40; i++) {
        see(m, BACKEND_CPU, &w, 1.6 * affine_ns(&w));
        struct work other = of_size(i % 4); /* so that it is not all drift */
        see(m, BACKEND_CPU, &other, affine_ns(&other));
    }
    double near_off = predicted(m, BACKEND_CPU, &near) / affine_ns(&near);
    double far_off = predicted(m, BACKEND_CPU, &far) / affine_ns(&far);
    cr_assert(near_off > 1.2 && near_off < 1.7, "%.2f", near_off);
    cr_assert_lt(far_off, near_off, "%.2f", far_off);
    cr_assert_gt(cost_predict(m, BACKEND_CPU, &w).confidence,
                 cost_predict(m, BACKEND_CPU, &far).confidence);
    free(m);
}

/* Nothing goes out of bounds in time, and sizes not seen keep what was known of them. */
Test(cost, a_million_runs_of_one_size_spoil_nothing)
{
    struct cost_model *m = make_model(16);
    fit(m, 1);
    struct work w = knn(1000, 1);
    uint64_t chance = 1;
    for (uint32_t i = 0; i < 1000000; i++) {
        chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        see(m, BACKEND_CPU, &w, affine_ns(&w) * (0.9 + 0.2 * (double)(chance >> 40) / (1 << 24)));
    }
    assert_near(predicted(m, BACKEND_CPU, &w), affine_ns(&w), 0.1, "the one");
    for (uint32_t i = 0; i < SIZES; i++) {
        struct work other = of_size(i);
        assert_near(predicted(m, BACKEND_CPU, &other), affine_ns(&other), 0.35, "size %u", i);
    }
    cr_assert_lt(error_after(m, 60, 1), 0.15);
    free(m);
}

/* ---------------------------------------------------------------- brackets, nonsense */

Test(cost, a_bracket_tells_only_what_it_excludes)
{
    struct cost_model *m = make_model(16);
    fit(m, 1);
    struct work w = of_size(3);
    uint64_t ns = cost_predict(m, BACKEND_CPU, &w).ns;
    cost_observe(m, BACKEND_CPU, &w, ns / 2, ns * 2);
    cr_assert_eq(cost_predict(m, BACKEND_CPU, &w).ns, ns);
    for (uint32_t i = 0; i < 60; i++)
        cost_observe(m, BACKEND_CPU, &w, ns * 3, ns * 5);
    assert_near(predicted(m, BACKEND_CPU, &w), 3.0 * (double)ns, 0.1, "up to the bracket");
    for (uint32_t i = 0; i < 60; i++)
        cost_observe(m, BACKEND_CPU, &w, ns / 9, ns / 2);
    assert_near(predicted(m, BACKEND_CPU, &w), 0.5 * (double)ns, 0.1, "down to the bracket");
    free(m);
}

Test(cost, a_bracket_is_weaker_evidence_than_a_time)
{
    struct cost_model *told = make_model(16), *guessed = make_model(16);
    struct work w = of_size(3);
    fit(told, 1);
    fit(guessed, 1);
    uint64_t ns = cost_predict(told, BACKEND_CPU, &w).ns;
    cost_observe(told, BACKEND_CPU, &w, ns * 5 / 4, ns * 5 / 4);
    cost_observe(guessed, BACKEND_CPU, &w, ns * 5 / 4, ns * 2);
    cr_assert_gt(cost_predict(guessed, BACKEND_CPU, &w).ns, ns);
    cr_assert_gt(cost_predict(told, BACKEND_CPU, &w).ns, cost_predict(guessed, BACKEND_CPU, &w).ns);
    free(told);
    free(guessed);
}

Test(cost, what_runs_hold_up_is_learnt_when_they_overlap)
{
    struct cost_model *m = make_model(16);
    struct work w = of_size(3);
    for (uint32_t i = 0; i < 200; i++) {
        uint64_t ns = cost_predict(m, BACKEND_GPU, &w).ns;
        cost_observe(m, BACKEND_GPU, &w, ns / 4, ns * 2);
    }
    struct prediction p = cost_predict(m, BACKEND_GPU, &w);
    assert_near((double)p.busy_ns, (double)p.ns / 4, 0.05, "busy");
    see(m, BACKEND_GPU, &w, (double)p.ns); /* alone: tells nothing of it */
    p = cost_predict(m, BACKEND_GPU, &w);
    assert_near((double)p.busy_ns, (double)p.ns / 4, 0.05, "busy");
    free(m);
}

Test(cost, nonsense_is_not_learnt)
{
    struct cost_model *m = make_model(4), *before = make_model(4);
    struct work w = of_size(2);
    cost_observe(m, BACKEND_CPU, &w, 0, 0);
    cost_observe(m, BACKEND_CPU, &w, 10, 9);
    cost_observe_upload(m, 0, 5);
    cost_observe_upload(m, 5, 0);
    struct cost_sample some[8] = {{w, 100}, {w, 0}, {w, 0}, {w, 0}, {w, 0}, {w, 0}, {w, 0}, {w, 0}};
    cost_fit(m, BACKEND_CPU, OPERATION_KNN, some, 8);
    cost_fit(m, BACKEND_CPU, OPERATION_KNN, NULL, 0);
    cr_assert_eq(memcmp(m, before, sizeof *m), 0);
    free(m);
    free(before);
}

Test(cost, uploads_are_learnt)
{
    struct cost_model *m = make_model(16);
    cr_assert_eq(cost_upload_ns(m, 0), 0);
    for (uint32_t i = 0; i < 200; i++) {
        uint64_t bytes = i % 2 ? 1 << 12 : UINT64_C(1) << 30;
        cost_observe_upload(m, bytes, 200000 + bytes / 8);
    }
    assert_near((double)cost_upload_ns(m, 1 << 12), 200000.0 + 512, 0.1, "little");
    assert_near((double)cost_upload_ns(m, UINT64_C(1) << 31), 268.6e6, 0.1, "much");
    free(m);
}

/* ---------------------------------------------------------------- calibration */

Test(cost, calibration_finds_the_machine)
{
    static const double times[] = {0.05, 1, 40};
    for (uint32_t t = 0; t < 3; t++) {
        struct cost_model *m = make_model(16);
        fit(m, times[t]);
        cr_assert(m->calibrated);
        for (uint32_t i = 0; i < SIZES; i++) {
            struct work w = of_size(i);
            assert_near(predicted(m, BACKEND_CPU, &w), times[t] * affine_ns(&w), 0.1,
                        "size %u, times %.2f", i, times[t]);
            cr_assert_gt(cost_predict(m, BACKEND_CPU, &w).confidence, 0.5, "size %u", i);
        }
        const struct cost_line *l = &m->lines[0][cost_line_of(OPERATION_KNN)];
        for (uint32_t i = 0; i < COST_FEATURES; i++)
            cr_assert_geq(l->coefficients[i], 0);
        free(m);
    }
}

Test(cost, calibration_survives_an_accident_or_two)
{
    for (uint32_t hit = 0; hit < SIZES; hit++) {
        struct cost_model *m = make_model(16);
        struct cost_sample samples[SIZES];
        for (uint32_t i = 0; i < SIZES; i++) {
            samples[i].work = of_size(i);
            double ns = affine_ns(&samples[i].work);
            samples[i].ns = (uint64_t)(i == hit || i == (hit + 5) % SIZES ? 6 * ns : ns);
        }
        cost_fit(m, BACKEND_CPU, OPERATION_KNN, samples, SIZES);
        for (uint32_t i = 0; i < SIZES; i++) {
            struct work w = of_size(i);
            double off = fabs(log(predicted(m, BACKEND_CPU, &w) / affine_ns(&w)));
            cr_expect_lt(off, 0.05, "accident at %u: size %u off by %.2f", hit, i, off);
        }
        free(m);
    }
}

Test(cost, calibration_forgets_what_was_seen_before)
{
    struct cost_model *m = make_model(16);
    struct work w = of_size(3);
    for (uint32_t i = 0; i < 50; i++)
        see(m, BACKEND_CPU, &w, 1e9);
    fit(m, 1);
    assert_near(predicted(m, BACKEND_CPU, &w), affine_ns(&w), 0.1, "fitted");
    cr_assert_eq(m->lines[0][cost_line_of(OPERATION_KNN)].seen, 0);
    free(m);
}

/* ---------------------------------------------------------------- how runs end */

static void outcomes(struct cost_model *m, uint32_t count, uint32_t one_bad_in)
{
    for (uint32_t i = 1; i <= count; i++)
        cost_outcome(m, BACKEND_GPU, OPERATION_KNN, !one_bad_in || i % one_bad_in);
}

static double rate(const struct cost_model *m)
{
    return cost_success_rate(m, BACKEND_GPU, OPERATION_KNN);
}

Test(cost, success_is_of_late)
{
    struct cost_model *m = make_model(1);
    cr_assert_eq(rate(m), 1);
    outcomes(m, COST_OUTCOMES_MIN - 1, 1);
    cr_assert_eq(rate(m), 1, "too few say nothing");
    outcomes(m, 1, 1);
    cr_assert_lt(rate(m), 0.5);
    cr_assert_eq(cost_success_rate(m, BACKEND_CPU, OPERATION_KNN), 1);
    cr_assert_eq(cost_success_rate(m, BACKEND_GPU, OPERATION_SIMILARITY), 1);
    outcomes(m, COST_OUTCOMES_ANEW - 1, 0);
    cr_assert_lt(rate(m), 0.95);
    outcomes(m, 1, 0);
    cr_assert_eq(rate(m), 1, "it may begin anew");
    outcomes(m, 640, 2);
    cr_assert(rate(m) > 0.5 && rate(m) < 0.8, "%.3f", rate(m));
    outcomes(m, 640, 10);
    cr_assert(rate(m) > 0.95, "%.3f: one in ten may be chance", rate(m));
    outcomes(m, 640, 5);
    cr_assert(rate(m) < 0.95, "%.3f: one in five is not", rate(m));
    free(m);
}

Test(cost, the_crossover_is_where_the_gpu_begins_to_win)
{
    struct cost_model *m = make_model(16);
    for (uint64_t queries = 1; queries <= 1024; queries *= 4) {
        struct work like = knn(1000, queries);
        uint64_t rows = cost_crossover_rows(m, &like, 1000000);
        cr_assert(rows >= 1 && rows < 1000000, "%lu queries", (unsigned long)queries);
        struct work at = knn(rows, queries), below = knn(rows * 4 / 5, queries);
        cr_assert_lt(predicted(m, BACKEND_GPU, &at), predicted(m, BACKEND_CPU, &at));
        if (below.rows)
            cr_assert_geq(predicted(m, BACKEND_GPU, &below), predicted(m, BACKEND_CPU, &below));
        cr_assert_eq(cost_crossover_rows(m, &like, rows / 2), 0);
    }
    struct work like = knn(1000, 1);
    cr_assert_eq(cost_crossover_rows(m, &like, 0), 0);
    like.rows = like.pairs = 0;
    cr_assert_gt(cost_crossover_rows(m, &like, 1000000), 0, "an empty collection's, too");
    free(m);
}

/* A decision has 1 us for two of these and more: tests/bench/bench_sched.c measures that. */
Test(cost, predicts_whatever_the_size)
{
    struct cost_model *m = make_model(16);
    for (uint32_t i = 0; i < 1000; i++) {
        struct work w = knn(1 + i * 997, 1 + i % 256);
        cr_assert_gt(cost_predict(m, i % 2 ? BACKEND_CPU : BACKEND_GPU, &w).ns, 0);
    }
    free(m);
}
