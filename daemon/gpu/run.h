/* run: what the files about requests share: run.c (their way), run_plan.c (what they need),
 * run_rows.c (rows that come with the order; averages, norms), run_scores.c (scores of all rows or of
 * lists), run_knn.c (the k best, of one request or of several as one) and run_spread.c (spreads over
 * graphs).
 * Owner:  the task.
 * Thread: the device thread.
 * Errors: as each function says. */
#ifndef ENGRAM_GPU_RUN_H
#define ENGRAM_GPU_RUN_H

#include "daemon/gpu/tasks.h"

/* What one kind of request does on its way. */
struct run_kind {
    /* What t needs, into t->plan, which is zeroed. REFUSED: it makes no sense. Asked again for as
     * long as t waits. */
    enum order_result (*plan)(struct gpu *g, struct task *t);
    /* Whether the replica that t names is what its order speaks of. */
    bool (*fits)(const struct task *t, const struct replica *r);
    /* Enqueues the kernels of a pass. */
    enum device_result (*launch)(struct gpu *g, struct task *t);
    /* A pass is done; small: what came back of it as one copy. What is there goes to the heap, the
     * rest becomes moves of t->out. */
    enum order_result (*drain)(struct gpu *g, struct task *t, const char *small);
    /* All of the pass is in the heap: true if another one follows. */
    bool (*next)(struct gpu *g, struct task *t);
};
extern const struct run_kind run_knn, run_scores, run_lists, run_average, run_norms, run_spread;

/* NULL: there is no such request. */
const struct run_kind *run_kind_of(const struct order *o);

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

/* t->plan, by its kind. REFUSED: it makes no sense. */
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
/* The run's positions. */
bool plan_positions(struct gpu *g, struct task *t);
/* The rows, where the order brings them, and as the first thing that comes out, what the device found
 * of them. */
bool plan_rows(struct gpu *g, struct task *t);
enum order_result plan_sense(bool sound); /* OK or REFUSED */

/* ---- run.c ---- */

static inline char *run_device_at(const struct gpu *g, const struct task *t, uint64_t at)
{
    return g->slab + t->block.offset + at;
}

/* On the device. */
struct cuda_queries run_queries(const struct gpu *g, const struct task *t, uint64_t first,
                                uint64_t count);
/* The i-th of t->plan.out, of the last pass, in VRAM. */
char *run_out_at(const struct gpu *g, const struct task *t, uint32_t i);

/* One tensor that came back, whole: out of `small`, or by a move. */
void run_give(struct gpu *g, struct task *t, const struct section *s, const char *small);
/* Slots of a kind that all tensors of t->plan.out come back for, in one pass. */
enum order_result run_drain_all(struct gpu *g, struct task *t, const char *small);
bool run_next_none(struct gpu *g, struct task *t);

/* ---- run_rows.c ---- */

static inline bool run_brings_rows(const struct task *t)
{
    return t->order.kind == ORDER_RUN && t->order.run.rows != PLACE_NONE;
}

/* On the device: the replica's, or those that came. */
struct cuda_rows run_rows(const struct gpu *g, const struct task *t);
/* Enqueues the norms of rows that came, and the search for one that is bad. */
enum device_result run_check_rows(struct gpu *g, struct task *t);
/* What came of it; BAD_ROW sets t->number. */
enum order_result run_checked(struct task *t, const char *small);
/* run_kind.fits of collections. */
bool run_fits_rows(const struct task *t, const struct replica *r);

#endif
