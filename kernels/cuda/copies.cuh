/* copies: asynchronous copies from device memory into shared memory. Device code only. */
#ifndef ENGRAM_KERNELS_CUDA_COPIES_CUH
#define ENGRAM_KERNELS_CUDA_COPIES_CUH

#include <cuda_runtime.h>
#include <stdint.h>

/* Copies without waiting if the device can (compute capability 8.0). */
__device__ __forceinline__ void copy_16(float *to, const float *from)
{
#if __CUDA_ARCH__ >= 800
    unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
#else
    *(float4 *)to = *(const float4 *)from;
#endif
}

__device__ __forceinline__ void copy_4(void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
    unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(from) : "memory");
#else
    *(uint32_t *)to = *(const uint32_t *)from;
#endif
}

__device__ __forceinline__ void copies_commit(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits until all copies but those of the newest NEWEST groups have arrived. */
template <int NEWEST> __device__ __forceinline__ void copies_wait(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(NEWEST) : "memory");
#endif
}

#endif
