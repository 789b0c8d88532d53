/* pick_backend: without predictions over every input there is, against rules said another way, one
 * at a time; with them, what decides and by how much. */
#include "daemon/sched/choose_backend.h"

#include <criterion/criterion.h>

enum { INPUTS = 3 * 12 * 2 * 2 * 2 * 2 * 2 * 3 };

static unsigned digit(unsigned *number, unsigned base)
{
    unsigned d = *number % base;
    *number /= base;
    return d;
}

static struct pick_input input(unsigned number)
{
    static const uint64_t pairs[] = {0, 63, 64};
    struct pick_input in = {.pairs_min = 64};
    in.force = (enum force)digit(&number, 3);
    in.gave_up = (enum reason)digit(&number, 12);
    in.gpu_absent = digit(&number, 2);
    in.gpu_down = digit(&number, 2);
    in.gpu_full = digit(&number, 2);
    in.replica_ready = digit(&number, 2);
    in.replica_refused = digit(&number, 2);
    in.pairs = pairs[digit(&number, 3)];
    return in;
}

static bool could_run(const struct pick_input *in)
{
    return !in->gave_up && !in->gpu_absent && !in->gpu_down && !in->gpu_full &&
           !in->replica_refused && in->pairs;
}

Test(pick, the_gpu_gets_what_it_can_and_should_do)
{
    unsigned on_gpu = 0;
    for (unsigned i = 0; i < INPUTS; i++) {
        struct pick_input in = input(i);
        struct pick p = pick_backend(&in);
        bool should = in.force == FORCE_GPU ||
                      (in.force == FORCE_NONE && in.replica_ready && in.pairs >= in.pairs_min);
        cr_assert_eq(p.backend == BACKEND_GPU, could_run(&in) && should, "input %u", i);
        cr_assert(p.backend == BACKEND_GPU || p.backend == BACKEND_CPU, "input %u", i);
        cr_assert_neq(p.reason, REASON_NONE, "input %u has no reason", i);
        on_gpu += p.backend == BACKEND_GPU;
    }
    cr_assert_eq(on_gpu, 5); /* forced: ready or not, 63 or 64 pairs; else ready and 64 */
}

/* Each reason is true of the input that it explains. */
Test(pick, every_reason_is_so)
{
    bool seen[REASON_PROBE + 1] = {0};
    for (unsigned i = 0; i < INPUTS; i++) {
        struct pick_input in = input(i);
        struct pick p = pick_backend(&in);
        bool forced = in.force == FORCE_GPU, so = false;
        if (in.gave_up) {
            cr_assert_eq(p.reason, in.gave_up, "input %u", i);
            continue;
        }
        switch (p.reason) {
        case REASON_GPU_ABSENT: so = in.gpu_absent; break;
        case REASON_FORCED:
            so = in.force == (p.backend == BACKEND_GPU ? FORCE_GPU : FORCE_CPU);
            break;
        case REASON_GPU_DOWN: so = in.gpu_down; break;
        case REASON_BELOW_MIN_BATCH: so = !forced && in.pairs < in.pairs_min; break;
        case REASON_VRAM_PRESSURE: so = in.replica_refused; break;
        case REASON_PREDICTED_SLOWER: so = !forced && !in.replica_ready; break;
        case REASON_QUEUE_FULL: so = in.gpu_full; break;
        case REASON_CHOSEN_FASTER: so = p.backend == BACKEND_GPU || !in.pairs; break;
        default: break;
        }
        cr_assert(so, "input %u: reason %d", i, p.reason);
        seen[p.reason] = true;
    }
    for (int r = REASON_CHOSEN_FASTER; r <= REASON_FORCED; r++)
        cr_assert(seen[r] || r == REASON_LOW_SUCCESS_RATE, "reason %d is never given", r);
}

Test(pick, what_will_last_is_said_first)
{
    struct pick_input in = {.gpu_absent = true, .gpu_down = true, .pairs = 1, .pairs_min = 2};
    cr_assert_eq(pick_backend(&in).reason, REASON_GPU_ABSENT);
    in.force = FORCE_CPU;
    cr_assert_eq(pick_backend(&in).reason, REASON_GPU_ABSENT);
    in.gpu_absent = false;
    cr_assert_eq(pick_backend(&in).reason, REASON_FORCED);
    in.force = FORCE_NONE;
    cr_assert_eq(pick_backend(&in).reason, REASON_GPU_DOWN);
    in.pairs = 0;
    cr_assert_eq(pick_backend(&in).reason, REASON_CHOSEN_FASTER);
    in.pairs = 1;
    in.gpu_down = false;
    in.replica_refused = true;
    cr_assert_eq(pick_backend(&in).reason, REASON_BELOW_MIN_BATCH);
}

/* ---------------------------------------------------------------- with predictions */

/* A request that both could have, the GPU twice as fast. */
static struct pick_input both(void)
{
    return (struct pick_input){
        .replica_ready = true,
        .pairs = 1000,
        .pairs_min = 64,
        .cpu = {.ns = 200000, .busy_ns = 200000, .confidence = 1},
        .gpu = {.ns = 100000, .busy_ns = 100000, .confidence = 1},
        .speedup_min = 1.5,
        .success_rate = 1,
        .success_min = 0.95,
    };
}

static void expect(const struct pick_input *in, enum backend_id backend, enum reason reason,
                   bool open)
{
    struct pick p = pick_backend(in);
    cr_expect(p.backend == backend && p.reason == reason && p.open == open,
              "backend %d, reason %d, %s", p.backend, p.reason, p.open ? "open" : "not open");
}

