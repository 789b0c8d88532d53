/* recall: what the kernels between a recall's stages share: the arrays in scratch, and tables of
 * ids that are filled and searched by many threads. Device code, and the host's view of scratch. */
#ifndef ENGRAM_KERNELS_CUDA_RECALL_CUH
#define ENGRAM_KERNELS_CUDA_RECALL_CUH

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/recall_cuda.h"

struct recall_table {
    uint32_t *entries, *found; /* 1 + a place; 0: empty, or nothing found */
    uint32_t bits;
};

/* A call, with the arrays of its scratch. */
struct recall_job {
    struct cuda_recall call;
    struct recall_table by_seed, by_entry;
    uint64_t *began;
    uint32_t *seed_counts, *seed_slots, *seed_nodes, *seed_keys, *seed_places;
    uint32_t *list_tables, *list_doubles, *record_keys, *entry_slots, *trails;
};

static inline struct recall_job recall_job_of(const struct cuda_recall *r)
{
    const struct cuda_recall_layout at = cuda_recall_layout_of(r);
    char *scratch = (char *)r->scratch;
    struct recall_job job = {};
    auto words = [scratch](uint64_t offset) { return (uint32_t *)(scratch + offset); };
    auto table = [words](uint64_t offset, uint32_t bits) {
        struct recall_table t = {words(offset), words(offset) + (1ull << bits), bits};
        return t;
    };
    job.call = *r;
    job.by_seed = table(at.seed_table, at.seed_bits);
    job.by_entry = table(at.entry_table, at.entry_bits);
    job.began = (uint64_t *)(scratch + at.began);
    job.seed_counts = words(at.seed_counts);
    job.seed_slots = words(at.seed_slots);
    job.seed_nodes = words(at.seed_nodes);
    job.seed_keys = words(at.seed_keys);
    job.seed_places = words(at.seed_places);
    job.list_tables = words(at.list_tables);
    job.list_doubles = words(at.list_doubles);
    job.record_keys = words(at.record_keys);
    job.entry_slots = words(at.entry_slots);
    job.trails = words(at.trails);
    return job;
}

/* The first cue of a list; of the list behind the last: the end. */
__device__ __forceinline__ uint64_t recall_cue(const struct cuda_recall &r, uint32_t list)
{
    return r.cue_offsets[list] - r.first_cue;
}

__device__ __forceinline__ uint32_t recall_home(uint64_t key, uint32_t bits)
{
    return (uint32_t)(key * 0x9e3779b97f4a7c15u >> (64 - bits));
}

__device__ __forceinline__ uint64_t recall_now_ns(void)
{
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

/* Bits of a table of at least twice `count` entries that has at most 4 * count. */
__device__ __forceinline__ uint32_t recall_few_bits(uint32_t count)
{
    return count > 1 ? 33 - __clz((int)(count - 1)) : 1;
}

/* Inserts `place`, whose id is_same compares with an earlier place's. Returns the slot of the id's
 * first place. */
template <class Same>
__device__ uint32_t recall_insert(uint32_t *entries, uint32_t bits, uint64_t key, uint32_t place,
                                  Same is_same)
{
    const uint32_t mask = (uint32_t)((1ull << bits) - 1);
    for (uint32_t at = recall_home(key, bits);; at = (at + 1) & mask) {
        const uint32_t before = atomicCAS(&entries[at], 0u, place + 1);
        if (before == 0 || is_same(before - 1)) return at;
    }
}

/* Returns the slot of a key, or UINT32_MAX. */
template <class Same>
__device__ uint32_t recall_find(const uint32_t *entries, uint32_t bits, uint64_t key, Same is_same)
{
    const uint32_t mask = (uint32_t)((1ull << bits) - 1);
    for (uint32_t at = recall_home(key, bits);; at = (at + 1) & mask) {
        const uint32_t entry = entries[at];
        if (!entry) return UINT32_MAX;
        if (is_same(entry - 1)) return at;
    }
}

#endif
