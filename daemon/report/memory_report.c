#include "daemon/report/memory_report.h"

#include "daemon/cards/cards.h"
#include "daemon/report/scheduler_report.h"
#include "daemon/store/contents.h"

static enum wire_content_kind kind_of(const struct resident *r)
{
    switch (r->ops->kind) {
    case RESIDENT_COLLECTION: return WIRE_COLLECTION;
    case RESIDENT_GRAPH: return WIRE_GRAPH;
    case RESIDENT_ATTRACTOR: return WIRE_ATTRACTOR;
    case RESIDENT_KINDS: break;
    }
    return WIRE_COLLECTION;
}

static struct wire_content content_of(const struct backend *gpu, const struct content *c)
{
    const struct resident *r = c->resident;
    struct wire_content out = {
        .name = r->name,
        .number = r->number,
        .kind = kind_of(r),
        .needed_bytes = c->needed_bytes,
        .taken_bytes = c->taken_bytes,
        .shared_bytes = c->shared_bytes,
    };
    if (!gpu) return out;
    struct replica_info replica = replica_info(gpu, r);
    out.card = replica.card;
    out.vram_taken_bytes = replica.bytes;
    out.vram_needed_bytes = replica.needed_bytes;
    return out;
}

void memory_report(const struct report_sources *from, struct space *space, uint64_t after,
                   struct wire_memory *out)
{
    struct content found[ENCODE_CONTENTS_MAX];
    struct wire_space_stats use;
    bool more;
    scheduler_report_space(space, heap_owner_bytes(from->heap, space->number), &use);
    *out = (struct wire_memory){
        .host_bytes = use.host_bytes,
        .host_bytes_max = use.host_bytes_max,
        .vram_bytes = from->gpu ? replicas_space_bytes(from->gpu, space) : 0,
        .vram_bytes_max = use.vram_bytes_max,
    };
    out->count = store_contents(space, after, found, ENCODE_CONTENTS_MAX, &more);
    for (size_t i = 0; i < out->count; i++)
        out->contents[i] = content_of(from->gpu, &found[i]);
    if (more) out->next = out->contents[out->count - 1].number;
}
