#include "daemon/gpu/replica.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/gpu/evict.h"
#include "daemon/gpu/tasks.h"

static uint32_t bucket_of(uint64_t id)
{
    return (uint32_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 52) % REPLICA_BUCKETS;
}

uint64_t replica_bytes(const struct replica *r)
{
    uint64_t bytes = 0;
    for (int i = 0; i < RANGES_MAX; i++)
        bytes += r->ranges[i].bytes;
    return bytes;
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

void replica_hold(struct gpu *g, struct replica *r)
{
    r->holders++;
    list_remove(&g->replicas, r);
    list_append(&g->replicas, r);
}

void replica_let_go(struct replica *r)
{
    assert(r->holders > 0);
    r->holders--;
}

static void account(struct gpu *g, uint64_t before, const struct replica *r)
{
    g->replicas.bytes += replica_bytes(r) - before;
    atomic_store_explicit(&g->share->usage.replica_bytes, g->replicas.bytes, memory_order_relaxed);
}

static void release_ranges(struct gpu *g, struct replica *r)
{
    uint64_t before = replica_bytes(r);
    for (int i = 0; i < RANGES_MAX; i++)
        g->ops->range_release(g->device, &r->ranges[i]);
    account(g, before, r);
}

void replica_drop(struct gpu *g, struct replica *r)
{
    assert(r->holders == 0);
    struct replicas *all = &g->replicas;
    release_ranges(g, r);
    list_remove(all, r);
    struct replica **at = &all->buckets[bucket_of(r->id)];
    while (*at != r)
        at = &(*at)->hash_next;
    *at = r->hash_next;
    all->count--;
    free(r);
}

void replicas_finish(struct gpu *g)
{
    while (g->replicas.oldest) {
        g->replicas.oldest->holders = 0;
        replica_drop(g, g->replicas.oldest);
    }
}

/* ---- room ---- */

/* Grows one range, of at most bytes_max ever, to at least `bytes`, evicting other replicas as long
 * as that may help. */
static enum device_result fit_range(struct gpu *g, struct replica *r, struct device_range *range,
                                    uint64_t bytes, uint64_t bytes_max, device_stream stream)
{
    uint64_t before = range->bytes;
    enum device_result result;
    for (;;) {
        uint64_t total = replica_bytes(r);
        result = DEVICE_OK;
        if (!range->bytes_max) result = g->ops->range_reserve(g->device, bytes_max, range);
        if (result == DEVICE_OK) result = g->ops->range_resize(g->device, range, bytes);
        account(g, total, r);
        /* A range that moves when it shrinks needs memory for that first; it may as well stay. */
        if (result == DEVICE_NO_MEMORY && bytes <= before && range->bytes == before)
            return DEVICE_OK;
        if (result != DEVICE_NO_MEMORY || !evict_oldest(g, r)) break;
    }
    if (result != DEVICE_OK || range->bytes <= before) return result;
    return g->ops->clear(g->device, range->base + before, range->bytes - before, stream);
}

static bool wants_less(const struct device_range *range, uint64_t bytes)
{
    return range->bytes / 2 > bytes && range->bytes > (UINT64_C(16) << 20);
}

static bool needs_more(const struct device_range *range, uint64_t bytes)
{
    return bytes > range->bytes;
}

/* Addresses are limited: as many are reserved as the rows could need, if they fit the device. */
struct replica_room replica_room_of_rows(const struct gpu *g, uint32_t dimension, uint64_t rows)
{
    uint64_t row_bytes = vector_stride(dimension) * sizeof(float);
    uint64_t bytes_max = g->replicas.range_bytes_max, rows_max = bytes_max / row_bytes + 1;
    return (struct replica_room){
        .bytes = {[RANGE_ROWS] = rows * row_bytes,
                  [RANGE_NORMS] = rows * sizeof(float),
                  [RANGE_IDS] = rows * sizeof(uint64_t)},
        .most = {[RANGE_ROWS] = bytes_max,
                 [RANGE_NORMS] = rows_max * sizeof(float),
                 [RANGE_IDS] = rows_max * sizeof(uint64_t)},
    };
}

enum device_result replica_fit(struct gpu *g, struct replica *r, const struct replica_room *room,
                               device_stream stream, bool *wait)
{
    bool grows = false, shrinks = false;
    uint64_t wanted = 0;
    for (int i = 0; i < RANGES_MAX; i++) {
        grows |= needs_more(&r->ranges[i], room->bytes[i]);
        shrinks |= wants_less(&r->ranges[i], room->bytes[i]);
        wanted += room->bytes[i];
    }
    if (!grows && !shrinks) return DEVICE_OK;
    if (r->holders > 1 && (shrinks || g->ops->range_moves(g->device))) {
        *wait = true;
        return DEVICE_OK;
    }
    if (wanted > g->replicas.bytes_max) return DEVICE_NO_MEMORY;
    while (grows && g->replicas.bytes - replica_bytes(r) + wanted > g->replicas.bytes_max)
        if (!evict_oldest(g, r)) return DEVICE_NO_MEMORY;
    enum device_result result = DEVICE_OK;
    for (int i = 0; i < RANGES_MAX && result == DEVICE_OK; i++) {
        struct device_range *range = &r->ranges[i];
        if (needs_more(range, room->bytes[i]) || wants_less(range, room->bytes[i]))
            result = fit_range(g, r, range, room->bytes[i], room->most[i], stream);
    }
    return result;
}

struct cuda_rows replica_rows(const struct replica *r)
{
    return (struct cuda_rows){.dimension = r->dimension,
                              .rows = (const float *)r->ranges[RANGE_ROWS].base,
                              .norms = (const float *)r->ranges[RANGE_NORMS].base,
                              .count = r->rows};
}
