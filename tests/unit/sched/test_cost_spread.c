/* What spreads are predicted to take by a daemon that has seen none. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "daemon/sched/cost.h"

static double predicted(const struct cost_model *m, enum backend_id b, const struct work *w)
{
    return (double)cost_predict(m, b, w).ns;
}

/* So many sets of so many nodes and edges each. */
static struct work spread(enum operation operation, uint64_t sets, uint64_t nodes, uint64_t edges)
{
    return (struct work){.operation = operation,
                         .stride = 2,
                         .k = 10,
                         .gpu_able = true,
                         .unbounded = true,
                         .queries = sets,
                         .rows = nodes,
                         .pairs = sets * edges,
                         .bytes_in = sets * 32,
                         .bytes_out = sets * 240};
}

/* Beside 16 workers: what takes them some 100 us is theirs, what takes them many ms the GPU's; many
 * sets take much less than as many requests, wherever. */
Test(cost_spread, spreads_go_where_they_are_done_sooner)
{
    struct cost_model *m = malloc(sizeof *m);
    cr_assert(m);
    cost_init(m, 16);
    for (int engram = 0; engram < 2; engram++) {
        enum operation operation = engram ? OPERATION_SPREAD_ENGRAM : OPERATION_SPREAD;
        struct work little = spread(operation, 256, 27, 24);
        struct work more = spread(operation, 4096, 2000, 16000);
        struct work dense = spread(operation, 1, 1000000, 32000000);
        double cpu = predicted(m, BACKEND_CPU, &little);
        cr_assert(cpu * 1.5 < predicted(m, BACKEND_GPU, &little));
        cr_assert(predicted(m, BACKEND_GPU, &more) * 1.5 < predicted(m, BACKEND_CPU, &more));
        cr_assert(predicted(m, BACKEND_GPU, &dense) * 1.5 < predicted(m, BACKEND_CPU, &dense));
        for (uint64_t nodes = 30; nodes <= 200; nodes += 170) {
            struct work one = spread(operation, 1, nodes, nodes * 8);
            struct work many = spread(operation, 256, nodes, nodes * 8);
            for (int b = BACKEND_CPU; b <= BACKEND_GPU; b++)
                cr_assert_gt(256 * predicted(m, (enum backend_id)b, &one),
                             8 * predicted(m, (enum backend_id)b, &many), "%d: %u nodes", b,
                             (unsigned)nodes);
        }
        for (uint64_t sets = 1; sets < 4096; sets *= 2)
            for (int b = BACKEND_CPU; b <= BACKEND_GPU; b++) {
                struct work few = spread(operation, sets, 200, 1500);
                struct work twice = spread(operation, 2 * sets, 200, 1500);
                cr_assert_gt(predicted(m, (enum backend_id)b, &twice),
                             predicted(m, (enum backend_id)b, &few));
            }
    }
    free(m);
}

/* A search and then a spread: as long as both, and what it took is learnt by both alike. */
Test(cost_spread, a_job_in_stages_is_the_sum_of_them)
{
    struct cost_model *m = malloc(sizeof *m);
    cr_assert(m);
    cost_init(m, 2);
    const struct work after = spread(OPERATION_SPREAD_ENGRAM, 1, 400, 4000);
    struct work search = {.operation = OPERATION_KNN,
                          .stride = 768,
                          .k = 100,
                          .unbounded = true,
                          .queries = 1,
                          .rows = 20000,
                          .pairs = 20000};
    struct work both = search, alone = after;
    both.after = (struct work_after){.operation = after.operation,
                                     .stride = after.stride,
                                     .queries = after.queries,
                                     .rows = after.rows,
                                     .pairs = after.pairs};
    alone.bytes_in = alone.bytes_out = 0; /* those are the search's */
    alone.k = 0;
    double first = predicted(m, BACKEND_CPU, &search), then = predicted(m, BACKEND_CPU, &alone);
    double sum = predicted(m, BACKEND_CPU, &both);
    cr_assert(sum > first && sum > then);
    cr_assert_float_eq(sum, first + then, 2);
    for (int i = 0; i < 200; i++)
        cost_observe(m, BACKEND_CPU, &both, (uint64_t)(3 * sum), (uint64_t)(3 * sum));
    cr_assert_float_eq(predicted(m, BACKEND_CPU, &both) / sum, 3, 0.2);
    cr_assert_float_eq(predicted(m, BACKEND_CPU, &search) / first, 3, 0.3);
    cr_assert_float_eq(predicted(m, BACKEND_CPU, &alone) / then, 3, 0.3);
    free(m);
}
