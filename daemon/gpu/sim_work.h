/* sim_work: one piece of enqueued work: checks the memory that it uses, and does it with the CPU's
 * kernels.
 * Owner:  device_sim, in a stream's queue.
 * Thread: the device thread only.
 * Errors: what a device would not survive ends the process: sim_misuse. */
#ifndef ENGRAM_GPU_SIM_WORK_H
#define ENGRAM_GPU_SIM_WORK_H

#include "daemon/base/clock.h"
#include "daemon/gpu/device_call.h"
#include "daemon/gpu/sim_memory.h"

enum sim_work_kind { WORK_COPY_IN, WORK_COPY_OUT, WORK_COPY, WORK_CLEAR, WORK_KERNEL };

struct sim_work {
    enum sim_work_kind kind;
    void *to; /* for copies and clearing */
    const void *from;
    uint64_t bytes;
    struct device_call call; /* for kernels */
    float threshold;         /* of a top-k, as it was when the work was enqueued */
    uint64_t ready_ns;       /* DIRECT: no result comes before this time */
    bool lost;               /* DIRECT: no result comes at all */
};

/* Returns the call as work. */
struct sim_work sim_work_of(const struct device_call *call);

struct sim_bench;

const char *sim_work_name(const struct sim_work *w);
/* Checks that all memory that it will use is mapped, pinned, aligned and large enough. */
void sim_work_check(const struct sim_work *w, const struct sim_memory *m);

/* Takes the host memory that work needs; NULL: there is none. pass_sets: see sim_settings.h. */
struct sim_bench *sim_bench_create(const struct sim_memory *m, const struct clock *clock,
                                   uint32_t pass_sets);
void sim_bench_destroy(struct sim_bench *b);
void sim_work_run(const struct sim_work *w, struct sim_bench *b);

/* A top-k's scratch: about what the real one asks for. */
static inline uint64_t sim_topk_scratch(uint64_t query_count, uint32_t k, uint64_t list_rows)
{
    uint64_t a_query = 8 + 3 * sizeof(uint32_t) + 2 * k * sizeof(struct topk_entry) +
                       list_rows * sizeof(struct topk_entry);
    return (query_count * a_query + 7 * 256) / 256 * 256;
}
static inline uint64_t sim_topk_scratch_min(uint64_t query_count, uint32_t k, uint64_t row_count)
{
    return sim_topk_scratch(query_count, k, row_count < 64 ? row_count : 64);
}
static inline uint64_t sim_topk_scratch_best(uint64_t query_count, uint32_t k, uint64_t row_count)
{
    uint64_t most = k < 512 ? 2048 : 4 * (uint64_t)k;
    return sim_topk_scratch(query_count, k, row_count < most ? row_count : most);
}
static inline uint64_t sim_direct_scratch_min(uint32_t k)
{
    return k ? sim_topk_scratch_min(1, k, 64) : 0;
}
static inline uint64_t sim_direct_scratch_best(uint32_t k)
{
    return k ? sim_topk_scratch_best(1, k, 2048) : 0;
}

#endif
