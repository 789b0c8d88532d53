/* operation_inside: what the operations' files share: places in scratch, failures that parts note,
 * shapes of results, checks against the collection, what a GPU is told.
 * Owner:  ops.
 * Thread: as each function says; a layout belongs to one plan.
 * Errors: in job->failure. */
#ifndef ENGRAM_OPS_OPERATION_INSIDE_H
#define ENGRAM_OPS_OPERATION_INSIDE_H

#include <inttypes.h>
#include <string.h>

#include "daemon/ops/operation.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"
#include "kernels/vectors.h"

static inline void *scratch_at(const struct job *j, uint64_t offset)
{
    return (char *)j->plan.scratch.data + offset;
}

/* The smallest row that is wrong, noted by any part: the same for every split. */
#define NO_ROW UINT64_MAX
static inline void note_smallest(_Atomic uint64_t *smallest, uint64_t row)
{
    uint64_t seen = atomic_load_explicit(smallest, memory_order_relaxed);
    while (row < seen && !atomic_compare_exchange_weak(smallest, &seen, row))
        ;
}

static inline bool is_present(const struct tensor *t)
{
    return t->dtype != DTYPE_NONE;
}

static inline uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t pieces_of(uint64_t count, uint64_t piece)
{
    return (count + piece - 1) / piece;
}

/* Shape of result tensor i; its memory comes with operation_take_result. */
void operation_shape(struct job *j, uint32_t i, enum dtype dtype, uint64_t rows, uint64_t columns);

/* Version, nodes and edges of the graph. */
void operation_note_graph(struct job *j);

/* INVALID_ARGUMENT/BAD_DIMENSION unless t has as many columns as the collection's dimension or,
 * without one, 1 .. 16384 columns. *dimension is set. */
enum status operation_check_dimension(struct job *j, const struct tensor *t, const char *what,
                                      uint32_t *dimension);

/* What a GPU process finds at a place of this process; what lies outside the heap makes j unfit. */
uint64_t operation_gpu_place(struct job *j, const void *p);
/* Zeroes j->gpu.order and fills what every request has: queries, and rows, the collection's or those
 * that came with it. */
struct order_run *operation_gpu_order(struct job *j, enum run_operation operation,
                                      enum metric metric);

/* The metric asked for, else the collection's. INVALID_ARGUMENT/BAD_METRIC. */
enum status operation_check_metric(struct job *j, enum metric *metric);

#endif
