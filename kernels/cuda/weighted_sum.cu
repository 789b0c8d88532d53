/* weighted_sum: one thread for each column, because each column is summed in the order of rows. A
 * block has few columns, so that many multiprocessors share a long list; one warp sums while the
 * others copy rows into shared memory, several stages ahead. */
#include "kernels/cuda/launch.cuh"

#include <cuda_pipeline_primitives.h>

enum {
    WEIGHTED_COLUMNS = 16, /* 64 bytes of a row, the least that memory delivers */
    WEIGHTED_COPY = 4,     /* columns in one copy: 16 bytes */
    WEIGHTED_ROWS = 128,   /* rows of a stage */
    WEIGHTED_STAGES = 5,
    WEIGHTED_COPIERS = 256, /* threads that copy; one more warp sums */
    WEIGHTED_THREADS = WEIGHTED_COPIERS + 32,
    WEIGHTED_PASS = WEIGHTED_COPIERS / (WEIGHTED_COLUMNS / WEIGHTED_COPY), /* rows copied at once */
    WEIGHTED_PASSES = WEIGHTED_ROWS / WEIGHTED_PASS,
    WEIGHTED_READ = 16 /* values read while as many are added */
};

struct weighted_job {
    const float *rows;
    const uint32_t *positions; /* NULL: row i is the i-th */
    const float *weights;
    uint64_t count;
    float *out;
    float total; /* the divisor of the sum, if `divide` is set */
    uint32_t dimension, stride;
    bool divide;
};

struct weighted_stage {
    float rows[WEIGHTED_ROWS][WEIGHTED_COLUMNS];
    float weights[WEIGHTED_ROWS];
};

/* Which rows this thread copies next: read a stage early, because the copies need them. */
struct weighted_next {
    uint64_t row[WEIGHTED_PASSES];
};

__device__ __forceinline__ void weighted_look(const struct weighted_job &job, uint64_t first,
                                              struct weighted_next *next)
{
#pragma unroll
    for (int pass = 0; pass < WEIGHTED_PASSES; pass++) {
        uint64_t i =
            first + pass * WEIGHTED_PASS + threadIdx.x / (WEIGHTED_COLUMNS / WEIGHTED_COPY);
        next->row[pass] = i;
        if (job.positions && i < job.count) next->row[pass] = __ldg(&job.positions[i]);
    }
}

__device__ __forceinline__ void weighted_copy(const struct weighted_job &job, uint64_t first,
                                              const struct weighted_next &next,
                                              struct weighted_stage *stage)
{
    const uint32_t part = threadIdx.x % (WEIGHTED_COLUMNS / WEIGHTED_COPY) * WEIGHTED_COPY;
    const uint32_t column = blockIdx.x * WEIGHTED_COLUMNS + part;
#pragma unroll
    for (int pass = 0; pass < WEIGHTED_PASSES; pass++) {
        uint32_t at = pass * WEIGHTED_PASS + threadIdx.x / (WEIGHTED_COLUMNS / WEIGHTED_COPY);
        if (first + at < job.count)
            __pipeline_memcpy_async(&stage->rows[at][part],
                                    &job.rows[next.row[pass] * job.stride + column],
                                    WEIGHTED_COPY * sizeof(float));
    }
    if (threadIdx.x < WEIGHTED_ROWS && first + threadIdx.x < job.count)
        __pipeline_memcpy_async(&stage->weights[threadIdx.x], &job.weights[first + threadIdx.x],
                                sizeof(float));
}

struct weighted_values {
    float x[WEIGHTED_READ], w[WEIGHTED_READ];
};

__device__ __forceinline__ void weighted_read(const struct weighted_stage &stage, uint32_t first,
                                              unsigned column, struct weighted_values *values)
{
#pragma unroll
    for (int n = 0; n < WEIGHTED_READ; n++)
        values->x[n] = stage.rows[first + n][column];
#pragma unroll
    for (int n = 0; n < WEIGHTED_READ; n += 4) {
        float4 w = *(const float4 *)&stage.weights[first + n];
        values->w[n] = w.x, values->w[n + 1] = w.y;
        values->w[n + 2] = w.z, values->w[n + 3] = w.w;
    }
}

__device__ __forceinline__ float weighted_add(const struct weighted_values &values, float sum)
{
#pragma unroll
    for (int n = 0; n < WEIGHTED_READ; n++)
        sum = fmaf(values.w[n], values.x[n], sum);
    return sum;
}

