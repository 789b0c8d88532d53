/* How many states a round of completion has on a device (daemon/gpu/run_complete.h), beside what
 * the scheduler predicts that the round takes. */
#include <criterion/criterion.h>

#include "daemon/base/operations.h"
#include "daemon/gpu/replica.h"
#include "daemon/gpu/run_complete.h"
#include "daemon/heap/order.h"
#include "daemon/sched/cost.h"
#include "kernels/cuda/complete_cuda.h"
#include "tests/support/gpu_complete.h"

enum { H200 = 60000000 }; /* multiply-adds in a microsecond, as device_cuda.c says */

/* A round on a GPU by the built-in figures, without what a request costs besides. */
static uint64_t predicted_ns(const struct cost_model *m, uint64_t states, uint64_t rows, uint32_t d)
{
    const struct work none = {.operation = OPERATION_COMPLETE, .gpu_able = true};
    struct work w = none;
    w.stride = (uint32_t)vector_stride(d);
    w.queries = states, w.rows = rows, w.pairs = states * rows;
    return cost_time(m, BACKEND_GPU, &w).ns - cost_time(m, BACKEND_GPU, &none).ns;
}

static uint64_t next_of(uint64_t states)
{
    return states < 32 ? 2 * states : states + 32;
}

Test(run_complete, a_round_lasts_as_long_as_a_pass_may)
{
    static const uint64_t rows[] = {1, 1000, 50000, 100000, 300000, 500000, 1000000, 3000000};
    static const uint32_t dimensions[] = {1, 64, 384, 768, 1024, 2048};
    const uint64_t rate = run_complete_rate(H200);
    struct cost_model m;
    cost_init(&m, 16);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t k = 0; k < sizeof dimensions / sizeof *dimensions; k++) {
            uint32_t d = dimensions[k];
            uint64_t states = run_complete_states(rate, rows[i], d);
            uint64_t ns = predicted_ns(&m, states, rows[i], d);
            bool is_group = states == 8 || states == 16 || states % 32 == 0;
            cr_assert(is_group && states <= CUDA_COMPLETION_STATES_MAX, "%d", (int)states);
            cr_assert(ns <= 5000000 || states == 8, "%d states, %d rows of %u: %d us", (int)states,
                      (int)rows[i], d, (int)(ns / 1000));
            uint64_t more_ns = predicted_ns(&m, next_of(states), rows[i], d);
            cr_assert(states == CUDA_COMPLETION_STATES_MAX || more_ns > ORDER_PASS_NS * 9 / 10,
                      "%d states, %d rows of %u: %d us for more", (int)states, (int)rows[i], d,
                      (int)(more_ns / 1000));
        }
    }
}

Test(run_complete, on_an_h200)
{
    const uint64_t rate = run_complete_rate(H200);
    cr_assert_eq(run_complete_states(rate, 1000000, 768), 16); /* measured: 3.1 ms; 32 took 5.1 */
    cr_assert_eq(run_complete_states(rate, 100000, 768), 128);
    cr_assert_eq(run_complete_states(rate, 30000000, 768), 8);
    cr_assert_eq(run_complete_states(run_complete_rate(1), UINT64_C(1) << 32, 16384), 8);
    cr_assert_eq(run_complete_states(UINT64_C(1) << 40, 1, 1), CUDA_COMPLETION_STATES_MAX);
}

/* A device that is slower than it says is asked for less the next time. */
Test(run_complete, what_rounds_take_is_learnt)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=256 multiply_adds=100000000 latency_us=20000", 4);
    struct ask_rows r = ask_make(1, 1, 1, 64, 1200, 7);
    cr_assert_eq(peer_done(&p, peer_order(&p, ask_upload(&p, &r, true, 0, 1200))).result,
                 RESULT_OK);
    const uint64_t told = run_complete_rate(100000000);
    cr_assert_eq(replica_find(p.gpu, r.replica)->completes, 0);
    struct order o = complete_ask(&p, &r, 100, 2, true, false);
    cr_assert_eq(peer_done(&p, peer_order(&p, o)).result, RESULT_OK);
    cr_assert(complete_right(&p, &o, &r));
    const uint64_t learnt = replica_find(p.gpu, r.replica)->completes;
    cr_assert(learnt > 0 && learnt < told / 2 + told / 50, "%llu", (unsigned long long)learnt);
    ask_free(&r);
    peer_close(&p);
}
