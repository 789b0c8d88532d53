/* edition: what readers of a collection see: its rows as they are at one version. While an edition
 * is pinned, nothing that can be seen through it changes (collection.h).
 * Owner:  its collection.
 * Thread: any that has it pinned, or whose writer is the only user of the collection.
 * Errors: none. */
#ifndef ENGRAM_STORE_EDITION_H
#define ENGRAM_STORE_EDITION_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/vectors.h"

enum { COLLECTION_ROWS_MAX_LOG2 = 32 }; /* row numbers are u32; UINT32_MAX means none */
#define COLLECTION_NO_ROW UINT32_MAX
/* In results it fills the places of rows that there are not, so no row has it. */
#define COLLECTION_NO_ID UINT64_MAX

struct edition;

uint32_t collection_dimension(const struct edition *e);
enum metric collection_metric(const struct edition *e);
uint64_t collection_rows(const struct edition *e);
uint64_t collection_version(const struct edition *e);

/* Rows per segment: a power of two, the same for all segments of a collection. */
size_t collection_segment_rows(const struct edition *e);

/* Rows [first, first + count) as one block; they must lie within one segment. ids_out (may be
 * NULL) gets their ids. */
struct row_block collection_block(const struct edition *e, uint64_t first, size_t count,
                                  const uint64_t **ids_out);

const float *collection_row(const struct edition *e, uint32_t row);
float collection_norm(const struct edition *e, uint32_t row);
uint64_t collection_id(const struct edition *e, uint32_t row);
/* Copies the ids of rows [first, first + count). */
void collection_copy_ids(const struct edition *e, uint64_t first, uint64_t count, uint64_t *ids);
/* Returns the row of an id, or COLLECTION_NO_ROW. */
uint32_t collection_find_row(const struct edition *e, uint64_t id);
/* Finds the rows of many ids, hiding memory latency. Returns how many were found. */
uint64_t collection_find_rows(const struct edition *e, const uint64_t *ids, size_t count,
                              uint32_t *rows);

#endif
