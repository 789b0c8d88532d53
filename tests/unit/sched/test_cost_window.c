/* How many of the last runs a rate of success looks at (observe.window). */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "daemon/sched/cost.h"

static void outcomes(struct cost_model *m, uint32_t count, uint32_t one_bad_in)
{
    for (uint32_t i = 1; i <= count; i++)
        cost_outcome(m, BACKEND_GPU, OPERATION_KNN, i % one_bad_in);
}

/* Half of many runs went wrong, and of the last twenty one: that is all a short window sees. */
Test(cost_window, success_is_of_a_window_that_is_set)
{
    struct cost_model *m = malloc(sizeof *m);
    cost_init(m, 1);
    cr_assert_eq(m->window, COST_WINDOW);
    for (uint32_t window = COST_OUTCOMES_MIN; window <= COST_WINDOW_MAX; window += 67) {
        m->window = window;
        outcomes(m, 2 * COST_WINDOW_MAX, 2);
        for (uint32_t i = 0; i < 20; i++)
            cost_outcome(m, BACKEND_GPU, OPERATION_KNN, i != 10);
        double rate = cost_success_rate(m, BACKEND_GPU, OPERATION_KNN);
        cr_expect_eq(m->lines[1][COST_KNN].outcome_count, window);
        cr_expect(window > 20 ? rate < 0.95 : rate > 0.95, "%u: %.3f", window, rate);
    }
    m->window = 20; /* a shorter one holds at once */
    cr_expect_gt(cost_success_rate(m, BACKEND_GPU, OPERATION_KNN), 0.95);
    free(m);
}
