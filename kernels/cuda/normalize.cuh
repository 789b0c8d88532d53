/* normalize: four numbers of a row divided by its norm. Device code only. */
#ifndef ENGRAM_KERNELS_CUDA_NORMALIZE_CUH
#define ENGRAM_KERNELS_CUDA_NORMALIZE_CUH

#include "kernels/canonical.h"

#include <cuda_runtime.h>

__device__ __forceinline__ float4 normalize_quad(float4 x, float norm)
{
    if (norm == 0.0f) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return make_float4(canonical_divide(x.x, norm), canonical_divide(x.y, norm),
                       canonical_divide(x.z, norm), canonical_divide(x.w, norm));
}

#endif
