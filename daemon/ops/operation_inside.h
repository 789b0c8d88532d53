/* operation_inside: what the files of operations share: places in scratch, failures that parts
 * note, shapes of results, checks against the collection, orders for a GPU.
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

static inline void *exchange_at(const struct job *j, uint64_t offset)
{
    return (char *)j->plan.exchange.data + offset;
}

/* The first invalid row that any part has noted; the same however the work is split. */
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

/* Sets the shape of result tensor i; operation_take_result takes its memory. */
void operation_shape(struct job *j, uint32_t i, enum dtype dtype, uint64_t rows, uint64_t columns);

/* Notes the versions of all that j names, of which what it writes is complete, and the rows of the
 * collection that it writes. */
void operation_note_objects(struct job *j);

/* The plan of a dry run, whose request is right: what there is to say is said already. Returns OK.
 */
enum status operation_rehearse(struct job *j);

/* Notes the graph's version, nodes and edges for the reply. */
void operation_note_graph(struct job *j);

/* INVALID_ARGUMENT/BAD_DIMENSION unless t has as many columns as the collection has dimensions or,
 * without a collection, 1 .. 16384 columns. Sets *dimension. */
enum status operation_check_dimension(struct job *j, const struct tensor *t, const char *what,
                                      uint32_t *dimension);

/* Writes the rows of n ids from the `first` on, FIND_BATCH at most, since it yields before.
 * NOT_FOUND/UNKNOWN_ID: the collection has not all of them; the text begins with `what` they are,
 * unless that is NULL. Workers only. */
enum { FIND_BATCH = 64 };
enum status operation_find_rows(struct job *j, const char *what, const struct edition *collection,
                                const uint64_t *ids, uint64_t first, size_t n, uint32_t *rows);

/* Returns the pairs of all members of a batch (operation_gpu_pairs). */
uint64_t operation_batch_pairs(const struct job *c);

/* Returns the heap's offset of p for a GPU process; p outside of the heap makes j unfit. */
uint64_t operation_gpu_place(struct job *j, const void *p);
/* Zeroes j->gpu.order and fills in what every request has: queries, and the rows, which are the
 * collection's or came with the request. */
struct order_run *operation_gpu_order(struct job *j, enum run_operation operation,
                                      enum metric metric);

/* Returns the metric that the request names, or the collection's. INVALID_ARGUMENT/BAD_METRIC. */
enum status operation_check_metric(struct job *j, enum metric *metric);

#endif
