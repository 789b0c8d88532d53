/* queries: a few queries, checked, padded and packed, so that kernels can run them.
 * Owner:  the caller's memory.
 * Thread: any; no state.
 * Errors: queries_build says which query is not finite or overflows. */
#ifndef ENGRAM_OPS_QUERIES_H
#define ENGRAM_OPS_QUERIES_H

#include "kernels/vectors.h"

struct query_set {
    size_t count;
    const float *rows; /* padded */
    const float *norms;
    struct query_pack pack;   /* if count is more than 1 */
    struct query_pack screen; /* the same, if a screen was requested */
};

/* The purpose of a set. screened: also pack for vector_kernels.screen. */
struct query_form {
    const struct vector_kernels *kernels;
    uint32_t dimension;
    bool screened;
};

/* Returns the bytes of a set of count queries, a multiple of 64. */
size_t queries_bytes(const struct query_form *form, size_t count);

/* Builds a set from unpadded rows, count >= 1, which must stay valid. Returns count, or the number
 * of the first invalid query. */
size_t queries_build(const struct query_form *form, const float *rows, size_t count, void *memory,
                     struct query_set *out);

/* Only checks the queries, with memory of queries_check_bytes, a multiple of 64. */
size_t queries_check_bytes(uint32_t dimension, size_t count);
size_t queries_find_bad(const struct vector_kernels *kernels, uint32_t dimension, const float *rows,
                        size_t count, void *memory);

#endif
