/* filter: allowed ids -> rows of a collection, as a list or as a bitmap over rows, whichever the
 * scan wants.
 * Owner:  the operation's scratch.
 * Thread: one worker, in prepare.
 * Errors: INVALID_ARGUMENT/BAD_FILTER for both kinds at once. */
#ifndef ENGRAM_OPS_FILTER_H
#define ENGRAM_OPS_FILTER_H

#include "daemon/base/job.h"

struct filtered {
    const uint32_t *list;   /* rows; NULL: none, or see bitmap */
    const uint64_t *bitmap; /* bit r: row r is allowed; NULL: see list */
    uint64_t count;         /* allowed rows */
};

/* What the caller can use: a list; a bitmap; either, whichever suits the CPU's scan. A list from
 * ids is in the order given, one from a bitmap in storage order. */
enum filter_want { FILTER_LIST, FILTER_BITMAP, FILTER_EITHER };

bool filter_is_given(const struct job *j);
enum status filter_check(struct job *j);

/* How many ids it can allow at most, by its shape alone. */
uint64_t filter_allows(const struct job *j);
/* So few rows of the collection that a GPU, which scans them all, would take longer than the CPU
 * gathering these. */
bool filter_is_scant(const struct job *j, uint64_t allowed);
/* It can allow no more than the CPU would gather. False without a filter. */
bool filter_gathers(const struct job *j);

/* Scratch that filter_resolve wants: at most an eighth of a byte a row of the collection, and
 * 15 bytes a listed id or 4 a row that a bitmap can allow. */
uint64_t filter_bytes(const struct job *j, enum filter_want want);

/* Unknown and repeated ids fall out. */
struct filtered filter_resolve(const struct job *j, enum filter_want want, void *memory);

#endif
