/* pick_backend over every input there is: against rules said another way, one at a time. */
#include "daemon/sched/pick.h"

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
