/* cluster_near: what both the CPU and a device keep of a clustering's clusters: of one cluster the
 * nearest others, a bounded number, and a bound on all that are not among them; and the order of
 * pairs.
 * Owner:  a clustering's scratch.
 * Thread: one at a time.
 * Errors: none.
 *
 * For one cluster, pairs rank by value, then by the other's id, which is the rule's order: of two
 * pairs (smaller id, larger id) of one cluster, the one with the lower other id comes first. What
 * is not in a list ranks at its bound or behind it. Entries of clusters that are gone stay until
 * they are met: a cluster is another one after each of its merges, so an entry says of which merge
 * it is. */
#ifndef ENGRAM_KERNELS_CLUSTER_NEAR_H
#define ENGRAM_KERNELS_CLUSTER_NEAR_H

#include "kernels/canonical.h"

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

/* The best pair of a cluster, or of several. */
struct cluster_best {
    float value; /* -infinity: none */
    uint32_t low, high;
    uint32_t owner;
    bool certain; /* false: there may be such a pair, and the owner's nearest must be found */
};

CANONICAL_INLINE void cluster_near_clear(struct cluster_near *n)
{
    const struct cluster_pair none = {-INFINITY, 0, 0};
    n->count = 0;
    n->bound = none;
}

CANONICAL_INLINE bool cluster_pair_before(const struct cluster_pair *a,
                                          const struct cluster_pair *b)
{
    return a->value != b->value ? a->value > b->value : a->id < b->id;
}

CANONICAL_INLINE void cluster_near_drop_gone(struct cluster_near *n, const uint32_t *births)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n->count; i++)
        if (births[n->pairs[i].id] == n->pairs[i].birth) n->pairs[kept++] = n->pairs[i];
    n->count = kept;
}

/* Offers a pair whose value reaches the threshold. births: by id; entries that are gone make room
 * first. */
CANONICAL_INLINE void cluster_near_offer(struct cluster_near *n, struct cluster_pair p,
                                         const uint32_t *births)
{
    uint32_t at;
    if (!cluster_pair_before(&p, &n->bound)) return;
    if (n->count == CLUSTER_NEAR_MAX) cluster_near_drop_gone(n, births);
    if (n->count == CLUSTER_NEAR_MAX) {
        const struct cluster_pair last = n->pairs[CLUSTER_NEAR_MAX - 1];
        bool fits = cluster_pair_before(&p, &last);
        n->bound = fits ? last : p;
        if (!fits) return;
        n->count--;
    }
    for (at = n->count; at > 0 && cluster_pair_before(&p, &n->pairs[at - 1]); at--)
        n->pairs[at] = n->pairs[at - 1];
    n->pairs[at] = p;
    n->count++;
}

/* Adds what `from`, which is about other candidates, has and does not have. */
CANONICAL_INLINE void cluster_near_join(struct cluster_near *n, const struct cluster_near *from,
                                        const uint32_t *births)
{
    for (uint32_t i = 0; i < from->count; i++)
        cluster_near_offer(n, from->pairs[i], births);
    if (!cluster_pair_before(&from->bound, &n->bound)) return;
    n->bound = from->bound;
    while (n->count > 0 && !cluster_pair_before(&n->pairs[n->count - 1], &n->bound))
        n->count--;
}

CANONICAL_INLINE struct cluster_best cluster_best_of_pair(uint32_t owner,
                                                          const struct cluster_pair *p,
                                                          bool certain)
{
    bool first = owner < p->id;
    const struct cluster_best best = {p->value, first ? owner : p->id, first ? p->id : owner, owner,
                                      certain};
    return best;
}

/* Drops what is gone from the front of id's list. Returns its nearest, which no other precedes; or,
 * if none is known, what there may be. */
CANONICAL_INLINE struct cluster_best cluster_near_best(struct cluster_near *n, uint32_t id,
                                                       const uint32_t *births)
{
    const struct cluster_best none = {-INFINITY, 0, 0, 0, false};
    uint32_t gone = 0;
    while (gone < n->count && births[n->pairs[gone].id] != n->pairs[gone].birth)
        gone++;
    n->count -= gone;
    for (uint32_t i = 0; gone && i < n->count; i++)
        n->pairs[i] = n->pairs[i + gone];
    if (n->count) return cluster_best_of_pair(id, &n->pairs[0], true);
    return n->bound.value == -INFINITY ? none : cluster_best_of_pair(id, &n->bound, false);
}

/* The rule's order; of one pair, known comes before possible. */
CANONICAL_INLINE bool cluster_best_before(const struct cluster_best *a,
                                          const struct cluster_best *b)
{
    if (a->value != b->value) return a->value > b->value;
    if (a->low != b->low) return a->low < b->low;
    if (a->high != b->high) return a->high < b->high;
    return a->certain && !b->certain;
}

#endif
