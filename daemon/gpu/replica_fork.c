/* replica_fork: a second version of a replica, for uploads that cannot wait for its readers;
 * declared in replica_fit.h. */
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/gpu/evict.h"
#include "daemon/gpu/replica.h"
#include "daemon/gpu/replica_fit.h"
#include "daemon/gpu/tasks.h"

static uint64_t budget_left(const struct gpu *g)
{
    const struct replicas *all = &g->replicas;
    return all->bytes < all->bytes_max ? all->bytes_max - all->bytes : 0;
}

static enum device_result fork_range(struct gpu *g, struct replica *r, struct replica *next, int i,
                                     uint64_t bytes, device_stream stream)
{
    struct device_range *from = &r->ranges[i], *to = &next->ranges[i];
    uint64_t more = bytes > from->bytes ? bytes - from->bytes : 0;
    if (g->ops->range_moves(g->device)) more = bytes;
    enum device_result result;
    /* to evict other spaces' replicas would not help */
    if (more + replica_bytes(next) > replica_space_left(g, r)) return DEVICE_NO_MEMORY;
    do {
        result = DEVICE_NO_MEMORY;
        uint64_t before = replica_bytes(next);
        if (more <= budget_left(g)) result = g->ops->range_fork(g->device, from, bytes, stream, to);
        replica_account(g, next, before);
    } while (result == DEVICE_NO_MEMORY && evict_oldest(g, r));
    /* the device may have given more than was asked for */
    if (result == DEVICE_OK && replica_bytes(next) > replica_space_left(g, r))
        return DEVICE_NO_MEMORY;
    if (result != DEVICE_OK || to->bytes <= from->bytes) return result;
    return g->ops->clear(g->device, to->base + from->bytes, to->bytes - from->bytes, stream);
}

enum device_result replica_fork(struct gpu *g, struct replica *r, const struct replica_room *room,
                                device_stream stream, struct replica **out)
{
    struct replica *next = fault_here("replica: fork") ? NULL : malloc(sizeof *next);
    *out = next;
    if (!next) return DEVICE_NO_MEMORY;
    *next = *r;
    next->version = 0;
    next->shadow.whole = false; /* the second version makes its own */
    next->holders = next->readers = next->rereaders = 0;
    for (int i = 0; i < RANGES_MAX; i++)
        next->ranges[i] = (struct device_range){0};
    enum device_result result = DEVICE_OK;
    for (int i = 0; i < replica_own_ranges(r) && result == DEVICE_OK; i++)
        if (r->ranges[i].bytes_max) result = fork_range(g, r, next, i, room->bytes[i], stream);
    if (result == DEVICE_OK) replica_supersede(g, r, next);
    return result;
}

enum device_result replica_own(struct gpu *g, struct replica *r, int range, uint64_t first,
                               uint64_t bytes, device_stream stream)
{
    struct device_range *its = &r->ranges[range];
    if (!its->shared) return DEVICE_OK;
    enum device_result result;
    uint64_t left, room;
    do {
        uint64_t before = replica_bytes(r);
        left = replica_space_left(g, r), room = budget_left(g);
        result = g->ops->range_own(g->device, its, first, bytes, left < room ? left : room, stream);
        replica_account(g, r, before);
    } while (result == DEVICE_NO_MEMORY && left >= room && evict_oldest(g, r));
    return result;
}
