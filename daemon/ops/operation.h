/* operation: how each operation becomes parts that CPU workers run, or an order for a GPU (a file for
 * each fills an operation_ops), and what it asks for.
 * Owner:  ops.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_OPS_OPERATION_H
#define ENGRAM_OPS_OPERATION_H

#include "daemon/exec/operation.h"

/* NULL: the loop answers it by itself, and nothing is checked. */
const struct operation_ops *operation_find(uint32_t operation);

/* Checks a request that is decoded, its tensors placed (wire/decode.h). */
enum status operation_check(struct job *j);

/* What j asks for, in numbers. For a holder of its collection's turnstile. */
struct work operation_work(const struct job *j);

/* Whether several j may run as one (exec/batch.h): then j->collection is the key. */
bool operation_batches(const struct job *j);
/* Whether j may be cut into ranges of its queries, run on different backends. */
bool operation_splits(const struct job *j);

#define OPERATION(NAME, number, name, ...) extern const struct operation_ops operation_##name;
#include "proto/operations.def"
extern const struct operation_ops operation_knn_batch, operation_explain,
    operation_collection_create;

#endif
