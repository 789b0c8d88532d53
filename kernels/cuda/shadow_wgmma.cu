/* shadow_wgmma: many queries against the shadow of rows, as shadow_tile, by the warpgroups'
 * products of Hopper (sm_90a; compiled for it alone, chosen when it runs).
 *
 * A block has 128 queries, which stay in shared memory where their codes fit, and goes over tiles
 * of 256 rows. Two teams of four warps multiply 64 queries each; one thread copies codes, 64 of
 * each row at a time, as far ahead as there are slots; two warps read what stands beside the rows,
 * and list the pairs that the teams have found while these multiply the next tiles. All wait for
 * each other at barriers in shared memory. */
#include "kernels/cuda/shadow.cuh"

#if defined(SHADOW_WGMMA)

#include "kernels/cuda/shadow_team.cuh"

template <bool SAMPLE, bool RESIDENT>
__global__ void __launch_bounds__(WGMMA_THREADS, 1)
    shadow_wgmma_kernel(const __grid_constant__ struct wgmma_job wgmma)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char shared_codes[];
    const struct shadow_tile &job = wgmma.tile;
    const struct block_place place = block_place_of(job);
    const struct block_barriers<RESIDENT> barriers = {
        (uint32_t) __cvta_generic_to_shared(shared_codes)
    };
    struct tile_desk *desks = (struct tile_desk *)(shared_codes + block_room<RESIDENT>::DESKS);
    struct block_queue *queues =
        (struct block_queue *)(shared_codes + block_room<RESIDENT>::QUEUES_AT);
    const uint32_t warp = threadIdx.x / 32;
    if (threadIdx.x == 0) barriers.create(place.teams);
    __syncthreads();
    if (warp >= TEAMS * TEAM_THREADS / 32) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"((int)OTHER_REGISTERS));
        if (threadIdx.x == TEAMS * TEAM_THREADS) copier_run<RESIDENT>(wgmma, place, barriers);
        if (warp >= (TEAMS * TEAM_THREADS + COPIERS) / 32)
            helper_run<SAMPLE, RESIDENT>(job, place, barriers, desks, queues);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"((int)TEAM_REGISTERS));
        if (warp / 4 < place.teams) team_run<SAMPLE, RESIDENT>(job, place, barriers, desks, queues);
    }
#endif
}

/* ---- launching ---- */

/* The driver's, which the runtime finds. */
typedef CUresult (*wgmma_encode)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                 const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                 const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

static wgmma_encode wgmma_encode_find(void)
{
    static void *found;
    enum cudaDriverEntryPointQueryResult result;
    if (found) return (wgmma_encode)found;
#if CUDART_VERSION >= 12050
    int error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                                 cudaEnableDefault, &result);
#else
    int error =
        cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &result);
#endif
    if (error || result != cudaDriverEntryPointSuccess) found = NULL;
    return (wgmma_encode)found;
}

bool shadow_wgmma_runs(void)
{
    int major = 0, minor = 0, most = 0;
    return !device_attribute(cudaDevAttrComputeCapabilityMajor, &major) && major == 9 &&
           !device_attribute(cudaDevAttrComputeCapabilityMinor, &minor) && minor == 0 &&
           !device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &most) &&
           most >= block_room<true>::SHARED && most >= block_room<false>::SHARED &&
           wgmma_encode_find();
}

uint32_t shadow_wgmma_maxima(uint64_t row_count, uint32_t step)
{
    return (uint32_t)shadow_tile_count(shadow_tile_count(row_count, WGMMA_ROWS), step) * GROUPS;
}

template <bool SAMPLE, bool RESIDENT>
static int wgmma_enqueue(const struct wgmma_job *job, unsigned processors, cudaStream_t stream)
{
    const struct shadow_tile *tile = &job->tile;
    uint64_t blocks = processors / tile->query_tiles; /* of each tile of queries */
    if (blocks < 1) blocks = 1;
    if (blocks > tile->tiles) blocks = tile->tiles;
    int error = cudaFuncSetAttribute((const void *)shadow_wgmma_kernel<SAMPLE, RESIDENT>,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     block_room<RESIDENT>::SHARED);
    if (error) return error;
    shadow_wgmma_kernel<SAMPLE, RESIDENT><<<(unsigned)(blocks * tile->query_tiles), WGMMA_THREADS,
                                            block_room<RESIDENT>::SHARED, stream>>>(*job);
    return cudaGetLastError();
}

/* Names a matrix of codes, of which boxes of 64 codes of `box` rows are copied. */
static int wgmma_map(CUtensorMap *map, const int8_t *codes, uint64_t rows, uint32_t stride,
                     uint32_t box)
{
    const wgmma_encode encode = wgmma_encode_find();
    const cuuint64_t sizes[2] = {stride, rows}, strides[1] = {stride};
    const cuuint32_t boxes[2] = {WGMMA_CODES, box}, steps[2] = {1, 1};
    if (!encode) return cudaErrorNotSupported;
    return encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, (void *)codes, sizes, strides, boxes,
                  steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_64B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
               ? cudaErrorInvalidValue
               : cudaSuccess;
}

int shadow_wgmma_launch(const struct shadow_tile *tile, unsigned processors, cudaStream_t stream)
{
    struct wgmma_job all = {};
    struct shadow_tile *job = &all.tile;
    const uint64_t span = (uint64_t)SPAN_TILES * BLOCK_QUERIES;
    *job = *tile;
    job->chunks = job->code_stride / WGMMA_CODES;
    job->tiles = shadow_tile_count(shadow_tile_count(job->rows.count, WGMMA_ROWS), job->step);
    int error =
        wgmma_map(&all.rows, job->rows.codes, job->rows.count, job->code_stride, WGMMA_ROWS);
    if (!error)
        error = wgmma_map(&all.queries, job->planes, job->query_count, job->plane_stride,
                          WGMMA_QUERIES);
    if (error) return error;
    for (job->first_query = 0; job->first_query < job->query_count; job->first_query += span) {
        const uint64_t left = job->query_count - job->first_query;
        job->query_tiles = shadow_tile_count(left < span ? left : span, BLOCK_QUERIES);
        const bool resident = job->code_stride <= RESIDENT_CODES;
        error = job->maxima ? resident ? wgmma_enqueue<true, true>(&all, processors, stream)
                                       : wgmma_enqueue<true, false>(&all, processors, stream)
                : resident ? wgmma_enqueue<false, true>(&all, processors, stream)
                            : wgmma_enqueue<false, false>(&all, processors, stream);
        if (error) return error;
    }
    return cudaSuccess;
}

#else

bool shadow_wgmma_runs(void)
{
    return false;
}

uint32_t shadow_wgmma_maxima(uint64_t row_count, uint32_t step)
{
    return 0;
}

int shadow_wgmma_launch(const struct shadow_tile *tile, unsigned processors, cudaStream_t stream)
{
    return cudaErrorNotSupported;
}

#endif
