/* save_pins: what a snapshot reads: editions of all that is saved, pinned in one turn of the loop,
 * which stay as they are, and residents, which stay where they are even if they are dropped. What
 * they keep of a space is lent to it beyond its quota.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: as each function says; nothing is pinned then. */
#ifndef ENGRAM_REQUEST_SAVE_PINS_H
#define ENGRAM_REQUEST_SAVE_PINS_H

#include "daemon/request/pipeline_inside.h"

/* Leaves the items of spaces that are named, each ended by a 0; every name must be one that has
 * something: NOT_FOUND. */
enum status save_pins_choose(const struct tensor *spaces, struct save_item *items, uint64_t *count,
                             struct failure *f);
/* UNAVAILABLE: a writer has one of them in place, or an attractor has no weights yet;
 * RESOURCE_EXHAUSTED. */
enum status save_pins_hold(struct pipeline *p, const struct save_item *items, uint64_t count,
                           struct failure *f);
/* Of the first `count` items; the others stay. */
void save_pins_leave(struct pipeline *p, uint64_t count);
void save_pins_leave_all(struct pipeline *p);
/* True if one keeps memory that nobody else would: it was written or dropped. */
bool save_pins_keep(const struct pipeline *p);

#endif
