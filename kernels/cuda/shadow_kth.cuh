/* shadow_kth: the k-th best of a few hundred entries, by a warp. Device code only. */
#ifndef ENGRAM_KERNELS_CUDA_SHADOW_KTH_CUH
#define ENGRAM_KERNELS_CUDA_SHADOW_KTH_CUH

#include "kernels/cuda/shadow_grid.cuh"

enum { KTH_KEYS = SCAN_TOPK_SURVIVORS / 32 /* entries of a lane */ };

__device__ __forceinline__ uint32_t warp_add(uint32_t value)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(WARP, value);
#else
    for (int partner = 16; partner > 0; partner /= 2)
        value += __shfl_xor_sync(WARP, value, partner);
    return value;
#endif
}

/* Keys and ids of up to 32 KTH_KEYS entries, in the lanes of a warp. */
struct warp_ranks {
    uint32_t keys[KTH_KEYS];
    uint64_t ids[KTH_KEYS];
};

/* Returns the least key that k of them do not exceed; ~0: there are fewer. */
__device__ __forceinline__ uint32_t warp_kth_key(const struct warp_ranks &ranks, uint32_t k)
{
    uint32_t low = 0, high = ~0u;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        uint32_t within = 0;
#pragma unroll
        for (uint32_t n = 0; n < KTH_KEYS; n++)
            within += ranks.keys[n] <= middle;
        if (warp_add(within) >= k)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Returns the least id that `rank` of those with this key do not exceed; there are so many. */
__device__ __forceinline__ uint64_t warp_kth_id(const struct warp_ranks &ranks, uint32_t key,
                                                uint32_t rank)
{
    uint64_t low = 0, high = ~0ull;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        uint32_t within = 0;
#pragma unroll
        for (uint32_t n = 0; n < KTH_KEYS; n++)
            within += ranks.keys[n] == key && ranks.ids[n] <= middle;
        if (warp_add(within) >= rank)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The k-th best of the entries is the bound if there are so many, by a warp. Which of those that
 * have its key matters only where they are more than are wanted. */
__device__ __forceinline__ struct topk_bound warp_kth(const struct topk_entry *entries,
                                                      uint32_t count, uint32_t k,
                                                      uint32_t limit_key)
{
    struct warp_ranks ranks;
    struct topk_bound bound = {~0ull, limit_key};
    uint32_t before = 0, same = 0;
#pragma unroll
    for (uint32_t n = 0; n < KTH_KEYS; n++) {
        const uint32_t i = n * 32 + threadIdx.x % 32;
        struct topk_entry entry = entry_worst();
        if (i < count) entry = grid_read(&entries[i]);
        ranks.keys[n] = entry.key;
        ranks.ids[n] = entry.id;
    }
    const uint32_t key = warp_kth_key(ranks, k);
    if (key >= limit_key) return bound;
#pragma unroll
    for (uint32_t n = 0; n < KTH_KEYS; n++) {
        before += ranks.keys[n] < key;
        same += ranks.keys[n] == key;
    }
    bound.key = key;
    const uint32_t rank = k - warp_add(before);
    if (warp_add(same) > rank) bound.id = warp_kth_id(ranks, key, rank);
    return bound;
}

#endif
