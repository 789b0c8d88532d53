#include "daemon/sched/choose_backend.h"

/* The speedup that a prediction must promise, given how uncertain it is. */
static double required_speedup(const struct pick_input *in)
{
    double sure = in->cpu.confidence < in->gpu.confidence ? in->cpu.confidence : in->gpu.confidence;
    return in->speedup_min > 1 ? 1 + (in->speedup_min - 1) * (1 - sure) : 1;
}

/* True if the GPU is expected to end sooner, with this much uploading. Waits and uploads are sums
 * of work with predictions of its own: only the run itself has to be faster by the required
 * factor. */
static bool gpu_wins(const struct pick_input *in, uint64_t upload_ns)
{
    if (!in->cpu.ns || !in->gpu.ns) return true; /* not predicted */
    double gpu = (double)in->gpu_wait_ns + (double)upload_ns;
    double cpu = (double)in->cpu_wait_ns + (double)in->cpu.ns;
    return gpu + (double)in->gpu.ns * required_speedup(in) <= cpu;
}

static struct pick to_cpu(enum reason why)
{
    return (struct pick){.backend = BACKEND_CPU, .reason = why};
}

/* A reason against the GPU whatever is predicted, or NONE. What lasts longest is checked first. */
static enum reason refusal(const struct pick_input *in)
{
    if (in->gave_up) return in->gave_up;
    if (in->gpu_absent) return REASON_GPU_ABSENT;
    if (in->force == FORCE_CPU) return REASON_FORCED;
    if (!in->pairs) return REASON_CHOSEN_FASTER;
    if (in->gpu_down) return REASON_GPU_DOWN;
    bool forced = in->force == FORCE_GPU;
    if (!forced && in->pairs < in->pairs_min) return REASON_BELOW_MIN_BATCH;
    if (in->replica_refused || (!forced && in->vram_low)) return REASON_VRAM_PRESSURE;
    return REASON_NONE;
}

struct pick pick_backend(const struct pick_input *in)
{
    enum reason why = refusal(in);
    if (why) {
        struct pick pick = to_cpu(why);
        /* More is missing than one job may upload in its own orders. */
        pick.wants_replica =
            in->force == FORCE_GPU && why == REASON_QUEUE_FULL && !in->replica_ready;
        return pick;
    }
    if (in->force == FORCE_GPU)
        return in->gpu_full ? to_cpu(REASON_QUEUE_FULL)
                            : (struct pick){.backend = BACKEND_GPU, .reason = REASON_FORCED};

    bool failing = in->success_rate < in->success_min;
    struct pick pick = to_cpu(failing ? REASON_LOW_SUCCESS_RATE : REASON_PREDICTED_SLOWER);
    if (!in->replica_ready) { /* without a replica, no probe can run there either */
        pick.wants_replica = gpu_wins(in, 0);
        return pick;
    }
    pick.open = !in->gpu_full;
    if (failing) return pick;
    if (in->gpu_full) return to_cpu(REASON_QUEUE_FULL);

    pick.open = in->cpu.ns && in->gpu.ns;
    if (gpu_wins(in, in->upload_ns)) {
        pick.backend = BACKEND_GPU;
        pick.reason = REASON_CHOSEN_FASTER;
    }
    return pick;
}
