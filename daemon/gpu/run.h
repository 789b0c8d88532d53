/* run: what the files about requests share: run.c (their steps), run_plan.c (memory), run_rows.c
 * (rows that come with the order; averages, norms), run_scores.c (scores of all rows or of lists),
 * run_knn.c (the k best, of one request or several), run_shadow_only.c (the same, where rows are
 * in the heap and only their codes on the device), run_direct.c (one query, few results),
 * run_bind.c and run_product.c (rows bound), run_cleanup.c (rows unbound, and the best of a
 * codebook), run_pairs.c (for both), run_superpose.c (sums of lists), run_complete.c and
 * run_complete_engine.c (completions, by rows and by an attractor), run_covariance.c,
 * run_cluster.c, run_spread.c (over graphs) and run_recall.c (the nearest rows, a spread from them,
 * and the best of it).
 * Owner:  the task.
 * Thread: the device thread.
 * Errors: as each function says. */
#ifndef ENGRAM_GPU_RUN_H
#define ENGRAM_GPU_RUN_H

#include "daemon/gpu/replica.h"
#include "daemon/gpu/tasks.h"
#include "daemon/gpu/transfer.h"

/* The functions of one kind of request. */
struct run_kind {
    /* Writes what t needs into t->plan, which is zeroed before. REFUSED: the order is invalid.
     * Called again as long as t waits. */
    enum order_result (*plan)(struct gpu *g, struct task *t);
    /* True if the replica that t names has the shape that its order assumes. */
    bool (*fits)(const struct task *t, const struct replica *r);
    /* Enqueues the kernels of a pass. */
    enum device_result (*launch)(struct gpu *g, struct task *t);
    /* Called after a pass; small: what came back as one copy. Writes it to the heap, and makes
     * moves of t->out for the rest. */
    enum order_result (*drain)(struct gpu *g, struct task *t, const char *small);
    /* Called when all of a pass has come, before `next`, as long as it returns true: does some of
     * what the CPU has to do with it, for a millisecond at most. NULL: nothing. */
    bool (*settle)(struct gpu *g, struct task *t);
    /* Called when all of a pass is in the heap: true if another one follows. */
    bool (*next)(struct gpu *g, struct task *t);
    /* The part of the order's time that the pass enqueued last takes; NULL: there is but one. */
    double (*part)(const struct task *t);
};
#define DECLARE(NAME, number, name) extern const struct run_kind run_##name;
RUN_OPERATIONS(DECLARE)
#undef DECLARE
extern const struct run_kind run_spread, run_direct, run_shadow_only;

const struct run_kind *run_kind_of(const struct gpu *g, const struct order *o); /* or NULL */

/* Several requests as one. They are copied from the heap once, so that what was checked is what is
 * used. Their queries and results are contiguous on the device, and in separate places of the
 * heap. */
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

/* Fills t->plan by its kind. REFUSED: the order is invalid. */
enum order_result run_plan(struct gpu *g, struct task *t);

/* Adds one more tensor to the plan; s says where it is in the heap and how long it is. */
void plan_in(struct task_plan *p, struct section s);
void plan_out(struct task_plan *p, struct section s);
/* The same for bytes at a place of the heap; false: the place is outside of it. */
bool plan_in_at(struct gpu *g, struct task_plan *p, uint64_t place, uint64_t bytes);
bool plan_out_at(struct gpu *g, struct task_plan *p, uint64_t place, uint64_t bytes);
/* The same for numbers that kernels use as indices: see transfer.h. */
bool plan_numbers(struct gpu *g, struct task_plan *p, uint64_t place, uint64_t bytes,
                  enum numbers numbers, uint64_t limit);
/* Adds the run's queries, which always come in first and are in one place of the heap. */
bool plan_queries(struct gpu *g, struct task *t);
/* Adds the run's positions. */
bool plan_positions(struct gpu *g, struct task *t);
/* Adds the rows if they come with the order, and as the first result, what the device found when
 * it checked them. */
bool plan_rows(struct gpu *g, struct task *t);
enum order_result plan_sense(bool sound); /* Returns OK or REFUSED. */

/* ---- run.c ---- */