__device__ __forceinline__ float weighted_take(const struct weighted_stage &stage, uint64_t rows,
                                               unsigned column, float sum)
{
    if (rows < WEIGHTED_ROWS) {
        for (uint32_t i = 0; i < rows; i++)
            sum = fmaf(stage.weights[i], stage.rows[i][column], sum);
        return sum;
    }
    struct weighted_values even, odd;
    weighted_read(stage, 0, column, &even);
#pragma unroll
    for (uint32_t i = 0; i < WEIGHTED_ROWS; i += 2 * WEIGHTED_READ) {
        weighted_read(stage, i + WEIGHTED_READ, column, &odd);
        sum = weighted_add(even, sum);
        if (i + 2 * WEIGHTED_READ < WEIGHTED_ROWS)
            weighted_read(stage, i + 2 * WEIGHTED_READ, column, &even);
        sum = weighted_add(odd, sum);
    }
    return sum;
}

__device__ __forceinline__ uint32_t stage_after(uint32_t stage)
{
    return stage == WEIGHTED_STAGES - 1 ? 0 : stage + 1;
}

__global__ void __launch_bounds__(WEIGHTED_THREADS)
    weighted_sum_kernel(const struct weighted_job job)
{
    __shared__ __align__(16) struct weighted_stage stages[WEIGHTED_STAGES];
    const bool copies = threadIdx.x < WEIGHTED_COPIERS;
    /* half of the warp computes unused sums */
    const unsigned place = threadIdx.x % WEIGHTED_COLUMNS;
    struct weighted_next next = {};
    uint64_t copied = 0; /* in rows, whole stages */
    if (copies) weighted_look(job, 0, &next);
    for (int n = 0; copies && n < WEIGHTED_STAGES - 1; n++) {
        weighted_copy(job, copied, next, &stages[n]);
        copied += WEIGHTED_ROWS;
        weighted_look(job, copied, &next);
        __pipeline_commit();
    }
    float sum = 0.0f;
    uint32_t stage = 0, free = WEIGHTED_STAGES - 1;
    for (uint64_t first = 0; first < job.count; first += WEIGHTED_ROWS) {
        if (copies) __pipeline_wait_prior(WEIGHTED_STAGES - 2);
        __syncthreads(); /* this stage is copied, and the one before it is summed */
        if (copies) {
            weighted_copy(job, copied, next, &stages[free]);
            copied += WEIGHTED_ROWS;
            weighted_look(job, copied, &next);
            __pipeline_commit();
        } else {
            sum = weighted_take(stages[stage], job.count - first, place, sum);
        }
        stage = stage_after(stage);
        free = stage_after(free);
    }
    uint32_t column = blockIdx.x * WEIGHTED_COLUMNS + place;
    if (copies || threadIdx.x >= WEIGHTED_COPIERS + WEIGHTED_COLUMNS || column >= job.dimension)
        return;
    if (job.divide)
        sum = job.count == 0 || job.total == 0.0f ? 0.0f : canonical_divide(sum, job.total);
    job.out[column] = sum;
}

static int weighted_enqueue(struct weighted_job job, const struct cuda_rows *rows,
                            cudaStream_t stream)
{
    if (rows->dimension == 0) return cudaSuccess;
    job.rows = rows->rows;
    job.dimension = rows->dimension;
    job.stride = (uint32_t)vector_stride(rows->dimension);
    weighted_sum_kernel<<<blocks_for(rows->dimension, WEIGHTED_COLUMNS), WEIGHTED_THREADS, 0,
                          stream>>>(job);
    return cudaGetLastError();
}

extern "C" int cuda_weighted_sum(const struct cuda_rows *rows, const uint32_t *positions,
                                 const float *weights, uint64_t count, float *sums,
                                 struct CUstream_st *stream)
{
    struct weighted_job job = {};
    job.positions = positions;
    job.weights = weights;
    job.count = count;
    job.out = sums;
    return weighted_enqueue(job, rows, stream);
}

extern "C" int cuda_weighted_average(const struct cuda_rows *rows, const uint32_t *positions,
                                     const float *weights, uint64_t count, float total,
                                     float *averages, struct CUstream_st *stream)
{
    struct weighted_job job = {};
    job.positions = positions;
    job.weights = weights;
    job.count = count;
    job.out = averages;
    job.total = total;
    job.divide = true;
    return weighted_enqueue(job, rows, stream);
}
