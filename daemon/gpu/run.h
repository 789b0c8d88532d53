/* run: what the files about requests share: run.c (their way), run_plan.c (what they need), run_knn.c
 * (the k best, of one request or of several as one) and run_spread.c (spreads over graphs).
 * Owner:  the task.
 * Thread: the device thread.
 * Errors: as each function says. */
#ifndef ENGRAM_GPU_RUN_H
#define ENGRAM_GPU_RUN_H

#include "daemon/gpu/inside.h"

/* Several requests as one, as they were read out of the heap, once: what was checked is what is
 * used. Their queries and results lie one after the other on the device, in the heap apart. */
struct knn_batch {
    struct order_segment segments[ORDER_SEGMENTS_MAX];
    uint32_t count;
    uint32_t filter_count;
    uint32_t filter_of[ORDER_SEGMENT_QUERIES_MAX]; /* of each query; CUDA_FILTER_NONE */
    struct scatter queries, filters, ids, scores, counts;
    struct scatter_part query_parts[ORDER_SEGMENTS_MAX], filter_parts[ORDER_SEGMENTS_MAX];
    struct scatter_part id_parts[ORDER_SEGMENTS_MAX], score_parts[ORDER_SEGMENTS_MAX];
    struct scatter_part count_parts[ORDER_SEGMENTS_MAX];
};

/* ---- run_plan.c ---- */

/* What t needs, into t->plan: REFUSED: it makes no sense. Asked again for as long as t waits. */
enum order_result run_plan(struct gpu *g, struct task *t);

/* One more tensor of the plan: s says where it lies in the heap and how long it is. */
void plan_in(struct task_plan *p, struct section s);
void plan_out(struct task_plan *p, struct section s);
/* The same, of bytes at a place of the heap; false: outside of it. */
bool plan_in_at(struct gpu *g, struct task_plan *p, uint64_t place, uint64_t bytes);
bool plan_out_at(struct gpu *g, struct task_plan *p, uint64_t place, uint64_t bytes);
/* Numbers that kernels follow: see transfer.h. */
bool plan_numbers(struct gpu *g, struct task_plan *p, uint64_t place, uint64_t bytes,
                  enum numbers numbers, uint64_t limit);
/* The run's queries, always the first to come in: in one place of the heap. */
bool plan_queries(struct gpu *g, struct task *t);

/* Of RUN_SCORES. */
uint64_t run_columns(const struct order_run *r);

/* ---- run.c ---- */

static inline char *run_device_at(const struct gpu *g, const struct task *t, uint64_t at)
{
    return g->slab + t->block.offset + at;
}

/* On the device. */
struct cuda_queries run_queries(const struct gpu *g, const struct task *t, uint64_t first,
                                uint64_t count);

/* ---- run_knn.c ---- */

enum order_result knn_plan(struct gpu *g, struct task *t);
enum device_result knn_launch(struct gpu *g, struct task *t);
/* What the device found is in the heap: the rest of each line, and for a batch, thresholds. */
void knn_finish(struct gpu *g, struct task *t);

/* ---- run_spread.c ---- */

enum order_result spread_plan(struct gpu *g, struct task *t);
/* Whether t's replica is the graph that the order speaks of. */
bool spread_fits(const struct task *t, const struct replica *r);
enum device_result spread_launch(struct gpu *g, struct task *t);
/* out: the small part of what came back. */
enum order_result spread_drain(struct gpu *g, struct task *t, const char *out);

#endif
