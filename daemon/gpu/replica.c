#include "daemon/gpu/replica.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/gpu/tasks.h"

static uint32_t bucket_of(uint64_t id)
{
    return (uint32_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 52) % REPLICA_BUCKETS;
}

uint64_t replica_bytes(const struct replica *r)
{
    uint64_t bytes = 0;
    for (int i = 0; i < RANGES_MAX; i++)
        bytes += r->ranges[i].bytes - r->ranges[i].shared;
    return bytes;
}

uint64_t replica_mapped(const struct gpu *g, uint64_t bytes)
{
    uint64_t piece = g->ops->range_piece(g->device);
    return (bytes + piece - 1) / piece * piece;
}

uint64_t replica_shadow_bytes(const struct replica *r)
{
    uint64_t bytes = 0;
    for (int i = replica_own_ranges(r); i < RANGES_MAX; i++)
        bytes += r->ranges[i].bytes;
    return bytes;
}

uint64_t replica_shared(const struct replica *r)
{
    uint64_t bytes = 0;
    for (int i = 0; i < RANGES_MAX; i++)
        bytes += r->ranges[i].shared;
    return bytes;
}

/* ---- what a space has ---- */

/* Without shadows, which give way. *second: some replica has a second version. */
static uint64_t space_bytes(const struct gpu *g, uint32_t space, bool *second)
{
    uint64_t bytes = 0;
    *second = false;
    for (const struct replica *r = g->replicas.oldest; r; r = r->newer) {
        if (r->space != space) continue;
        bytes += replica_bytes(r) - replica_shadow_bytes(r);
        if (r->former) bytes += replica_bytes(r->former) - replica_shadow_bytes(r->former);
        *second |= r->former != NULL;
    }
    return bytes;
}

uint64_t replica_space_left(const struct gpu *g, const struct replica *r)
{
    bool second;
    if (!r->space_bytes_max) return UINT64_MAX;
    uint64_t bytes = space_bytes(g, r->space, &second);
    return bytes < r->space_bytes_max ? r->space_bytes_max - bytes : 0;
}

bool replica_may_grow(const struct gpu *g, const struct replica *r, uint64_t more)
{
    bool second;
    if (!r->space_bytes_max || !more) return true;
    uint64_t bytes = space_bytes(g, r->space, &second);
    return !second || bytes + more <= r->space_bytes_max;
}

/* ---- the list by last use ---- */

static void list_remove(struct replicas *all, struct replica *r)
{
    if (r->older)
        r->older->newer = r->newer;
    else
        all->oldest = r->newer;
    if (r->newer)
        r->newer->older = r->older;
    else
        all->newest = r->older;
    r->older = r->newer = NULL;
}

static void list_append(struct replicas *all, struct replica *r)
{
    r->older = all->newest;
    r->newer = NULL;
    if (all->newest)
        all->newest->newer = r;
    else
        all->oldest = r;
    all->newest = r;
}

struct replica *replica_find(struct gpu *g, uint64_t id)
{
    struct replica *r = g->replicas.buckets[bucket_of(id)];
    while (r && r->id != id)
        r = r->hash_next;
    return r;
}

struct replica *replica_make(struct gpu *g, uint64_t id, uint32_t space, uint32_t dimension)
{
    struct replicas *all = &g->replicas;
    struct replica *r = fault_here("replica: make") ? NULL : calloc(1, sizeof *r);
    if (!r) return NULL;
    r->id = id;
    r->space = space;
    r->dimension = dimension;
    r->hash_next = all->buckets[bucket_of(id)];
    all->buckets[bucket_of(id)] = r;
    list_append(all, r);
    all->count++;
    return r;
}

void replica_hold(struct gpu *g, struct replica *r, bool reads)
{
    r->holders++;
    r->readers += reads;
    if (r->successor) return;
    list_remove(&g->replicas, r);
    list_append(&g->replicas, r);
}

void replica_account(struct gpu *g, const struct replica *r, uint64_t before)
{
    g->replicas.bytes += replica_bytes(r) - before;
    atomic_store_explicit(&g->share->usage.replica_bytes, g->replicas.bytes, memory_order_relaxed);
}

static void release_ranges(struct gpu *g, struct replica *r)
{
    uint64_t before = replica_bytes(r);
    for (int i = 0; i < RANGES_MAX; i++)
        g->ops->range_release(g->device, &r->ranges[i]);
    replica_account(g, r, before);
}

void replica_discard(struct gpu *g, struct replica *r)
{
    if (!r) return;
    release_ranges(g, r);
    free(r);
}

/* What its successor shared with it is the successor's alone then. */
static void drop_former(struct gpu *g, struct replica *r)
{
    struct replica *former = r->former;
    uint64_t before = replica_bytes(r);
    assert(former->holders == 0);
    r->former = NULL;
    replica_discard(g, former);
    replica_account(g, r, before);
}

void replica_let_go(struct gpu *g, struct replica *r, bool reads)
{
    assert(r->holders > 0 && r->readers >= reads);
    r->holders--;
    r->readers -= reads;
    if (r->successor && !r->holders) drop_former(g, r->successor);
}

/* Where the bucket of a replica points to it. */
static struct replica **place_of(struct replicas *all, const struct replica *r)
{
    struct replica **at = &all->buckets[bucket_of(r->id)];
    while (*at != r)
        at = &(*at)->hash_next;
    return at;
}

void replica_drop(struct gpu *g, struct replica *r)
{
    assert(!replica_in_use(r));
    struct replicas *all = &g->replicas;
    list_remove(all, r);
    *place_of(all, r) = r->hash_next;
    all->count--;
    replica_discard(g, r);
}

void replica_supersede(struct gpu *g, struct replica *r, struct replica *next)
{
    struct replicas *all = &g->replicas;
    assert(r->holders && !r->former && !r->successor);
    *place_of(all, r) = next;
    list_remove(all, r);
    list_append(all, next);
    next->former = r;
    r->successor = next;
}

void replicas_finish(struct gpu *g)
{
    while (g->replicas.oldest) {
        struct replica *r = g->replicas.oldest;
        if (r->former) {
            r->former->holders = 0;
            drop_former(g, r);
        }
        r->holders = 0;
        replica_drop(g, r);
    }
}

struct cuda_rows replica_rows(const struct replica *r)
{
    return (struct cuda_rows){.dimension = r->dimension,
                              .rows = (const float *)r->ranges[RANGE_ROWS].base,
                              .norms = (const float *)r->ranges[RANGE_NORMS].base,
                              .count = r->rows};
}
