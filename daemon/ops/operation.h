/* operation: how each operation becomes parts that CPU workers run, or an order for a GPU (one
 * file for each fills in an operation_ops), and its work in numbers.
 * Owner:  ops.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_OPS_OPERATION_H
#define ENGRAM_OPS_OPERATION_H

#include "daemon/exec/operation.h"

/* Returns NULL if the loop answers the operation itself and there is nothing to check. */
const struct operation_ops *operation_find(uint32_t operation);

/* Checks a decoded request, whose tensors have been placed (wire/decode.h). */
enum status operation_check(struct job *j);

/* Computes j's work in numbers; j holds the turnstile of its collection. */
struct work operation_work(const struct job *j);

/* True if several such jobs may run as one (exec/batch.h); then j->collection is the key. */
bool operation_batches(const struct job *j);
/* Returns by what it is known with which others it may run; NULL: with none. */
const void *operation_batch_key(const struct job *j);
/* True if j may be cut into ranges of its queries, to run on different backends. */
bool operation_splits(const struct job *j);

#define OPERATION(NAME, number, name, ...) extern const struct operation_ops operation_##name;
#include "proto/operations.def"
extern const struct operation_ops operation_knn_batch, operation_recall_batch, operation_tables,
    operation_explain, operation_swap, operation_collection_create, operation_attractor_create;

#endif
