/* spread_visits: what the contributions to a target do to it, in mode engram: visits, gains, and
 * the lowest id among the first ones. A visit itself is spread_visit. Device code only. */
#ifndef ENGRAM_KERNELS_CUDA_SPREAD_VISITS_CUH
#define ENGRAM_KERNELS_CUDA_SPREAD_VISITS_CUH

#include "kernels/cuda/spread_job.cuh"

/* The effect of a target's contributions. */
struct engram_outcome {
    struct spread_record record;
    float gains[3]; /* a node expands at most this often: visits_max - 1 of the coldest tier */
    uint32_t gained;
    uint64_t cycles;
};

__device__ __forceinline__ void engram_gain_put(struct engram_outcome *o, float gain)
{
    if (o->gained == 0) o->gains[0] = gain;
    if (o->gained == 1) o->gains[1] = gain;
    if (o->gained == 2) o->gains[2] = gain;
    o->gained++;
}

/* False: the contribution does not count, nor does any after it, since those are no larger. */
template <class Run>
__device__ __forceinline__ bool engram_visit(const Run *r, struct engram_outcome *o,
                                             float contribution)
{
    const struct spread_question *q = &r->base->question;
    float gain = 0.0f;
    bool expands = false;
    if (!spread_visit(&o->record, contribution, r->level, q->hops, q->thresholds, &o->cycles, &gain,
                      &expands))
        return false;
    if (expands) engram_gain_put(o, gain);
    return true;
}

/* Returns the lowest id among the sources of contributions that equal the first, from `at` on,
 * every step-th. */
__device__ __forceinline__ uint32_t engram_lowest(const unsigned long long *contributions,
                                                  uint32_t count, uint32_t at, uint32_t step,
                                                  const uint64_t *ids, uint64_t *lowest)
{
    uint32_t node = SPREAD_NO_NODE;
    *lowest = UINT64_MAX;
    for (; at < count && contributions[at] >> 32 == contributions[0] >> 32; at += step) {
        const uint32_t source = (uint32_t)contributions[at];
        if (source == SPREAD_NO_NODE || ids[source] >= *lowest) continue;
        node = source;
        *lowest = ids[source];
    }
    return node;
}

#endif
