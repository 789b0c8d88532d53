/* filter: turns allowed ids into rows of a collection, as a list of rows or as a bitmap over rows,
 * whichever suits the scan.
 * Owner:  the operation's scratch.
 * Thread: one worker, in prepare.
 * Errors: INVALID_ARGUMENT/BAD_FILTER if a request has both kinds. */
#ifndef ENGRAM_OPS_FILTER_H
#define ENGRAM_OPS_FILTER_H

#include "daemon/base/job.h"

struct filtered {
    const uint32_t *list;   /* rows; NULL: see bitmap, or no row is allowed */
    const uint64_t *bitmap; /* bit r: row r is allowed; NULL: see list */
    uint64_t count;         /* allowed rows */
};

/* The form that the caller can use: a list, a bitmap, or whichever is faster for the CPU's scan. A
 * list made from ids keeps their order, one made from a bitmap has storage order. */
enum filter_want { FILTER_LIST, FILTER_BITMAP, FILTER_EITHER };

bool filter_is_given(const struct job *j);
enum status filter_check(struct job *j);

/* Returns the most ids that the filter can allow, by its shape alone. */
uint64_t filter_allows(const struct job *j);
/* True if so few rows are allowed that a GPU, which scans all rows, would take longer than the
 * CPU, which gathers these. */
bool filter_is_scant(const struct job *j, uint64_t allowed);
/* True if the filter certainly allows no more rows than the CPU would gather. False without a
 * filter. */
bool filter_gathers(const struct job *j);

/* Returns the scratch that filter_resolve needs: at most an eighth of a byte for each row of the
 * collection, and 15 bytes for each listed id or 4 for each row that a bitmap can allow. */
uint64_t filter_bytes(const struct job *j, enum filter_want want);

/* Resolves the filter. Unknown and repeated ids are dropped. */
struct filtered filter_resolve(const struct job *j, enum filter_want want, void *memory);

#endif
