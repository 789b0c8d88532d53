/* queries: a few queries checked, padded and packed, so that kernels can run them.
 * Owner:  the caller's memory.
 * Thread: any; no state.
 * Errors: queries_build says which query is not finite or overflows. */
#ifndef ENGRAM_EXEC_QUERIES_H
#define ENGRAM_EXEC_QUERIES_H

#include "kernels/vectors.h"

struct query_set {
    size_t count;
    const float *single; /* the query, padded, when count is 1 */
    const float *norms;
    struct query_pack pack; /* when count is more */
};

/* Memory for a set of count queries, a multiple of 64. */
size_t queries_bytes(const struct vector_kernels *kernels, uint32_t dimension, size_t count);

/* From unpadded rows, count >= 1. Returns count, or the first query that is wrong. */
size_t queries_build(const struct vector_kernels *kernels, uint32_t dimension, const float *rows,
                     size_t count, void *memory, struct query_set *out);

#endif
