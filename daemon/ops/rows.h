/* rows: the rows that queries are scored against: a collection in storage order, some of its rows,
 * or rows that came with the request.
 * Owner:  the operation's scratch.
 * Thread: the source is shared and const; each worker has a buffer of its own.
 * Errors: rows_score says which inline row is not finite or overflows. */
#ifndef ENGRAM_OPS_ROWS_H
#define ENGRAM_OPS_ROWS_H

#include "daemon/ops/queries.h"
#include "daemon/store/collection.h"

enum { ROWS_BLOCK = 256 }; /* most rows scored at once */

struct row_source {
    const struct vector_kernels *kernels;
    const struct edition *collection; /* NULL: inline rows */
    const uint32_t *list;             /* some rows of the collection; NULL: all, in order */
    const float *inline_rows;         /* unpadded */
    uint32_t dimension;
    uint64_t count;
};

struct rows_buffer {
    float *copies; /* padded copies of rows that are not contiguous or not padded */
    float *norms;
    uint64_t *ids;
    const float **pointers;
};

/* True if rows will have to be copied, which takes most of the memory: inline rows whose dimension
 * is not a multiple of 32, or a list for more than one query. */
bool rows_want_copies(const struct row_source *s, uint64_t query_count, bool listed);
size_t rows_buffer_bytes(uint32_t dimension, bool copies);
struct rows_buffer rows_buffer_at(uint32_t dimension, bool copies, void *memory);

/* Scores every query of the set against rows [first, first + n) of the source: scores[q *
 * scores_stride + i]. Returns n, which is 1 .. min(count_max, ROWS_BLOCK). *ids: the n ids
 * (positions for inline rows), valid until the next call with this buffer. *bad: the first invalid
 * inline row, else unchanged; nothing is scored then. */
size_t rows_score(const struct row_source *s, const struct query_set *queries, enum metric metric,
                  uint64_t first, uint64_t count_max, struct rows_buffer *buffer, float *scores,
                  size_t scores_stride, const uint64_t **ids, uint64_t *bad);

/* Returns the same rows, contiguous and without scores; a list needs copies. */
struct row_block rows_block(const struct row_source *s, uint64_t first, uint64_t count_max,
                            struct rows_buffer *buffer, const uint64_t **ids, uint64_t *bad);

/* Returns the first of inline rows [first, end) that is not finite or overflows; UINT64_MAX: none
 * is. Yields. */
uint64_t rows_find_bad(const struct row_source *s, uint64_t first, uint64_t end,
                       struct rows_buffer *buffer);

/* Scores one query against rows given by number, as rows_score with a list but without ids. */
void rows_gather(const struct row_source *s, const struct query_set *query, enum metric metric,
                 const uint32_t *rows, size_t count, struct rows_buffer *buffer, float *scores);

/* Checks n inline rows from `first` on and makes a block of them (n <= rows_batch). */
size_t rows_batch(uint32_t dimension);
struct row_block rows_inline(const struct row_source *s, uint64_t first, size_t n,
                             struct rows_buffer *buffer, uint64_t *bad);

#endif
