/* collection: named float32 rows of one dimension and metric with u64 ids: the host truth.
 * Rows lie dense in segments of the heap, padded to 32 floats; norms and ids beside them; an open
 * addressing index leads from id to row. Delete moves the last row into the hole.
 * Owner:  its space.
 * Thread: the loop owns name, turnstile and lifetime. Rows belong to whoever holds the turnstile:
 *         many readers, or one writer (collection_upsert, _delete, _destroy), on any thread.
 * Errors: as each function says; a failed call leaves the collection as it was. */
#ifndef ENGRAM_STORE_COLLECTION_H
#define ENGRAM_STORE_COLLECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/status.h"
#include "daemon/store/resident.h"
#include "daemon/store/space.h"
#include "kernels/vectors.h"

enum { COLLECTION_ROWS_MAX_LOG2 = 32 }; /* row numbers are u32; UINT32_MAX means none */
#define COLLECTION_NO_ROW UINT32_MAX

struct collection;

struct collection_info {
    const char *name;
    uint32_t dimension;
    enum metric metric;
    uint64_t rows;
    uint64_t version;
    uint64_t row_bytes;   /* in segments, padded */
    uint64_t index_bytes; /* ids, norms, index */
    uint64_t vram_bytes;  /* of its replicas; the pipeline asks the GPU backend, here 0 */
    uint64_t vram_version;
};

/* What it has in common with a graph, and the thin ways there. */
struct resident *collection_resident(struct collection *c);
struct space *collection_space(const struct collection *c);
struct turnstile *collection_turnstile(struct collection *c);
struct collection_info collection_info(const struct collection *c);
uint32_t collection_dimension(const struct collection *c);
enum metric collection_metric(const struct collection *c);
uint64_t collection_rows(const struct collection *c);
uint64_t collection_version(const struct collection *c);

/* ---- readers ---- */

/* Rows per segment: a power of two, the same for all segments of a collection. */
size_t collection_segment_rows(const struct collection *c);

/* Rows [first, first + count) as one block; they must lie within one segment. ids_out (may be
 * NULL) gets their ids. */
struct row_block collection_block(const struct collection *c, uint64_t first, size_t count,
                                  const uint64_t **ids_out);

const float *collection_row(const struct collection *c, uint32_t row);
float collection_norm(const struct collection *c, uint32_t row);
uint64_t collection_id(const struct collection *c, uint32_t row);
/* Row of an id, or COLLECTION_NO_ROW. */
uint32_t collection_find_row(const struct collection *c, uint64_t id);
/* The same for many ids, hiding memory latency. Returns how many were found. */
uint64_t collection_find_rows(const struct collection *c, const uint64_t *ids, size_t count,
                              uint32_t *rows);

/* ---- a copy elsewhere ---- */

/* Whatever keeps a copy of the rows hangs its own record here; NULL at first. The loop alone. */
void *collection_replica(const struct collection *c);
void collection_set_replica(struct collection *c, void *replica);

/* Rows changed since they were last said to be clean; all, at first. These are the loop's, while a
 * reader holds the turnstile. */

/* From now on changes are told apart. False: no memory; every row counts as dirty. */
bool collection_track(struct collection *c);
/* The first run of dirty rows at or after `from` (0, or the end of another run), within one
 * segment. False: there is none. */
bool collection_next_dirty(const struct collection *c, uint64_t from, uint64_t *first,
                           uint64_t *count);
/* Such a run is clean now. */
void collection_clean(struct collection *c, uint64_t first, uint64_t count);
/* Every row is dirty, and changes are not told apart any more. */
void collection_soil(struct collection *c);
/* Of dirty rows, padded. */
uint64_t collection_dirty_bytes(const struct collection *c);

/* ---- writer ---- */

struct upsert_counts {
    uint64_t inserted, replaced;
};

/* n rows of exactly `dimension` floats each (unpadded, row-major, 64-byte aligned base), n ids
 * (8-byte aligned). INVALID_ARGUMENT naming the row or id: NOT_FINITE, NORM_OVERFLOW,
 * DUPLICATE_ID; RESOURCE_EXHAUSTED: MEMORY, TOO_MANY_ROWS. All or nothing; the version rises by
 * one on success; n = 0 changes nothing. */
enum status collection_upsert(struct collection *c, const uint64_t *ids, const float *rows,
                              uint64_t n, struct upsert_counts *out, struct failure *f);

/* Unknown and repeated ids count as missing. The version rises if anything was deleted. Memory of
 * emptied segments goes back to the system. */
void collection_delete(struct collection *c, const uint64_t *ids, uint64_t n, uint64_t *deleted,
                       uint64_t *missing);

/* Deletes every row and gives the memory back to the system; what remains is small. Lets a worker
 * do the slow part of a drop before the loop destroys the collection. */
void collection_clear(struct collection *c);

/* After store_collection_unlink, or on a collection never linked. Gives the memory back to the
 * system. NULL is fine. */
void collection_destroy(struct collection *c);

#endif
