/* batch_groups: tickets grouped by tenant, server and batch key, in queue order: those that could
 * run as one job, and those of a key that are in flight.
 * Owner:  the scheduler.
 * Thread: the loop.
 * Errors: none; the tickets carry the links. */
#ifndef ENGRAM_SCHED_BATCH_GROUPS_H
#define ENGRAM_SCHED_BATCH_GROUPS_H

#include "daemon/base/ticket.h"
#include "daemon/sched/principal.h"

enum { BATCH_GROUPS_CHAINS = 1024 };

/* Hash chains of groups; a group is represented by its first ticket. */
struct batch_groups {
    struct ticket *chains[BATCH_GROUPS_CHAINS];
};

/* Adds t to its group, or removes it; a ticket without a key is ignored. */
void batch_groups_add(struct batch_groups *m, struct ticket *t);
void batch_groups_add_front(struct batch_groups *m, struct ticket *t);
void batch_groups_remove(struct batch_groups *m, struct ticket *t);

/* The first or the last of t's mates, which mate_next links; NULL: it has none. */
struct ticket *batch_groups_first(const struct batch_groups *m, const struct ticket *t);
struct ticket *batch_groups_last(const struct batch_groups *m, const struct ticket *t);
/* Returns the queries of all of t's mates together. */
uint64_t batch_groups_queries(const struct batch_groups *m, const struct ticket *t);

/* True if both have the same tenant, server and key. */
static inline bool batch_groups_are(const struct ticket *a, const struct ticket *b)
{
    return a->batch_key == b->batch_key && a->tenancy->tenant == b->tenancy->tenant &&
           a->server == b->server;
}

#endif
