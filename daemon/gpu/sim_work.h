/* sim_work: one piece of enqueued work: what it may touch, and doing it with the CPU's kernels.
 * Owner:  device_sim, in a stream's queue.
 * Thread: the device thread only.
 * Errors: what a device would have choked on ends the process: sim_misuse. */
#ifndef ENGRAM_GPU_SIM_WORK_H
#define ENGRAM_GPU_SIM_WORK_H

#include "daemon/base/clock.h"
#include "daemon/gpu/sim_memory.h"
#include "kernels/cuda/spread_cuda.h"
#include "kernels/cuda/vectors_cuda.h"

enum sim_work_kind {
    WORK_COPY_IN,
    WORK_COPY_OUT,
    WORK_CLEAR,
    WORK_NORMS,
    WORK_SCAN,
    WORK_TILE,
    WORK_TOPK,
    WORK_GATHER_LISTS,
    WORK_AVERAGE,
    WORK_SPREAD,
};

struct sim_work {
    enum sim_work_kind kind;
    enum metric metric;
    void *to; /* copies, clear */
    const void *from;
    uint64_t bytes;
    struct cuda_rows rows;
    struct cuda_queries queries;
    float *out; /* norms, scores, average */
    uint64_t scores_stride;
    struct cuda_topk topk; /* threshold is read when it is enqueued */
    float threshold;
    const uint32_t *positions;
    const uint64_t *offsets;
    const float *weights;
    uint64_t count; /* of positions */
    float total;
    struct cuda_spread spread;
};

struct sim_bench;

const char *sim_work_name(const struct sim_work *w);
/* All that it will touch is mapped, pinned, aligned and large enough. */
void sim_work_check(const struct sim_work *w, const struct sim_memory *m);

/* The host memory that work needs; NULL: none left. */
struct sim_bench *sim_bench_create(const struct sim_memory *m, const struct clock *clock);
void sim_bench_destroy(struct sim_bench *b);
void sim_work_run(const struct sim_work *w, struct sim_bench *b);

uint64_t sim_topk_scratch_min(uint64_t query_count, uint32_t k, uint64_t row_count);
uint64_t sim_topk_scratch_best(uint64_t query_count, uint32_t k, uint64_t row_count);

#endif
