/* wgmma: products of int8 codes by warpgroups of 128 threads (sm_90a), and the barriers in shared
 * memory by which copies and products wait for each other. Device code only.
 *
 * Codes lie in rows of 64 bytes, 4 pieces of 16; piece p of row r lies at p ^ (r / 2 & 3): what PTX
 * calls a swizzle of 64 bytes, K-major. Rows begin at multiples of 512 bytes. */
#ifndef ENGRAM_KERNELS_CUDA_WGMMA_CUH
#define ENGRAM_KERNELS_CUDA_WGMMA_CUH

#include <cuda_runtime.h>
#include <stdint.h>

enum {
    WGMMA_QUERIES = 64, /* of a product, */
    WGMMA_ROWS = 256,
    WGMMA_CODES = 64, /* and of a row in shared memory: two products */
    WGMMA_SUMS = 128  /* of a thread */
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ __forceinline__ void barrier_create(uint32_t at, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t at)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}

/* Arrives, and lets so many bytes that a copy brings be part of the phase. */
__device__ __forceinline__ void barrier_expect(uint32_t at, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
                 : "memory");
}

/* Copies a box of a matrix (CUtensorMap) from this column and row on; what lies outside is 0. */
__device__ __forceinline__ void box_copy(uint32_t to, const void *map, uint32_t column,
                                         uint32_t row, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(column), "r"(row), "r"(barrier)
                 : "memory");
}

/* Waits until the phase of this parity is over; the one before the first has parity 1. */
__device__ __forceinline__ void barrier_wait(uint32_t at, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra over;\n"
                 "bra again;\n"
                 "over:\n"
                 "}\n" ::"r"(at),
                 "r"(parity)
                 : "memory");
}

/* Lets copies and products see the barriers that this thread has created. */
__device__ __forceinline__ void barriers_show(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void wgmma_begin(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits for all products but those of the newest NEWEST groups. */
template <int NEWEST> __device__ __forceinline__ void wgmma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(NEWEST) : "memory");
}

/* Keeps the compiler from moving a use of the sums over this place. */
__device__ __forceinline__ void wgmma_settle(int *sums)
{
#pragma unroll
    for (int n = 0; n < WGMMA_SUMS; n++)
        asm volatile("" : "+r"(sums[n])::"memory");
}

/* A matrix of rows of 64 bytes at this address of shared memory, as a product names it. */
__device__ __forceinline__ uint64_t wgmma_matrix(uint32_t at)
{
    const uint64_t eight_rows = 512, swizzle_64 = 2;
    return (uint64_t)((at & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (eight_rows >> 4) << 32 |
           swizzle_64 << 62;
}

/* 64 queries x 256 rows: sums (more: +)= queries . rows over 32 codes. Sum 4 j + 2 h + i of lane l
 * of warp w belongs to query 16 w + l / 4 + 8 h and row 8 j + l % 4 * 2 + i. */
__device__ __forceinline__ void wgmma_multiply(int *s, uint64_t queries, uint64_t rows, int more)
{
    asm volatile(
        "{\n"
        ".reg .pred more;\n"
        "setp.ne.b32 more, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
        "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "
        "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
        "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "
        "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "
        "%92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, "
        "%106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, "
        "%119, %120, %121, %122, %123, %124, %125, %126, %127}, "
        "%128, %129, more;\n"
        "}\n"
        : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]), "+r"(s[4]), "+r"(s[5]), "+r"(s[6]),
          "+r"(s[7]), "+r"(s[8]), "+r"(s[9]), "+r"(s[10]), "+r"(s[11]), "+r"(s[12]), "+r"(s[13]),
          "+r"(s[14]), "+r"(s[15]), "+r"(s[16]), "+r"(s[17]), "+r"(s[18]), "+r"(s[19]), "+r"(s[20]),
          "+r"(s[21]), "+r"(s[22]), "+r"(s[23]), "+r"(s[24]), "+r"(s[25]), "+r"(s[26]), "+r"(s[27]),
          "+r"(s[28]), "+r"(s[29]), "+r"(s[30]), "+r"(s[31]), "+r"(s[32]), "+r"(s[33]), "+r"(s[34]),
          "+r"(s[35]), "+r"(s[36]), "+r"(s[37]), "+r"(s[38]), "+r"(s[39]), "+r"(s[40]), "+r"(s[41]),
          "+r"(s[42]), "+r"(s[43]), "+r"(s[44]), "+r"(s[45]), "+r"(s[46]), "+r"(s[47]), "+r"(s[48]),
          "+r"(s[49]), "+r"(s[50]), "+r"(s[51]), "+r"(s[52]), "+r"(s[53]), "+r"(s[54]), "+r"(s[55]),
          "+r"(s[56]), "+r"(s[57]), "+r"(s[58]), "+r"(s[59]), "+r"(s[60]), "+r"(s[61]), "+r"(s[62]),
          "+r"(s[63]), "+r"(s[64]), "+r"(s[65]), "+r"(s[66]), "+r"(s[67]), "+r"(s[68]), "+r"(s[69]),
          "+r"(s[70]), "+r"(s[71]), "+r"(s[72]), "+r"(s[73]), "+r"(s[74]), "+r"(s[75]), "+r"(s[76]),
          "+r"(s[77]), "+r"(s[78]), "+r"(s[79]), "+r"(s[80]), "+r"(s[81]), "+r"(s[82]), "+r"(s[83]),
          "+r"(s[84]), "+r"(s[85]), "+r"(s[86]), "+r"(s[87]), "+r"(s[88]), "+r"(s[89]), "+r"(s[90]),
          "+r"(s[91]), "+r"(s[92]), "+r"(s[93]), "+r"(s[94]), "+r"(s[95]), "+r"(s[96]), "+r"(s[97]),
          "+r"(s[98]), "+r"(s[99]), "+r"(s[100]), "+r"(s[101]), "+r"(s[102]), "+r"(s[103]),
          "+r"(s[104]), "+r"(s[105]), "+r"(s[106]), "+r"(s[107]), "+r"(s[108]), "+r"(s[109]),
          "+r"(s[110]), "+r"(s[111]), "+r"(s[112]), "+r"(s[113]), "+r"(s[114]), "+r"(s[115]),
          "+r"(s[116]), "+r"(s[117]), "+r"(s[118]), "+r"(s[119]), "+r"(s[120]), "+r"(s[121]),
          "+r"(s[122]), "+r"(s[123]), "+r"(s[124]), "+r"(s[125]), "+r"(s[126]), "+r"(s[127])
        : "l"(queries), "l"(rows), "r"(more));
}

#endif

#endif
