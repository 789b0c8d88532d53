/* direct: results that a kernel stores straight into host memory: cells of 8 bytes, a number and
 * the launch's tag (vectors_cuda.h, cuda_direct). Device code only. */
#ifndef ENGRAM_KERNELS_CUDA_DIRECT_CUH
#define ENGRAM_KERNELS_CUDA_DIRECT_CUH

#include "kernels/cuda/scan_topk.cuh"

/* One store of 8 bytes, which the bus does not divide. */
__device__ __forceinline__ void cell_store(unsigned long long *cells, uint32_t tag, uint64_t cell,
                                           uint32_t value)
{
    *(volatile unsigned long long *)&cells[cell] = (unsigned long long)tag << 32 | value;
}

/* The cells of the best: their number, then k of each: the ids' lower halves, their upper halves,
 * the scores. */
__device__ __forceinline__ void cells_store_best(unsigned long long *cells, uint32_t tag,
                                                 uint32_t k, const struct best_shared *shared)
{
    const uint32_t i = threadIdx.x;
    if (i >= k) return;
    struct topk_entry entry = entry_read(&shared->best[i]);
    bool is_there = entry.key != ~0u;
    cell_store(cells, tag, 1 + i, (uint32_t)entry.id);
    cell_store(cells, tag, 1 + k + i, (uint32_t)(entry.id >> 32));
    cell_store(cells, tag, 1 + 2 * k + i, __float_as_uint(entry.score));
    if (is_there && (i + 1 == k || shared->best[i + 1].key == ~0u))
        cell_store(cells, tag, 0, i + 1);
    if (!is_there && i == 0) cell_store(cells, tag, 0, 0);
}

#endif
