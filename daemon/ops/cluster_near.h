/* cluster_near: of one cluster the nearest others, a bounded number, and a bound on all that are
 * not among them.
 * Owner:  a clustering's scratch.
 * Thread: one at a time.
 * Errors: none.
 *
 * For one cluster, pairs rank by value, then by the other's id, which is the rule's order: of two
 * pairs (smaller id, larger id) of one cluster, the one with the lower other id comes first. What
 * is not in a list ranks at its bound or behind it. Entries of clusters that are gone stay until
 * they are met: a cluster is another one after each of its merges, so an entry says of which merge
 * it is. */
#ifndef ENGRAM_OPS_CLUSTER_NEAR_H
#define ENGRAM_OPS_CLUSTER_NEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLUSTER_NEAR_MAX = 16 };
#define CLUSTER_GONE UINT32_MAX /* as a birth: the id is no cluster's any more */

struct cluster_pair {
    float value;
    uint32_t id;    /* of the other */
    uint32_t birth; /* the merge that made it; 0: none did */
};

struct cluster_near {
    uint32_t count;
    struct cluster_pair bound; /* value -infinity: nothing outside reaches the threshold */
    struct cluster_pair pairs[CLUSTER_NEAR_MAX]; /* in order */
};

void cluster_near_clear(struct cluster_near *n);

/* Offers a pair whose value reaches the threshold. births: by id; entries that are gone make room
 * first. */
void cluster_near_offer(struct cluster_near *n, struct cluster_pair p, const uint32_t *births);

/* Adds what `from`, which is about other candidates, has and does not have. */
void cluster_near_join(struct cluster_near *n, const struct cluster_near *from,
                       const uint32_t *births);

/* Drops what is gone from the front. Returns the nearest, which no other precedes; NULL: none is
 * known, and the bound tells what there may be. */
const struct cluster_pair *cluster_near_first(struct cluster_near *n, const uint32_t *births);

static inline bool cluster_pair_before(const struct cluster_pair *a, const struct cluster_pair *b)
{
    return a->value != b->value ? a->value > b->value : a->id < b->id;
}

#endif