Test(pick, the_faster_has_it_and_the_other_may_be_probed)
{
    struct pick_input in = both();
    expect(&in, BACKEND_GPU, REASON_CHOSEN_FASTER, true);
    in.cpu.ns = 99999;
    expect(&in, BACKEND_CPU, REASON_PREDICTED_SLOWER, true);
    in.cpu.ns = 100000;
    expect(&in, BACKEND_GPU, REASON_CHOSEN_FASTER, true);
    in.cpu.ns = 0;
    expect(&in, BACKEND_GPU, REASON_CHOSEN_FASTER, false);
}

Test(pick, waits_and_uploads_count)
{
    struct pick_input in = both();
    in.gpu_wait_ns = 100001;
    expect(&in, BACKEND_CPU, REASON_PREDICTED_SLOWER, true);
    in.cpu_wait_ns = 1;
    expect(&in, BACKEND_GPU, REASON_CHOSEN_FASTER, true);
    in.upload_ns = 1;
    expect(&in, BACKEND_CPU, REASON_PREDICTED_SLOWER, true);
    in.cpu_wait_ns = UINT64_MAX;
    expect(&in, BACKEND_GPU, REASON_CHOSEN_FASTER, true);
    in.gpu_wait_ns = in.upload_ns = in.gpu.ns = UINT64_MAX;
    expect(&in, BACKEND_CPU, REASON_PREDICTED_SLOWER, true);
}

Test(pick, a_guess_must_promise_more)
{
    struct pick_input in = both();
    in.gpu.confidence = 0;
    in.cpu.ns = 149999;
    expect(&in, BACKEND_CPU, REASON_PREDICTED_SLOWER, true);
    in.cpu.ns = 150000;
    expect(&in, BACKEND_GPU, REASON_CHOSEN_FASTER, true);
    in.gpu.confidence = 1;
    in.cpu.confidence = 0.5;
    in.cpu.ns = 124999;
    expect(&in, BACKEND_CPU, REASON_PREDICTED_SLOWER, true);
    in.cpu.ns = 125000;
    expect(&in, BACKEND_GPU, REASON_CHOSEN_FASTER, true);
    /* Of the run alone: a long line at the CPU weighs as what it is. */
    in.gpu.confidence = 0;
    in.cpu_wait_ns = 1000000;
    in.gpu_wait_ns = 900000;
    in.cpu.ns = 50000;
    expect(&in, BACKEND_GPU, REASON_CHOSEN_FASTER, true);
    in.speedup_min = 0; /* not set */
    in.cpu_wait_ns = in.gpu_wait_ns = 0;
    in.cpu.ns = 100000;
    expect(&in, BACKEND_GPU, REASON_CHOSEN_FASTER, true);
}

Test(pick, floors_come_before_predictions)
{
    struct pick_input in = both();
    in.pairs = 63;
    expect(&in, BACKEND_CPU, REASON_BELOW_MIN_BATCH, false);
    in = both();
    in.vram_low = true;
    expect(&in, BACKEND_CPU, REASON_VRAM_PRESSURE, false);
    in = both();
    in.gpu_full = true;
    expect(&in, BACKEND_CPU, REASON_QUEUE_FULL, false);
    in = both();
    in.success_rate = 0.94;
    expect(&in, BACKEND_CPU, REASON_LOW_SUCCESS_RATE, true);
    in.gpu_full = true;
    expect(&in, BACKEND_CPU, REASON_LOW_SUCCESS_RATE, false);
}

Test(pick, a_replica_is_wanted_where_it_would_help)
{
    struct pick_input in = both();
    in.replica_ready = false;
    in.upload_ns = UINT64_C(1) << 40; /* once, for many */
    cr_assert(pick_backend(&in).wants_replica);
    expect(&in, BACKEND_CPU, REASON_PREDICTED_SLOWER, false);
    in.success_rate = 0.5; /* or no probe could ever find that it works again */
    cr_assert(pick_backend(&in).wants_replica);
    expect(&in, BACKEND_CPU, REASON_LOW_SUCCESS_RATE, false);
    in.success_rate = 1;
    in.cpu.ns = 50000;
    cr_assert(!pick_backend(&in).wants_replica);
    in.cpu.ns = in.gpu.ns = 0;
    cr_assert(pick_backend(&in).wants_replica);
    in.replica_refused = true;
    cr_assert(!pick_backend(&in).wants_replica);
    cr_assert(!pick_backend(&(struct pick_input){.gpu_absent = true}).wants_replica);
}

/* A large collection is more than one job uploads in its own orders: then uploads follow. */
Test(pick, a_replica_is_wanted_where_it_is_forced)
{
    struct pick_input in = both();
    in.force = FORCE_GPU;
    in.gave_up = REASON_QUEUE_FULL;
    in.replica_ready = false;
    cr_assert(pick_backend(&in).wants_replica);
    expect(&in, BACKEND_CPU, REASON_QUEUE_FULL, false);
    in.replica_ready = true;
    cr_assert(!pick_backend(&in).wants_replica);
    in.replica_ready = false;
    in.gave_up = REASON_FALLBACK_AFTER_ERROR;
    cr_assert(!pick_backend(&in).wants_replica);
}

Test(pick, force_asks_nobody)
{
    struct pick_input in = both();
    in.force = FORCE_CPU;
    expect(&in, BACKEND_CPU, REASON_FORCED, false);
    in.force = FORCE_GPU;
    in.cpu.ns = in.pairs = 1;
    in.replica_ready = false;
    in.vram_low = true;
    in.success_rate = 0;
    expect(&in, BACKEND_GPU, REASON_FORCED, false);
}
