#include "daemon/ops/cluster_near.h"

#include <math.h>
#include <string.h>

void cluster_near_clear(struct cluster_near *n)
{
    n->count = 0;
    n->bound = (struct cluster_pair){.value = -INFINITY};
}

static void drop_gone(struct cluster_near *n, const uint32_t *births)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n->count; i++)
        if (births[n->pairs[i].id] == n->pairs[i].birth) n->pairs[kept++] = n->pairs[i];
    n->count = kept;
}

void cluster_near_offer(struct cluster_near *n, struct cluster_pair p, const uint32_t *births)
{
    uint32_t at;
    if (!cluster_pair_before(&p, &n->bound)) return;
    if (n->count == CLUSTER_NEAR_MAX) drop_gone(n, births);
    if (n->count == CLUSTER_NEAR_MAX) {
        struct cluster_pair *last = &n->pairs[CLUSTER_NEAR_MAX - 1];
        bool fits = cluster_pair_before(&p, last);
        n->bound = fits ? *last : p;
        if (!fits) return;
        n->count--;
    }
    for (at = n->count; at > 0 && cluster_pair_before(&p, &n->pairs[at - 1]); at--)
        ;
    memmove(&n->pairs[at + 1], &n->pairs[at], (n->count - at) * sizeof p);
    n->pairs[at] = p;
    n->count++;
}

void cluster_near_join(struct cluster_near *n, const struct cluster_near *from,
                       const uint32_t *births)
{
    for (uint32_t i = 0; i < from->count; i++)
        cluster_near_offer(n, from->pairs[i], births);
    if (!cluster_pair_before(&from->bound, &n->bound)) return;
    n->bound = from->bound;
    while (n->count > 0 && !cluster_pair_before(&n->pairs[n->count - 1], &n->bound))
        n->count--;
}

const struct cluster_pair *cluster_near_first(struct cluster_near *n, const uint32_t *births)
{
    uint32_t gone = 0;
    while (gone < n->count && births[n->pairs[gone].id] != n->pairs[gone].birth)
        gone++;
    n->count -= gone;
    memmove(n->pairs, n->pairs + gone, n->count * sizeof *n->pairs);
    return n->count ? n->pairs : NULL;
}
