#include "daemon/sched/pick.h"

/* Why not the GPU; NONE: it may have it. What cannot change soon comes first. */
static enum reason refusal(const struct pick_input *in)
{
    if (in->gave_up) return in->gave_up;
    if (in->gpu_absent) return REASON_GPU_ABSENT;
    if (in->force == FORCE_CPU) return REASON_FORCED;
    if (!in->pairs) return REASON_CHOSEN_FASTER;
    if (in->gpu_down) return REASON_GPU_DOWN;
    bool forced = in->force == FORCE_GPU;
    if (!forced && in->pairs < in->pairs_min) return REASON_BELOW_MIN_BATCH;
    if (in->replica_refused) return REASON_VRAM_PRESSURE;
    if (!forced && !in->replica_ready) return REASON_PREDICTED_SLOWER;
    return in->gpu_full ? REASON_QUEUE_FULL : REASON_NONE;
}

struct pick pick_backend(const struct pick_input *in)
{
    enum reason why = refusal(in);
    if (why) return (struct pick){BACKEND_CPU, why};
    return (struct pick){BACKEND_GPU,
                         in->force == FORCE_GPU ? REASON_FORCED : REASON_CHOSEN_FASTER};
}