static inline char *run_device_at(const struct gpu *g, const struct task *t, uint64_t at)
{
    return g->slab + t->block.offset + at;
}

/* The queries on the device. */
struct cuda_queries run_queries(const struct gpu *g, const struct task *t, uint64_t first,
                                uint64_t count);
/* Returns where the i-th result of the last pass is in VRAM. */
char *run_out_at(const struct gpu *g, const struct task *t, uint32_t i);

/* Writes one whole result to the heap: from `small`, or by a move. */
void run_give(struct gpu *g, struct task *t, const struct section *s, const char *small);
/* Writes the last result, which is padded rows of the order's dimension, to a place of the heap,
 * `first` rows behind out_scores, without their pads. */
void run_give_rows(struct gpu *g, struct task *t, uint64_t first, uint64_t count,
                   const char *small);
/* Of a kind whose results all come back in one pass; part: whose passes take queries. */
enum order_result run_drain_all(struct gpu *g, struct task *t, const char *small);
bool run_next_none(struct gpu *g, struct task *t);
double run_part_queries(const struct task *t);
/* From here on t reads its replicas again, which no upload changes in place then. False: one has,
 * since t began. */
bool run_reread(struct task *t);

/* ---- run_direct.c ---- */

/* Pads and checks the query, and makes cells of which none has come. */
enum order_result run_direct_fill(struct gpu *g, struct task *t);

/* ---- run_knn.c ---- */

/* Reads the segments of a batch into t->batch, unless it is no batch or they are there. */
enum order_result run_knn_read(struct gpu *g, struct task *t);
/* Plans queries and filters. */
bool run_knn_plan_in(struct gpu *g, struct task *t);
/* Of the queries of this pass. */
struct cuda_filter run_knn_filter(const struct gpu *g, const struct task *t);
/* How many multiplications the device is thought to do for t in a microsecond. */
uint64_t run_knn_rate(const struct gpu *g, const struct task *t);

/* Fills a line of k places behind its count: no id, no score. */
void run_fill_rest(uint64_t *ids, float *scores, uint32_t count, uint32_t k);
/* Tells what t, which asked a shadow, found there; its read_bytes are those gone through. Queries
 * that were asked again were scored with all rows. */
void run_tell_screen(struct gpu *g, struct task *t);

/* ---- run_rows.c ---- */

/* True if the rows of a request come with its order. Not of a BIND, which has two operands. */
static inline bool run_brings_rows(const struct task *t)
{
    return t->order.kind == ORDER_RUN && t->order.run.rows != PLACE_NONE &&
           t->order.run.operation != RUN_BIND;
}

/* The rows on the device: the replica's, or those that came with the order. */
struct cuda_rows run_rows(const struct gpu *g, const struct task *t);
/* Enqueues the norms of rows, which have none yet, and the search for the first that is not finite:
 * its number goes to *bad, UINT64_MAX if there is none. */
enum device_result run_measure(struct gpu *g, struct task *t, const struct cuda_rows *rows,
                               float *norms, uint64_t *bad);
/* Enqueues the norms of rows that came with the order, and the search for an invalid one. */
enum device_result run_check_rows(struct gpu *g, struct task *t);
/* Returns the result of that check; BAD_ROW sets t->number. */
enum order_result run_checked(struct task *t, const char *small);

/* ---- run_spread.c: what a recall's spread has, too ---- */

/* True if products of these numbers cannot overflow. */
bool run_spread_makes_sense(const struct order_spread *s);
bool run_spread_fits(const struct order_spread *s, const struct replica *graph);
struct spread_graph run_spread_graph(const struct order_spread *s, const struct replica *graph);
/* Without decay, allowed and seeds, which are device memory. */
struct spread_question run_spread_question(const struct order_spread *s);
/* Returns the time that is left for the device; 0: unlimited. */
uint64_t run_spread_time_left(const struct gpu *g, uint64_t deadline_ns);
/* rows: NULL: none; tables: run_spread_table_bytes. */
struct cuda_embeddings run_spread_embeddings(const struct replica *rows, void *tables);
uint64_t run_spread_table_bytes(const struct order_spread *s);

/* run_kind.fits for collections. */
bool run_fits_rows(const struct task *t, const struct replica *r);

#endif
