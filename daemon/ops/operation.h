/* operation: how each operation becomes parts that CPU workers run (op_*.c fill the table).
 * Owner:  exec.
 * Thread: plan runs on the loop; parts and finish on workers.
 * Errors: plan: INVALID_ARGUMENT what the collection's shape reveals, RESOURCE_EXHAUSTED for
 *         scratch or a reply past its bound; the job is unchanged but for its failure.
 *
 * A plan must not do work that grows with rows: it takes memory and sets numbers. When it
 * fails, scratch and result block have been given back.
 *
 * gpu_plan is under the same rule and fills job->gpu; see base/job.h. It may run again for a job
 * that the CPU then plans anew, so it leaves the request alone. */
#ifndef ENGRAM_OPS_OPERATION_H
#define ENGRAM_OPS_OPERATION_H

#include "daemon/base/job.h"

struct operation_ops {
    enum operation operation;
    enum status (*plan)(struct job *j);
    /* For the GPU process; both NULL: it cannot do this operation. */
    enum status (*gpu_plan)(struct job *j);
    /* How many pairs of rows j asks for; 0: so shaped, it is for the CPU. */
    uint64_t (*gpu_pairs)(const struct job *j);
};

/* What j stands in line for: a collection and a graph both begin with their resident; NULL: neither. */
static inline struct resident *job_resident(const struct job *j)
{
    return j->collection ? (struct resident *)j->collection : (struct resident *)j->graph;
}

/* 0: the GPU process cannot do it. */
uint64_t operation_gpu_pairs(const struct job *j);

/* What j asks for, in numbers. For a holder of its collection's turnstile. */
struct work operation_work(const struct job *j);

/* Whether several j may run as one (exec/batch.h): then j->collection is the key. */
bool operation_batches(const struct job *j);
/* Whether j may be cut into ranges of its queries, run on different backends. */
bool operation_splits(const struct job *j);

/* NULL: the loop answers it by itself. */
const struct operation_ops *operation_find(enum operation operation);

/* Takes a result block for count tensors whose dtype, rows and columns are set, sets data and
 * body_bytes, and zeroes the gaps between them. A part (exec/parts.h) gets its lines of the whole's
 * block instead. RESOURCE_EXHAUSTED: REPLY_TOO_LARGE, MEMORY. */
enum status operation_take_result(struct job *j, uint32_t count);

/* Takes scratch (64-byte aligned, contents undefined). RESOURCE_EXHAUSTED/MEMORY. */
enum status operation_take_scratch(struct job *j, uint64_t bytes);

extern const struct operation_ops operation_knn, operation_knn_batch, operation_similarity,
    operation_score_candidates, operation_norms, operation_weighted_average, operation_upsert,
    operation_delete, operation_fetch, operation_drop, operation_spread, operation_graph_add_edges,
    operation_graph_add_csr, operation_graph_remove_edges, operation_graph_set_nodes,
    operation_graph_remove_nodes, operation_graph_fetch_nodes, operation_graph_drop;

#endif
