/* spread_sort: sorts the contributions to a node, the largest first. A thread sorts a segment of a
 * few; longer segments are sorted by blocks, in runs that fit in shared memory, and all blocks
 * merge the runs in pairs. Device code only. */
#ifndef ENGRAM_KERNELS_CUDA_SPREAD_SORT_CUH
#define ENGRAM_KERNELS_CUDA_SPREAD_SORT_CUH

#include "kernels/cuda/spread_job.cuh"

enum { SPREAD_SMALL = 16 };

/* Keys rise as contributions fall. -0 becomes 0, because they count alike. */
__device__ __forceinline__ unsigned long long spread_sort_key(float contribution, uint32_t source)
{
    const unsigned bits = __float_as_uint(canonical_add(contribution, 0.0f));
    const unsigned rising = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (unsigned long long)~rising << 32 | source;
}

__device__ __forceinline__ float spread_sort_value(unsigned long long key)
{
    const unsigned rising = ~(unsigned)(key >> 32);
    return __uint_as_float(rising >> 31 ? rising & 0x7fffffffu : ~rising);
}

__device__ __forceinline__ void spread_sort_few(unsigned long long *keys, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const unsigned long long key = keys[i];
        uint32_t at = i;
        for (; at > 0 && keys[at - 1] > key; at--)
            keys[at] = keys[at - 1];
        keys[at] = key;
    }
}

/* Run `number` of the segment that belongs to a place. */
struct spread_run_of {
    uint32_t place, number;
};

__device__ __forceinline__ void spread_queue_runs(struct spread_run_of *runs, unsigned *count,
                                                  uint32_t place, uint32_t contributions)
{
    const uint32_t many = (contributions + SPREAD_RUN - 1) / SPREAD_RUN;
    const unsigned at = atomicAdd(count, many);
    for (uint32_t n = 0; n < many; n++) {
        struct spread_run_of run = {place, n};
        runs[at + n] = run;
    }
}

/* The segment of a place is [ends[place] - counts[place], ends[place]). */
struct spread_segments {
    const uint32_t *counts, *ends;
    const struct spread_run_of *runs;
    uint32_t run_count, longest; /* of the segments with more than one run; or 0 */
};

/* Sorts up to SPREAD_RUN keys by a block. */
__device__ inline void spread_sort_run(struct spread_shared *shared, unsigned long long *keys,
                                       uint32_t count)
{
    uint32_t size = 32;
    while (size < count)
        size *= 2;
    for (uint32_t i = threadIdx.x; i < size; i += SPREAD_THREADS)
        shared->keys[i] = i < count ? keys[i] : ~0ull;
    for (uint32_t width = 2; width <= size; width *= 2) {
        for (uint32_t step = width / 2; step > 0; step /= 2) {
            __syncthreads();
            for (uint32_t pair = threadIdx.x; pair < size / 2; pair += SPREAD_THREADS) {
                const uint32_t low = pair / step * step * 2 + pair % step, high = low + step;
                const unsigned long long a = shared->keys[low], b = shared->keys[high];
                if ((a > b) != ((low & width) == 0)) continue;
                shared->keys[low] = b;
                shared->keys[high] = a;
            }
        }
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count; i += SPREAD_THREADS)
        keys[i] = shared->keys[i];
    __syncthreads();
}

/* Returns where a key goes when its run of `width` is merged with the run beside it. */
__device__ __forceinline__ uint32_t spread_merged(const unsigned long long *keys, uint32_t count,
                                                  uint32_t width, uint32_t at)
{
    const uint32_t own = at / width, beside = (own ^ 1) * width;
    if (beside >= count) return at;
    const uint32_t size = count - beside < width ? count - beside : width;
    const unsigned long long key = keys[at];
    uint32_t low = 0, high = size;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        const unsigned long long other = keys[beside + middle];
        if (own & 1 ? other <= key : other < key)
            low = middle + 1;
        else
            high = middle;
    }
    return (own & ~1u) * width + (at - own * width) + low;
}

/* Returns in which of the buffers the segments with more than one run end up. Ends with a sync if
 * there are any runs. */
template <class Group>
__device__ int spread_sort_runs(struct spread_shared *shared, struct spread_segments s,
                                unsigned long long *const buffers[2])
{
    for (uint32_t n = Group::block(); n < s.run_count; n += Group::blocks()) {
        const struct spread_run_of run = s.runs[n];
        const uint32_t count = s.counts[run.place], first = run.number * SPREAD_RUN;
        const uint32_t left = count - first;
        spread_sort_run(shared, buffers[0] + (s.ends[run.place] - count) + first,
                        left < SPREAD_RUN ? left : SPREAD_RUN);
    }
    if (s.run_count) Group::sync();
    int side = 0;
    for (uint64_t width = SPREAD_RUN; width < s.longest; width *= 2) {
        for (uint32_t n = Group::block(); n < s.run_count; n += Group::blocks()) {
            const struct spread_run_of run = s.runs[n];
            const uint32_t count = s.counts[run.place], begin = s.ends[run.place] - count;
            if (count <= SPREAD_RUN) continue;
            const unsigned long long *from = (side ? buffers[1] : buffers[0]) + begin;
            unsigned long long *to = (side ? buffers[0] : buffers[1]) + begin;
            const uint32_t first = run.number * SPREAD_RUN, left = count - first;
            const uint32_t end = first + (left < SPREAD_RUN ? left : SPREAD_RUN);
            for (uint32_t at = first + threadIdx.x; at < end; at += SPREAD_THREADS)
                to[spread_merged(from, count, (uint32_t)width, at)] = from[at];
        }
        Group::sync();
        side ^= 1;
    }
    return side;
}

#endif
