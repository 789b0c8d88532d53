/* spread_rows: made-up embeddings of a graph's nodes, as a spread reads them.
 * Owner:  the caller; spread_rows_free.
 * Thread: any reads them.
 * Errors: a failed allocation ends the process. */
#ifndef ENGRAM_TESTS_SUPPORT_SPREAD_ROWS_H
#define ENGRAM_TESTS_SUPPORT_SPREAD_ROWS_H

#include "kernels/spread.h"

struct spread_row;

struct spread_rows {
    struct spread_embeddings embeddings; /* owner: these rows; kernels: the scalar ones */
    struct spread_row *entries;          /* by rising id */
    uint32_t count;
    float *rows, *norms;
    uint64_t *ids; /* by row */
};

/* Rows for the nodes of g, but for about `missing` in a thousand. Some are equal to others, some
 * are zeros. The memory stays where it is; out->embeddings refers to out. */
void spread_rows_make(struct spread_rows *out, const struct spread_graph *g, uint32_t dimension,
                      uint32_t missing, uint64_t seed);
void spread_rows_free(struct spread_rows *r);

#endif
