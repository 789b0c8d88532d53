#include "daemon/gpu/evict.h"

#include "daemon/gpu/replica.h"
#include "daemon/gpu/replica_shadow.h"
#include "daemon/gpu/tasks.h"

bool evict_oldest(struct gpu *g, const struct replica *but)
{
    struct replicas *all = &g->replicas;
    struct replica *r = all->oldest;
    if (replica_shadow_evict(g, but)) return true;
    /* The analyzer does not see that a dropped replica has left the list.
     * NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    while (r && (replica_in_use(r) || r == but || replica_bytes(r) == 0))
        r = r->newer;
    if (!r || all->evicted_count == EVICTED_MAX) return false;
    all->evicted[all->evicted_count++] = r->id;
    atomic_fetch_add_explicit(&g->share->usage.evictions, 1, memory_order_relaxed);
    replica_drop(g, r);
    return true;
}

bool evict_tell(struct gpu *g)
{
    struct replicas *all = &g->replicas;
    bool told = false;
    while (all->evicted_count) {
        struct completion *c = ring_reserve(&g->completions);
        if (!c) break;
        *c = (struct completion){.kind = COMPLETION_EVICTED,
                                 .replica = all->evicted[--all->evicted_count]};
        ring_publish(&g->completions);
        told = true;
    }
    return told;
}
