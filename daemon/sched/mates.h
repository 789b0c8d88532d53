/* mates: tickets grouped by tenant, server and batch key, in queue order: those that could run as
 * one job, and those of a key that are in flight.
 * Owner:  the scheduler.
 * Thread: the loop.
 * Errors: none; the tickets carry the links. */
#ifndef ENGRAM_SCHED_MATES_H
#define ENGRAM_SCHED_MATES_H

#include "daemon/base/ticket.h"

enum { MATES_CHAINS = 1024 };

/* Hash chains of groups; a group is represented by its first ticket. */
struct mates {
    struct ticket *chains[MATES_CHAINS];
};

/* Adds t to its group, or removes it; a ticket without a key is ignored. */
void mates_add(struct mates *m, struct ticket *t);
void mates_add_front(struct mates *m, struct ticket *t);
void mates_remove(struct mates *m, struct ticket *t);

/* The first or the last of t's mates, which mate_next links; NULL: it has none. */
struct ticket *mates_first(const struct mates *m, const struct ticket *t);
struct ticket *mates_last(const struct mates *m, const struct ticket *t);

/* True if both have the same tenant, server and key. */
static inline bool mates_are(const struct ticket *a, const struct ticket *b)
{
    return a->batch_key == b->batch_key && a->tenant == b->tenant && a->server == b->server;
}

#endif
