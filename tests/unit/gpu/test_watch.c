/* What the GPU process foresees of a pass: its own part of the order's time. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/gpu/run.h"
#include "daemon/gpu/watch.h"
#include "kernels/covariance.h"

enum { FORESEEN_NS = 10000000 };

static uint64_t read_now(void *owner)
{
    (void)owner;
    return 1;
}

static const struct clock stopped = {read_now, NULL};
static struct gpu gpu = {.clock = &stopped};

static struct task make(const struct run_kind *kind, enum order_kind order)
{
    return (struct task){.kind = kind, .order = {.kind = order, .foreseen_ns = FORESEEN_NS}};
}

static double foreseen(struct task *t)
{
    watch_launched(&gpu, t);
    return (double)t->foreseen_ns / FORESEEN_NS;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-3;
}

Test(watch, pass_of_a_covariance_is_its_tiles_of_its_blocks)
{
    struct task t = make(&run_covariance, ORDER_RUN);
    t.order.run.dimension = 5 * CUDA_COVARIANCE_TILE - 1;
    t.order.run.list_count = 7 * COVARIANCE_BLOCK - 1;
    t.pass_queries = 4;     /* of 15 tiles */
    t.pass_queries_max = 3; /* of 7 blocks */
    double sum = 0;
    int passes = 0;
    do {
        double part = foreseen(&t);
        cr_assert_gt(part, 0);
        sum += part;
        passes++;
        t.rounds_done++;
    } while (run_covariance.next(&gpu, &t));
    cr_assert_eq(passes, 4 * 3);
    cr_assert(near(sum, 1), "%f", sum);
}

Test(watch, pass_of_queries_is_so_many_of_them)
{
    static const struct run_kind *const kinds[] = {&run_knn, &run_scores, &run_cleanup,
                                                   &run_product, &run_complete_engine};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct task t = make(kinds[i], ORDER_RUN);
        t.order.run.query_count = 40;
        t.pass_queries = 10;
        cr_assert(near(foreseen(&t), 0.25), "%zu", i);
    }
}

Test(watch, round_of_a_completion_is_one_of_so_many)
{
    struct task t = make(&run_complete, ORDER_RUN);
    t.order.run.query_count = 40;
    t.order.run.k = 5;
    t.pass_queries = 20;
    cr_assert(near(foreseen(&t), 0.1));
}

/* One row is bound to each of many. */
Test(watch, pass_of_pairs_is_so_many_of_them)
{
    struct task t = make(&run_bind, ORDER_RUN);
    t.order.run.query_count = t.order.run.list_count = 1;
    t.order.run.other.count = 1000;
    t.pass_queries = 100;
    cr_assert(near(foreseen(&t), 0.1), "%f", foreseen(&t));
}

/* Of the sets that are left as much as a pass is long. */
Test(watch, pass_of_a_spread_is_as_long_as_passes_are)
{
    struct task t = make(&run_spread, ORDER_SPREAD);
    t.order.spread.set_count = t.sets_left = 100;
    t.plan.paced = true;
    cr_assert(near(foreseen(&t), (double)ORDER_PASS_NS / FORESEEN_NS), "%f", foreseen(&t));
    t.sets_left = 1;
    cr_assert(near(foreseen(&t), 0.01), "%f", foreseen(&t));
}

/* An order of a spread has other members where those of a run are. */
Test(watch, what_has_one_pass_is_foreseen_as_a_whole)
{
    struct task t = make(&run_spread, ORDER_SPREAD);
    memset(&t.order.spread, 0xFF, sizeof t.order.spread);
    t.sets_left = t.order.spread.set_count;
    t.pass_queries = 1;
    cr_assert(near(foreseen(&t), 1));
    t = make(&run_superpose, ORDER_RUN);
    cr_assert(near(foreseen(&t), 1));
    t = make(&run_knn, ORDER_RUN);
    t.order.foreseen_ns = 0;
    t.order.run.query_count = t.pass_queries = 8;
    cr_assert_eq(foreseen(&t), 0);
}
