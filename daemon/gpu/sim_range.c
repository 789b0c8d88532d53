#include "daemon/gpu/sim_range.h"

#include <string.h>

/* No more addresses than a device has. */
static const uint64_t ADDRESSED_BYTES = UINT64_C(1) << 47;

static uint64_t in_granules(const struct sim_ranges *s, uint64_t bytes)
{
    uint64_t granularity = s->memory->granularity;
    return (bytes + granularity - 1) / granularity * granularity;
}

/* True if a range may have so many bytes. */
static bool may_have(const struct sim_ranges *s, const struct device_range *r, uint64_t bytes)
{
    return bytes <= r->bytes_max && bytes <= s->settings->vram_bytes;
}

/* Without virtual memory no addresses can be reserved: `inside` stays NULL until the first
 * resize. */
enum device_result sim_range_reserve(const struct sim_ranges *s, uint64_t bytes_max,
                                     struct device_range *r)
{
    if (bytes_max > ADDRESSED_BYTES) return DEVICE_NO_MEMORY;
    struct sim_span *span = s->settings->vmm ? sim_span_create(s->memory, bytes_max) : NULL;
    if (s->settings->vmm && !span) return DEVICE_NO_MEMORY;
    *r = (struct device_range){.bytes_max = bytes_max, .inside = span};
    return DEVICE_OK;
}

/* Old and new memory exist at the same time while one is copied to the other. */
static bool move_range(const struct sim_ranges *s, struct device_range *r, uint64_t bytes)
{
    struct sim_span *old = r->inside, *fresh = NULL;
    if (bytes) {
        fresh = sim_span_create(s->memory, bytes);
        if (!fresh || !sim_span_resize(s->memory, fresh, bytes)) {
            sim_span_destroy(s->memory, fresh);
            return false;
        }
        uint64_t keep = r->bytes < bytes ? r->bytes : bytes;
        if (old && keep) memcpy(fresh->base, old->base, keep);
    }
    sim_span_destroy(s->memory, old);
    r->inside = fresh;
    return true;
}

/* A range that shrank may share less. */
static uint64_t shared_bytes(const struct sim_ranges *s, const struct device_range *r)
{
    const struct sim_span *span = r->inside;
    uint64_t bytes = 0;
    for (uint32_t i = 0; r->shared && i < span->granule_count; i++)
        if (sim_span_shares(s->memory, span, i)) bytes += s->memory->granularity;
    return bytes;
}

enum device_result sim_range_resize(const struct sim_ranges *s, struct device_range *r,
                                    uint64_t bytes)
{
    if (!may_have(s, r, bytes)) return DEVICE_NO_MEMORY;
    bytes = in_granules(s, bytes);
    bool done = bytes == r->bytes  ? true
                : s->settings->vmm ? sim_span_resize(s->memory, r->inside, bytes)
                                   : move_range(s, r, bytes);
    if (!done) return DEVICE_NO_MEMORY;
    r->bytes = bytes;
    r->base = bytes ? ((struct sim_span *)r->inside)->base : NULL;
    r->shared = shared_bytes(s, r);
    return DEVICE_OK;
}

/* ---- a second one ---- */

static void copy_on(const struct sim_ranges *s, struct sim_stream *on, void *to, const void *from,
                    uint64_t bytes)
{
    struct sim_work w = {.kind = WORK_COPY, .to = to, .from = from, .bytes = bytes};
    if (bytes) sim_stream_add(s->streams, on, &w);
}

enum device_result sim_range_fork(const struct sim_ranges *s, struct device_range *r,
                                  uint64_t bytes, struct sim_stream *on,
                                  struct device_range *second)
{
    if (r->twin) sim_misuse("range_fork", "%p has a twin", (void *)r->base);
    if (!may_have(s, r, bytes)) return DEVICE_NO_MEMORY;
    bool maps = s->settings->vmm;
    bytes = in_granules(s, bytes);
    uint64_t kept = bytes < r->bytes ? bytes : r->bytes;
    struct sim_span *span = NULL;
    if (maps || bytes) span = sim_span_create(s->memory, maps ? r->bytes_max : bytes);
    bool made = span && (!maps || sim_span_share(s->memory, r->inside, span, kept)) &&
                sim_span_resize(s->memory, span, bytes);
    if (!made && (maps || bytes)) {
        sim_span_destroy(s->memory, span);
        return DEVICE_NO_MEMORY;
    }
    *second = (struct device_range){.base = bytes ? span->base : NULL,
                                    .bytes = bytes,
                                    .bytes_max = r->bytes_max,
                                    .twin = r,
                                    .shared = maps ? kept : 0,
                                    .inside = span};
    r->twin = second;
    if (!maps) copy_on(s, on, second->base, r->base, kept);
    return DEVICE_OK;
}

enum device_result sim_range_own(const struct sim_ranges *s, struct device_range *second,
                                 const struct sim_part *part, struct sim_stream *on)
{
    struct sim_memory *m = s->memory;
    struct sim_span *span = second->inside;
    uint64_t granule = m->granularity, end = part->first + part->bytes, wanted = 0;
    if (!second->shared || !part->bytes) return DEVICE_OK;
    uint32_t from = (uint32_t)(part->first / granule),
             to = (uint32_t)(in_granules(s, end) / granule);
    for (uint32_t i = from; i < to; i++)
        if (sim_span_shares(m, span, i)) wanted += granule;
    if (wanted > part->limit || wanted / granule > m->granules_free) return DEVICE_NO_MEMORY;
    for (uint32_t i = from; i < to; i++) {
        if (!sim_span_shares(m, span, i)) continue;
        if (!sim_span_own(m, span, i)) return DEVICE_ERROR;
        second->shared -= granule;
        copy_on(s, on, second->base + i * granule, second->twin->base + i * granule, granule);
    }
    return DEVICE_OK;
}

void sim_range_release(const struct sim_ranges *s, struct device_range *r)
{
    if (r->twin) {
        r->twin->shared = 0;
        r->twin->twin = NULL;
    }
    sim_span_destroy(s->memory, r->inside);
    *r = (struct device_range){0};
}
