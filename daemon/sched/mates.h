/* mates: tickets by tenant, server and batch key, in the order of their line: who could run as one,
 * and what of a key is in flight.
 * Owner:  the scheduler.
 * Thread: the loop.
 * Errors: none; the tickets carry the links. */
#ifndef ENGRAM_SCHED_MATES_H
#define ENGRAM_SCHED_MATES_H

#include "daemon/base/ticket.h"

enum { MATES_CHAINS = 1024 };

/* Chains of groups, each group by its first ticket. */
struct mates {
    struct ticket *chains[MATES_CHAINS];
};

/* A ticket without a key is in no chain: nothing happens. */
void mates_add(struct mates *m, struct ticket *t);
void mates_add_front(struct mates *m, struct ticket *t);
void mates_remove(struct mates *m, struct ticket *t);

/* Of those that are t's mates, linked by mate_next: the first, or the last; NULL: none. */
struct ticket *mates_first(const struct mates *m, const struct ticket *t);
struct ticket *mates_last(const struct mates *m, const struct ticket *t);

/* Same tenant, same server, same key. */
static inline bool mates_are(const struct ticket *a, const struct ticket *b)
{
    return a->batch_key == b->batch_key && a->tenant == b->tenant && a->server == b->server;
}

#endif
