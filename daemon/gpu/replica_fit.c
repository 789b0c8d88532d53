#include "daemon/gpu/replica_fit.h"

#include "daemon/gpu/evict.h"
#include "daemon/gpu/replica.h"
#include "daemon/gpu/tasks.h"
#include "kernels/vectors.h"

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
        replica_account(g, r, total);
        /* A range that moves when it shrinks needs memory for that first; it may as well stay. */
        if (result == DEVICE_NO_MEMORY && bytes <= before && range->bytes == before)
            return DEVICE_OK;
        if (result != DEVICE_NO_MEMORY || !evict_oldest(g, r)) break;
    }
    if (result != DEVICE_OK || range->bytes <= before) return result;
    return g->ops->clear(g->device, range->base + before, range->bytes - before, stream);
}

/* Codes of rows that are gone are taken out of the checksums first, so their ranges stay. */
static bool wants_less(const struct replica *r, int i, uint64_t bytes)
{
    const struct device_range *range = &r->ranges[i];
    if (r->shadow_only && i >= RANGE_SHADOW) return false;
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

/* Returns what all replicas have but the rows of r. */
static uint64_t others_of(const struct gpu *g, const struct replica *r)
{
    return g->replicas.bytes - (replica_bytes(r) - replica_shadow_bytes(r));
}

enum device_result replica_fit(struct gpu *g, struct replica *r, const struct replica_room *room,
                               device_stream stream, bool *wait)
{
    bool grows = false, shrinks = false;
    int ranges = replica_own_ranges(r);
    uint64_t wanted = 0;
    for (int i = 0; i < ranges; i++) {
        grows |= needs_more(&r->ranges[i], room->bytes[i]);
        shrinks |= wants_less(r, i, room->bytes[i]);
        wanted += replica_mapped(g, room->bytes[i]);
    }
    if (!grows && !shrinks) return DEVICE_OK;
    if (r->holders > 1 && (shrinks || g->ops->range_moves(g->device))) {
        *wait = true;
        return DEVICE_OK;
    }
    if (wanted > g->replicas.bytes_max) return DEVICE_NO_MEMORY;
    while (grows && others_of(g, r) + wanted > g->replicas.bytes_max)
        if (!evict_oldest(g, r)) return DEVICE_NO_MEMORY;
    enum device_result result = DEVICE_OK;
    for (int i = 0; i < ranges && result == DEVICE_OK; i++) {
        struct device_range *range = &r->ranges[i];
        if (needs_more(range, room->bytes[i]) || wants_less(r, i, room->bytes[i]))
            result = fit_range(g, r, range, room->bytes[i], room->most[i], stream);
    }
    return result;
}
